//! Changes of the table while a slot runs: of sandboxes that nobody asks for, each moved between two
//! addresses.
//!
//! Sandgate hears of them as it would of a peer's, one `POST /refresh` each; in a version that takes no
//! pushes, through its routes file, which it reads whole each time.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::{self, Fleet, SIDE};
use crate::message;
use crate::process::Running;

/// How often the routes file is written anew: so many changes at a time as the rate asks for.
const FILE_STEP: Duration = Duration::from_millis(200);
/// How often changes are pushed.
const PUSH_STEP: Duration = Duration::from_millis(5);
/// How long an answer to a push may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who makes the changes.
pub(crate) enum Source<'a> {
    /// Sandgate is told of them on this port.
    Push { port: u16 },
    /// Sandgate reads them from its routes file.
    File { path: &'a Path, fleet: Fleet },
    /// A server of ours makes them itself.
    Told(&'a mut Running),
    /// This contender has no table.
    Nobody,
}

/// Changes under way.
pub(crate) enum Changes {
    None,
    Made { stop: Sender<()>, maker: JoinHandle<Result<u64>> },
    Told { rate: u32, since: Instant },
}

impl Changes {
    pub(crate) fn begin(source: Source<'_>, rate: u32) -> Result<Self> {
        if rate == 0 {
            return Ok(Changes::None);
        }
        match source {
            Source::Nobody => Ok(Changes::None),
            Source::Told(server) => {
                server.tell(&rate.to_string())?;
                Ok(Changes::Told { rate, since: Instant::now() })
            }
            Source::File { path, fleet } => {
                let (stop, stopped) = channel();
                let path = path.to_owned();
                let maker = thread::spawn(move || write(&path, fleet, rate, &stopped));
                Ok(Changes::Made { stop, maker })
            }
            Source::Push { port } => {
                let (stop, stopped) = channel();
                let maker = thread::spawn(move || push(port, rate, &stopped));
                Ok(Changes::Made { stop, maker })
            }
        }
    }

    /// Stops them, and says how many there were.
    pub(crate) fn end(self, server: Option<&mut Running>) -> Result<u64> {
        match (self, server) {
            (Changes::None, _) => Ok(0),
            (Changes::Made { stop, maker }, _) => {
                drop(stop);
                maker.join().map_err(|_| Failure::Asked("the maker of changes panicked".to_owned()))?
            }
            (Changes::Told { rate, since }, Some(server)) => {
                server.tell("0")?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand")]
                let made = (since.elapsed().as_secs_f64() * f64::from(rate)) as u64;
                Ok(made)
            }
            (Changes::Told { .. }, None) => {
                Err(Failure::Asked("the server of the changes is gone".to_owned()))
            }
        }
    }
}

/// Calls `make` with the numbers of the changes that are due, at every step until it is stopped. Says how
/// many there were.
fn at_rate(
    rate: u32,
    step: Duration,
    stop: &Receiver<()>,
    mut make: impl FnMut(std::ops::Range<u64>) -> Result<()>,
) -> Result<u64> {
    let started = Instant::now();
    let mut made = 0;
    for number in 1.. {
        let wait = (started + step * number).saturating_duration_since(Instant::now());
        if stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand")]
        let due = (started.elapsed().as_secs_f64() * f64::from(rate)) as u64;
        if due > made {
            make(made..due)?;
            made = due;
        }
    }
    Ok(made)
}

/// Which sandbox a change is of.
fn sandbox(change: u64) -> usize {
    usize::try_from(change).unwrap_or_default() % SIDE
}

/// Writes the file anew at every step, each time with the next sandboxes moved.
fn write(path: &Path, fleet: Fleet, rate: u32, stop: &Receiver<()>) -> Result<u64> {
    let mut moved = [false; SIDE];
    at_rate(rate, FILE_STEP, stop, |changes| {
        for change in changes {
            moved[sandbox(change)] ^= true;
        }
        let new: PathBuf = path.with_extension("new");
        fs::write(&new, fleet.routes_file(&moved)).doing("writing routes")?;
        fs::rename(&new, path).doing("replacing routes")
    })
}

/// Pushes one message a change over one connection.
fn push(port: u16, rate: u32, stop: &Receiver<()>) -> Result<u64> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).doing("connecting to push changes")?;
    stream.set_nodelay(true).doing("sending at once")?;
    stream.set_read_timeout(Some(PATIENCE)).doing("a time limit")?;
    // Later slots go on with greater versions.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = u64::try_from(since.as_micros()).unwrap_or(1);
    at_rate(rate, PUSH_STEP, stop, |changes| {
        for change in changes {
            let body = pushed(change, first + change);
            let length = body.len();
            let head = "POST /refresh HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json";
            // In one piece, as a client would.
            let request = format!("{head}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(request.as_bytes()).doing("pushing")?;
            let status = answered(&mut stream)?;
            if status != 204 {
                return Err(Failure::Asked(format!("a push was answered with {status}: {body}")));
            }
        }
        Ok(())
    })
}

