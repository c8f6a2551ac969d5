//! Copying this program to where another container finds it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Copies this program to a file that anybody may run. The image has no shell and no `cp`.
///
/// # Errors
/// If it cannot be read or written.
pub fn install(file: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Under another name first: a file that runs cannot be written to, and nobody shall start half of one.
    let mut written = file.as_os_str().to_owned();
    written.push(".new");
    fs::copy("/proc/self/exe", &written)?;
    fs::set_permissions(&written, Permissions::from_mode(0o755))?;
    fs::rename(&written, file)
}
