//! What is pushed, and as much of HTTP/1.1 as pushing it needs.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::time::Duration;

use sandgate_benches::failure::{Doing as _, Failure, Result};
use sandgate_benches::message;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One route message.
pub(crate) fn route(name: &str, uid: u64, state: &str, ip: IpAddr, version: u64) -> String {
    format!(
        r#"{{"id":"bench--{name}","namespace":"bench","name":"{name}","uid":"{uid}","owner":"","state":"{state}","ip":"{ip}","resourceVersion":"{version}"}}"#
    )
}

/// The `number`-th change of a fleet of so many sandboxes that nobody asks for: each moves, or sleeps and
/// wakes.
pub(crate) fn change(number: u64, fleet: u64, version: u64) -> String {
    let sandbox = number % fleet;
    let [.., high, low] = sandbox.to_be_bytes();
    let state = if number / fleet % 3 == 2 { "paused" } else { "running" };
    let place = if (number / fleet).is_multiple_of(2) { 201 } else { 202 };
    route(&format!("d{sandbox:07}"), sandbox, state, [127, place, high, low].into(), version)
}

/// A kept connection.
pub(crate) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Line {
    pub(crate) fn open(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).doing(format!("connecting to {to}"))?;
        stream.set_nodelay(true).doing("sending at once")?;
        stream.set_read_timeout(Some(PATIENCE)).doing("a time limit")?;
        Ok(Self { stream, buffer: Vec::new(), out: Vec::new() })
    }

    /// Adds a request to what will be sent.
    pub(crate) fn post(&mut self, path: &str, body: &[u8]) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        self.out.extend_from_slice(head.as_bytes());
        self.out.extend_from_slice(body);
    }

    /// Adds a request for a sandbox to what will be sent.
    pub(crate) fn get(&mut self, host: &str) {
        self.out.extend_from_slice(format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes());
    }

    /// Sends what was added.
    pub(crate) fn send(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).doing("sending")?;
        self.out.clear();
        Ok(())
    }

    /// The next answer: its status, and its body where it has one.
    pub(crate) fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let mut piece = [0; 65_536];
        loop {
            if let Some(response) = message::response(&self.buffer) {
                let whole: Vec<u8> = self.buffer.drain(..response.length).collect();
                if response.last {
                    return Err(Failure::Asked(format!("the connection ends: {}", response.status)));
                }
                return Ok((response.status, whole));
            }
            match self.stream.read(&mut piece).doing("waiting for an answer")? {
                0 => return Err(Failure::Asked("the connection ended without an answer".to_owned())),
                length => self.buffer.extend_from_slice(&piece[..length]),
            }
        }
    }

    /// Waits for so many answers of 204.
    pub(crate) fn taken(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let (status, answer) = self.answer()?;
            if status != 204 {
                let said = String::from_utf8_lossy(&answer);
                return Err(Failure::Asked(format!("a push was answered with {status}: {said}")));
            }
        }
        Ok(())
    }

    /// Sends changes as one batch, and waits until all are taken.
    pub(crate) fn batch(&mut self, changes: Range<u64>, fleet: u64, versions: u64) -> Result<()> {
        let count = usize::try_from(changes.end - changes.start).unwrap_or(usize::MAX);
        let lines: Vec<String> = changes.map(|number| change(number, fleet, versions + number)).collect();
        self.post("/refresh/batch", lines.join("\n").as_bytes());
        self.send()?;
        let (status, answer) = self.answer()?;
        let taken = String::from_utf8_lossy(&answer).matches("\"status\":204").count();
        if status == 200 && taken == count {
            return Ok(());
        }
        Err(Failure::Asked(format!("a batch was answered with {status}, and {taken} of {count} were taken")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_says_something_else_of_its_sandbox_than_the_one_before() {
        let said = |number| {
            let text = change(number, 10, 7);
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            (value["id"].clone(), value["ip"].clone(), value["state"].clone())
        };
        for number in 0..60 {
            assert_eq!(said(number).0, said(number + 10).0);
            assert_ne!(said(number), said(number + 10));
            assert_ne!(said(number).0, said(number + 1).0);
        }
    }
}