/// Nobody is sent to these addresses: nobody asks for these sandboxes.
fn pushed(change: u64, version: u64) -> String {
    let number = sandbox(change);
    let moved = u8::from(change / SIDE as u64 % 2 == 1);
    let [_, _, high, low] = fleet::side_address(number, false).octets();
    let id = fleet::id('d', number);
    format!(
        r#"{{"id":"{id}","namespace":"bench","name":"d{number:07}","uid":"d{number}","owner":"","state":"running","ip":"10.{moved}.{high}.{low}","resourceVersion":"{version}"}}"#
    )
}

fn answered(stream: &mut TcpStream) -> Result<u16> {
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        if let Some(response) = message::response(&answer) {
            return Ok(response.status);
        }
        match stream.read(&mut buffer).doing("waiting for the answer to a push")? {
            0 => return Err(Failure::Asked("a push was not answered".to_owned())),
            length => answer.extend_from_slice(&buffer[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_sandboxes_move_as_are_said_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("routes.json");
        let fleet = Fleet { addresses: 2, routes: 2 };
        let changes = Changes::begin(Source::File { path: &path, fleet }, 100).expect("begun");
        while !path.exists() {
            thread::yield_now();
        }
        let made = changes.end(None).expect("ended");
        let file: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&path).expect("written")).expect("JSON");
        let routes = file["routes"].as_array().expect("a list");
        let is_moved = |route: &&serde_json::Value| {
            route["name"].as_str().is_some_and(|name| name.starts_with('c'))
                && route["ip"].as_str().is_some_and(|ip| ip.starts_with("127.201."))
        };
        assert!(made > 0);
        assert_eq!(routes.iter().filter(is_moved).count() as u64, made);
    }

    /// Answers every push with this status, and says what was pushed.
    fn receiver(status: &'static str) -> (u16, Receiver<serde_json::Value>) {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (say, said) = channel();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                let text = std::str::from_utf8(&buffer[..length]).expect("text");
                let (head, body) = text.split_once("\r\n\r\n").expect("a head");
                assert!(head.starts_with("POST /refresh HTTP/1.1\r\n"));
                let _ = say.send(serde_json::from_str(body).expect("JSON"));
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").expect("an answer");
            }
        });
        (port, said)
    }

    #[test]
    fn each_change_is_pushed_once_with_a_version_of_its_own() {
        let (port, said) = receiver("204 No Content");
        let changes = Changes::begin(Source::Push { port }, 1_000).expect("begun");
        let first = said.recv_timeout(PATIENCE).expect("a push");
        let made = changes.end(None).expect("ended");
        let rest: Vec<serde_json::Value> = said.iter().collect();
        assert_eq!(rest.len() as u64 + 1, made);
        assert_eq!((&first["id"], &first["state"]), (&"bench--d0000000".into(), &"running".into()));
        let version = |message: &serde_json::Value| {
            message["resourceVersion"].as_str().and_then(|text| text.parse().ok())
        };
        let versions: Vec<Option<u64>> = std::iter::once(&first).chain(&rest).map(version).collect();
        assert!(versions.is_sorted_by(|a, b| a < b) && versions.iter().all(Option::is_some));
    }

    #[test]
    fn a_push_that_is_refused_ends_the_run() {
        let (port, said) = receiver("401 Unauthorized");
        let changes = Changes::begin(Source::Push { port }, 1_000).expect("begun");
        said.recv_timeout(PATIENCE).expect("a push");
        let error = changes.end(None).expect_err("refused").to_string();
        assert!(error.contains("401"), "{error}");
    }
}
