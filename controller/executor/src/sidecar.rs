//! Where a task of sidecar mode runs: in the namespaces of the main container, with its environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::proc;

/// The variable that says which container a process is of.
const CONTAINER: &str = "SANDBOX_MAIN_CONTAINER";

/// The namespaces, in this order: the mount namespace last, as `/proc` is another one in it.
const NAMESPACES: [(&str, LinkNameSpaceType); 5] = [
    ("uts", LinkNameSpaceType::HostNameAndNISDomainName),
    ("ipc", LinkNameSpaceType::InterProcessCommunication),
    ("net", LinkNameSpaceType::Network),
    ("pid", LinkNameSpaceType::ProcessID),
    ("mnt", LinkNameSpaceType::Mount),
];

/// The main container: one of its processes, with what was read of it.
pub(crate) struct Main {
    namespaces: Vec<(LinkNameSpaceType, File)>,
    /// Its environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

impl Main {
    /// The main container of this name: that of the process with the lowest pid that has its variable.
    pub(crate) fn find(name: &str) -> io::Result<Self> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut unreadable = None;
        for pid in proc::pids()?.into_iter().filter(|pid| *pid != own) {
            let text = match fs::read(format!("/proc/{pid}/environ")) {
                Ok(text) => text,
                Err(error) => {
                    // One that has ended meanwhile is not there, or has none any more.
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        unreadable = Some(error);
                    }
                    continue;
                }
            };
            let environment = parse(&text);
            if environment.get(OsStr::new(CONTAINER)).is_none_or(|value| value != name) {
                continue;
            }
            let open = |(file, kind)| Ok((kind, File::open(format!("/proc/{pid}/ns/{file}"))?));
            let namespaces: io::Result<_> = NAMESPACES.into_iter().map(open).collect();
            let namespaces = namespaces.map_err(|error| {
                let what = format!("the namespaces of process {pid} of the main container cannot be had");
                lacking(&what, &error)
            })?;
            return Ok(Self { namespaces, environment });
        }
        Err(match unreadable {
            None => io::Error::other(format!("no process has the environment variable {CONTAINER}={name}")),
            Some(error) => {
                let what =
                    format!("no process whose environment can be read has the variable {CONTAINER}={name}");
                lacking(&what, &error)
            }
        })
    }

    /// Moves this process there. Its children are in the other pid namespace; it is not.
    pub(crate) fn enter(&self) -> io::Result<()> {
        for (kind, namespace) in &self.namespaces {
            move_into_link_name_space(namespace.as_fd(), Some(*kind))?;
        }
        std::env::set_current_dir("/")
    }
}

/// An error of `/proc`, and what it comes of if it is one of permissions.
fn lacking(what: &str, error: &io::Error) -> io::Error {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => "; this container needs CAP_SYS_PTRACE",
        _ => "",
    };
    io::Error::other(format!("{what}: {error}{hint}"))
}

fn parse(environ: &[u8]) -> BTreeMap<OsString, OsString> {
    let mut environment = BTreeMap::new();
    for entry in environ.split(|byte| *byte == 0) {
        if let Some(at) = entry.iter().position(|byte| *byte == b'=')
            && at > 0
        {
            let (name, value) =
                (OsStr::from_bytes(&entry[..at]), OsString::from_vec(entry[at + 1..].to_vec()));
            environment.insert(name.to_owned(), value);
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::parse;

    #[test]
    fn an_environment_is_read_with_whatever_is_in_it() {
        let read = parse(b"A=1\0B=x=y\0EMPTY=\0broken\0=no\0L=\xff\0");
        let names: Vec<_> = read.keys().map(|name| name.to_str().unwrap()).collect();
        assert_eq!(names, ["A", "B", "EMPTY", "L"]);
        assert_eq!(read[OsStr::new("B")], "x=y");
    }
}
