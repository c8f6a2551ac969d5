//! Places at which a test kills the executor or holds a shim back. A release build has none of them.
//!
//! `SANDGATE_FAILPOINT=NAME` kills the process at that place, as `kill -9` does. `SANDGATE_HOLD=NAME:FILE`
//! lets it wait there until the file exists. `SANDGATE_FAULT=NAME:FILE` makes what is done there fail, as on
//! a full disk, while the file exists.

use std::io;

/// A named place.
#[cfg(debug_assertions)]
pub(crate) fn failpoint(name: &str) {
    use std::env::var;
    if var("SANDGATE_FAILPOINT").is_ok_and(|wanted| wanted == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
    if let Ok(hold) = var("SANDGATE_HOLD")
        && let Some((wanted, file)) = hold.split_once(':')
        && wanted == name
    {
        let reached = format!("{file}.reached");
        let _ = std::fs::write(reached, rustix::process::getpid().as_raw_nonzero().to_string());
        while !std::path::Path::new(file).exists() {
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
    }
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn failpoint(_: &str) {}

/// A named place whose work can fail.
#[cfg(debug_assertions)]
pub(crate) fn fault(name: &str) -> io::Result<()> {
    match std::env::var("SANDGATE_FAULT").as_deref().map(|fault| fault.split_once(':')) {
        Ok(Some((wanted, file))) if wanted == name && std::path::Path::new(file).exists() => {
            Err(rustix::io::Errno::NOSPC.into())
        }
        _ => Ok(()),
    }
}

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn fault(_: &str) -> io::Result<()> {
    Ok(())
}
