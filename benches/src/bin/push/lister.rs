//! An API server that has nothing but a large list: OpenKruise sandboxes, streamed as the beginning of a
//! watch, again each time it is told to end the watch. It answers as fast as it is read.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use sandgate_benches::failure::{Doing as _, Result};
use serde_json::json;

/// Objects that are written at once.
const PIECE: usize = 256;
/// Between two bookmarks of a watch in which nothing happens.
const BOOKMARK: Duration = Duration::from_secs(1);

/// What the gateway is doing, as far as the server can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Idle,
    List,
    Commit,
}

impl Phase {
    pub(crate) const ALL: [Self; 3] = [Self::Idle, Self::List, Self::Commit];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::List => "list",
            Self::Commit => "commit",
        }
    }
}

pub(crate) struct Lister {
    address: SocketAddr,
    objects: usize,
    leavers: usize,
    phase: AtomicU8,
    /// Lists that have begun; also what their versions count.
    lists: AtomicU64,
    /// How often the watch was to end.
    ends: (Mutex<u64>, Condvar),
}

impl Lister {
    /// Serves from threads of its own, which end with the process. Every second list lacks the first
    /// `leavers` objects.
    pub(crate) fn start(objects: usize, leavers: usize) -> Result<Arc<Self>> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).doing("a port for the list")?;
        let lister = Arc::new(Self {
            address: listener.local_addr().doing("a port for the list")?,
            objects,
            leavers,
            phase: AtomicU8::new(Phase::Idle as u8),
            lists: AtomicU64::new(0),
            ends: Default::default(),
        });
        let shared = Arc::clone(&lister);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let lister = Arc::clone(&shared);
                // However a connection ends, the gateway asks again.
                thread::spawn(move || drop(lister.serve(&stream)));
            }
        });
        Ok(lister)
    }

    pub(crate) fn kubeconfig(&self) -> String {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", self.address) } }],
            "users": [{ "name": "u", "user": {} }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        })
        .to_string()
    }

    pub(crate) fn phase(&self) -> Phase {
        let raw = self.phase.load(Ordering::Acquire);
        Phase::ALL.into_iter().find(|phase| *phase as u8 == raw).unwrap_or(Phase::Idle)
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Ends the watch, so that everything is listed anew.
    pub(crate) fn again(&self) {
        *self.ends.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.ends.1.notify_all();
    }

    /// The list is in the gateway's table.
    pub(crate) fn listed(&self) {
        self.enter(Phase::Idle);
    }

    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut lines = BufReader::new(stream);
        loop {
            let mut first = String::new();
            if lines.read_line(&mut first)? == 0 {
                return Ok(());
            }
            let mut line = String::new();
            while lines.read_line(&mut line)? > 2 {
                line.clear();
            }
            let mut out = stream;
            if first.contains("sendInitialEvents=true") {
                return self.list(out);
            }
            let version = version(self.lists.load(Ordering::Relaxed));
            let body = json!({ "metadata": { "resourceVersion": version }, "items": [] }).to_string();
            let length = body.len();
            write!(
                out,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
            )?;
        }
    }

    /// Streams the list, then a watch until it is to end.
    fn list(&self, mut out: &TcpStream) -> io::Result<()> {
        let list = self.lists.fetch_add(1, Ordering::Relaxed) + 1;
        let ends = *self.ends.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.enter(Phase::List);
        out.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
        )?;
        let mut text = String::new();
        let first = if list.is_multiple_of(2) { self.leavers } else { 0 };
        for number in first..self.objects {
            object(&mut text, number, if number < self.leavers { version(list) } else { 1 });
            if number % PIECE == PIECE - 1 {
                chunk(out, &mut text)?;
            }
        }
        bookmark(&mut text, list, true);
        chunk(out, &mut text)?;
        // The first list is not measured, and nobody says when it is in.
        self.enter(if list == 1 { Phase::Idle } else { Phase::Commit });
        loop {
            let (said, waited) = self
                .ends
                .1
                .wait_timeout_while(
                    self.ends.0.lock().unwrap_or_else(PoisonError::into_inner),
                    BOOKMARK,
                    |said| *said == ends,
                )
                .unwrap_or_else(PoisonError::into_inner);
            drop(said);
            if !waited.timed_out() {
                break;
            }
            bookmark(&mut text, list, false);
            chunk(out, &mut text)?;
        }
        text.push_str(
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"again"}}"#,
        );
        text.push('\n');
        chunk(out, &mut text)?;
        out.write_all(b"0\r\n\r\n")
    }
}

/// The version of a list; an object that never leaves has version 1.
fn version(list: u64) -> u64 {
    1000 + list
}

fn chunk(mut out: &TcpStream, text: &mut String) -> io::Result<()> {
    let mut piece = format!("{:x}\r\n", text.len());
    piece.push_str(text);
    piece.push_str("\r\n");
    text.clear();
    out.write_all(piece.as_bytes())
}

fn object(text: &mut String, number: usize, version: u64) {
    let [_, a, b, c] = u32::try_from(number).unwrap_or_default().to_be_bytes();
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        r#"{{"type":"ADDED","object":{{"apiVersion":"agents.kruise.io/v1alpha1","kind":"Sandbox","metadata":{{"name":"s{number:07}","namespace":"bench","uid":"8c1f77d0-0000-4000-8000-{number:012}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{{"agents.kruise.io/owner":"bench"}}}},"spec":{{"paused":false}},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"True"}}],"podInfo":{{"podIP":"10.{a}.{b}.{c}"}}}}}}}}"#
    );
}

fn bookmark(text: &mut String, list: u64, complete: bool) {
    let annotations = if complete { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    let version = version(list);
    let _ = writeln!(
        text,
        r#"{{"type":"BOOKMARK","object":{{"apiVersion":"agents.kruise.io/v1alpha1","kind":"Sandbox","metadata":{{"resourceVersion":"{version}"{annotations}}}}}}}"#
    );
}
