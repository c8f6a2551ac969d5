//! Envoy's admin pages, read the plain way.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin(pub(crate) SocketAddr);

impl Admin {
    /// The page, if it was answered with 200.
    pub(crate) fn get(self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect_timeout(&self.0, Duration::from_secs(1)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: admin\r\nconnection: close\r\n\r\n").ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        body(&answer)
    }

    pub(crate) fn json(self, path: &str) -> Option<Value> {
        serde_json::from_str(&self.get(path)?).ok()
    }

    /// The port of a listener, once Envoy is live.
    pub(crate) fn listening(self, name: &str) -> Option<u16> {
        self.get("/ready")?;
        let listeners = self.json("/listeners?format=json")?;
        let ours = listeners["listener_statuses"].as_array()?.iter().find(|one| one["name"] == name)?;
        ours.pointer("/local_address/socket_address/port_value")?.as_u64()?.try_into().ok()
    }
}

fn body(answer: &[u8]) -> Option<String> {
    let at = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..at]).ok()?.to_ascii_lowercase();
    if !head.starts_with("http/1.1 200") {
        return None;
    }
    let rest = &answer[at + 4..];
    let chunked = head.lines().any(|line| line.replace(' ', "") == "transfer-encoding:chunked");
    let body = if chunked { unchunked(rest)? } else { rest.to_vec() };
    String::from_utf8(body).ok()
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).ok()?.trim(), 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(line + 2..line + 2 + size)?);
        rest = rest.get(line + 2 + size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_chunks_is_put_together_and_a_refusal_is_none() {
        let chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nB\r\n, gate\r\nway\r\n0\r\n\r\n";
        assert_eq!(body(chunks).as_deref(), Some("hello, gate\r\nway"));
        assert_eq!(body(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").as_deref(), Some("ok"));
        assert_eq!(body(b"HTTP/1.1 503 Service Unavailable\r\n\r\nno"), None);
        assert_eq!(body(&chunks[..70]), None, "a page that was cut is no page");
    }
}
