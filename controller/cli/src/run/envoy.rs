//! Which Envoy to start: the one named, the one in PATH, or the pinned one from the cache, installed if need
//! be.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{RunError, install};
use crate::failure::{Failure, usage};
use crate::terminal::note;

#[cfg(test)]
mod tests;

/// The one pin of the Envoy version, as the module was built for it.
pub(super) fn pinned() -> &'static str {
    include_str!("../../../../envoy/VERSION").trim()
}

pub(super) async fn find(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) if is_program(path) => path.to_owned(),
        Some(path) => {
            let path = path.display();
            return Err(usage!("no program at {path} (from --envoy or SANDGATE_ENVOY)"));
        }
        None => match in_path(std::env::var_os("PATH").as_deref()) {
            Some(path) => path,
            None => return install_pinned().await,
        },
    };
    let version = version(&path).await?;
    if version != pinned() {
        note(&format!(
            "warning: {} is Envoy {version}, and the module is built for {}",
            path.display(),
            pinned()
        ));
    }
    Ok(path)
}

/// The pinned Envoy of the cache, installed now if it is not there.
pub(super) async fn install_pinned() -> Result<PathBuf, Failure> {
    Ok(install::envoy(&install::cache_folder()?, pinned()).await?)
}

/// The first `envoy` in the folders of PATH.
fn in_path(path: Option<&OsStr>) -> Option<PathBuf> {
    // An empty folder in PATH means the working folder: not a place to start programs from unasked.
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("envoy"))
        .find(|path| is_program(path))
}

pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Asks the program for its version.
pub(super) async fn version(envoy: &Path) -> Result<String, RunError> {
    let output = Command::new(envoy).arg("--version").kill_on_drop(true).output().await;
    let output = output.map_err(RunError::start(envoy))?;
    let text = String::from_utf8_lossy(&output.stdout);
    parse_version(&text).ok_or_else(|| RunError::NotEnvoy(envoy.to_owned()))
}

/// From `envoy  version: COMMIT/1.40.0/Clean/RELEASE/BoringSSL`.
fn parse_version(text: &str) -> Option<String> {
    let (_, build) = text.split_once("version:")?;
    let version = build.trim().split('/').nth(1)?;
    (!version.is_empty()).then(|| version.to_owned())
}
