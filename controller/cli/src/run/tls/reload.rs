//! Polls the PEM files while Envoy runs, and makes Envoy read them when they have changed and are good.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use sandgate_peering::pem;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use super::files::Wrong;
use super::{CLIENT_CA, SECTION, bell, files, name};
use crate::config::Tls;
use crate::run::RunError;
use crate::terminal::note;

/// How often the files are checked.
const POLL: Duration = Duration::from_secs(1);

/// Device, inode, length, times of change: of each file, as far as it is there.
type Signature = Vec<Option<(u64, u64, u64, [i64; 4])>>;
/// Reads the files of a secret. The result is a line for the operator.
type Check = Box<dyn Fn() -> Result<String, Wrong> + Send>;

/// Checks the files until it is dropped.
pub(in crate::run) struct Reload(JoinHandle<()>);

impl Reload {
    /// Starts to check the files of the section, whose secrets are in this folder. Call it before Envoy reads
    /// them: only changes after this call are reported.
    pub(in crate::run) fn start(tls: &Tls, folder: &Path) -> Self {
        let mut secrets = secrets(tls, folder);
        let mut ticks = interval(POLL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self(tokio::spawn(async move {
            loop {
                ticks.tick().await;
                for word in secrets.iter_mut().filter_map(Secret::poll) {
                    note(&word);
                }
            }
        }))
    }

    /// The same, of secrets that another process has written into this folder. `None` if it has written none.
    pub(in crate::run) fn resume(folder: &Path) -> Result<Option<Self>, RunError> {
        let path = folder.join(SECTION);
        if !path.exists() {
            return Ok(None);
        }
        let read = || Ok(Tls::parse(&serde_json::from_slice(&fs::read(&path)?)?)?);
        match read() {
            Ok(tls) => Ok(Some(Self::start(&tls, folder))),
            Err(source) => Err(RunError::Section { path, source }),
        }
    }
}

impl Drop for Reload {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn secrets(tls: &Tls, folder: &Path) -> Vec<Secret> {
    let pairs = tls.certificates.iter().enumerate().map(|(index, pair)| {
        let files = vec![pair.certificate.clone(), pair.key.clone()];
        let pair = pair.clone();
        let check = move || {
            let pair = files::pair(&pair)?;
            let warning = pair.out_of_date().map(|word| format!("; warning: {word}")).unwrap_or_default();
            Ok(format!("loaded again: {}{warning}", pair.shown()))
        };
        Secret::new(files, bell(folder, &name(index)), Box::new(check))
    });
    let authorities = tls.client_ca.iter().map(|file| {
        let path = file.clone();
        let check = move || {
            let read = pem::authorities(&path);
            let count = read.map_err(|error| Wrong { key: CLIENT_CA, reason: error.to_string() })?.len();
            Ok(format!("loaded again: {}: the authorities of clients, {count}", path.display()))
        };
        Secret::new(vec![file.clone()], bell(folder, CLIENT_CA), Box::new(check))
    });
    pairs.chain(authorities).collect()
}

/// The files of one secret.
pub(super) struct Secret {
    files: Vec<PathBuf>,
    bell: PathBuf,
    check: Check,
    seen: Signature,
    /// What was wrong at the last look. Files that are replaced one after the other are wrong in between, so
    /// only what is still wrong at the next look is told.
    doubt: Option<Wrong>,
}

impl Secret {
    fn new(files: Vec<PathBuf>, bell: PathBuf, check: Check) -> Self {
        let seen = signature(&files);
        Self { files, bell, check, seen, doubt: None }
    }

    /// Checks whether the files have changed. Returns a line for the operator.
    pub(super) fn poll(&mut self) -> Option<String> {
        // Taken before the files are read, so that the next poll sees a change in between.
        let now = signature(&self.files);
        if now == self.seen {
            let wrong = self.doubt.take()?;
            return Some(format!("warning: the last good certificate stays, because of {wrong}"));
        }
        match (self.check)() {
            Ok(word) => {
                self.doubt = None;
                if let Err(error) = ring(&self.bell) {
                    // The signature stays, so the next poll tries again.
                    return Some(format!("warning: cannot write to {}: {error}", self.bell.display()));
                }
                self.seen = now;
                Some(word)
            }
            Err(wrong) => {
                self.doubt = Some(wrong);
                self.seen = now;
                None
            }
        }
    }
}

/// Makes Envoy read the files of the secret again: it listens for renames.
fn ring(bell: &Path) -> io::Result<()> {
    let fresh = bell.join("changing");
    fs::write(&fresh, [])?;
    fs::rename(fresh, bell.join("changed"))
}

fn signature(files: &[PathBuf]) -> Signature {
    let of = |path: &PathBuf| {
        let found = fs::metadata(path).ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some((found.dev(), found.ino(), found.len(), times))
    };
    files.iter().map(of).collect()
}
