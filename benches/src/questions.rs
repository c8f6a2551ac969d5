//! What a load generator is told and what it says afterwards, the same for all of them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fleet::{Asked, DOMAIN, Walk, id};

/// One slot's requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Questions {
    /// Where the gateway listens.
    pub port: u16,
    /// The port of the sandboxes, which is in every host name.
    pub upstream: u16,
    /// Whom they ask for.
    pub asked: Asked,
    /// How many IDs there are.
    pub count: usize,
    /// Where the walk through them begins.
    pub start: usize,
    /// How long they go on.
    pub seconds: f64,
    /// A new connection for every request.
    pub close: bool,
}

impl Questions {
    /// The walk through the IDs.
    pub fn walk(&self) -> Walk {
        Walk { count: self.count, at: self.start % self.count }
    }

    /// How long they go on.
    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Whether the gateway has to refuse these.
    pub fn refused(&self) -> bool {
        self.asked.refused()
    }

    /// The host of a request, before and after the seven digits of its number.
    pub fn host_around_number(&self) -> (String, String) {
        let id = id(self.asked.letter(), 0);
        let stem = &id[..id.len() - 7];
        (format!("{}-{stem}", self.upstream), format!(".{DOMAIN}"))
    }

    /// A request in HTTP/1.1, before and after the seven digits of its number.
    pub fn around_number(&self) -> (String, String) {
        let (before, after) = self.host_around_number();
        let close = if self.close { "connection: close\r\n" } else { "" };
        (format!("GET / HTTP/1.1\r\nhost: {before}"), format!("{after}\r\n{close}\r\n"))
    }

    /// As arguments of this program's own generators, or of the wrk script.
    pub fn to_args(&self) -> [String; 7] {
        let letter = self.asked.letter().to_string();
        let close = u8::from(self.close).to_string();
        let numbers = [self.count, self.start].map(|number| number.to_string());
        let [count, start] = numbers;
        [
            self.port.to_string(),
            self.upstream.to_string(),
            letter,
            count,
            start,
            self.seconds.to_string(),
            close,
        ]
    }

    /// The other way round.
    pub fn from_args(args: &[String]) -> Option<Self> {
        let [port, upstream, letter, count, start, seconds, close] = args else { return None };
        let asked = Asked::ALL.into_iter().find(|asked| letter.chars().eq([asked.letter()]))?;
        Some(Self {
            port: port.parse().ok()?,
            upstream: upstream.parse().ok()?,
            asked,
            count: count.parse().ok().filter(|&count| count > 0)?,
            start: start.parse().ok()?,
            seconds: seconds.parse().ok()?,
            close: close == "1",
        })
    }
}

/// What came of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answers {
    /// Requests answered as they should be.
    pub requests: u64,
    /// How long it took.
    pub seconds: f64,
    /// Requests answered otherwise, or not at all.
    pub failed: u64,
    /// How long answers took, where that was measured.
    pub latency: Option<Latency>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn questions() -> Questions {
        Questions {
            port: 1,
            upstream: 2,
            asked: Asked::Paused,
            count: 3,
            start: 4,
            seconds: 1.5,
            close: true,
        }
    }

    #[test]
    fn questions_survive_a_command_line() {
        assert_eq!(Questions::from_args(&questions().to_args()), Some(questions()));
        assert_eq!(Questions::from_args(&[]), None);
    }

    #[test]
    fn a_request_names_its_sandbox_in_the_host() {
        let (before, after) = questions().around_number();
        let text = format!("{before}{:07}{after}", 42);
        let host = crate::fleet::host(2, 'p', 42);
        assert_eq!(text, format!("GET / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"));
    }
}
