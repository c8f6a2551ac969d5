//! What a load generator is told and what it says afterwards, the same for all three: wrk, the open loop, HTTP/2.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::{Asked, DOMAIN, Walk, id};
use crate::process;
use crate::wrk;

/// One slot's requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Questions {
    /// Where the gateway listens.
    pub(crate) port: u16,
    /// The port of the sandboxes, which is in every host name.
    pub(crate) upstream: u16,
    pub(crate) asked: Asked,
    /// How many IDs there are.
    pub(crate) count: usize,
    /// Where the walk through them begins.
    pub(crate) start: usize,
    pub(crate) seconds: f64,
    /// A new connection for every request.
    pub(crate) close: bool,
}

impl Questions {
    pub(crate) fn walk(&self) -> Walk {
        Walk { count: self.count, at: self.start % self.count }
    }

    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Whether the gateway has to refuse these.
    pub(crate) fn refused(&self) -> bool {
        self.asked.refused()
    }

    /// The host of a request, before and after the seven digits of its number.
    pub(crate) fn host_around_number(&self) -> (String, String) {
        let id = id(self.asked.letter(), 0);
        let stem = &id[..id.len() - 7];
        (format!("{}-{stem}", self.upstream), format!(".{DOMAIN}"))
    }

    /// A request in HTTP/1.1, before and after the seven digits of its number.
    pub(crate) fn around_number(&self) -> (String, String) {
        let (before, after) = self.host_around_number();
        let close = if self.close { "connection: close\r\n" } else { "" };
        (format!("GET / HTTP/1.1\r\nhost: {before}"), format!("{after}\r\n{close}\r\n"))
    }

    /// As arguments of this program's own generators, or of the wrk script.
    pub(crate) fn to_args(&self) -> [String; 7] {
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

    pub(crate) fn from_args(args: &[String]) -> Option<Self> {
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
pub(crate) struct Answers {
    /// Requests answered as they should be.
    pub(crate) requests: u64,
    pub(crate) seconds: f64,
    /// Requests answered otherwise, or not at all.
    pub(crate) failed: u64,
    pub(crate) latency: Option<Latency>,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// How requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Generator {
    /// wrk, as fast as answers come.
    Wrk,
    /// Ours over HTTP/2, as fast as answers come.
    Http2,
    /// Ours at a constant rate.
    OpenLoop { rate: u32 },
}

impl Generator {
    /// Runs it on a core of its own choosing until the slot is over.
    pub(crate) fn run(self, core: usize, questions: &Questions) -> Result<Answers> {
        self.run_by(|subcommand| Ok(process::own(core, subcommand)), core, questions)
    }

    /// The same, before everything else that wants the core.
    pub(crate) fn run_ahead(self, core: usize, questions: &Questions) -> Result<Answers> {
        self.run_by(|subcommand| process::ahead(core, subcommand), core, questions)
    }

    fn run_by(
        self,
        own: impl Fn(&str) -> Result<Command>,
        core: usize,
        questions: &Questions,
    ) -> Result<Answers> {
        let (name, mut command) = match self {
            Generator::Wrk => ("wrk", wrk::command(core, questions)?),
            Generator::Http2 => ("the HTTP/2 generator", own("__http2")?),
            Generator::OpenLoop { rate } => {
                let mut command = own("__open-loop")?;
                command.arg(rate.to_string());
                ("the open loop", command)
            }
        };
        if self != Generator::Wrk {
            command.args(questions.to_args());
        }
        let output = command.stderr(Stdio::piped()).output().doing(format!("starting {name}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let answers = match self {
            Generator::Wrk => wrk::answers(&text, questions),
            _ => serde_json::from_str(text.trim()).ok(),
        };
        answers.filter(|_| output.status.success()).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            Failure::Asked(format!("{name} failed ({}): {said}{text}", output.status))
        })
    }
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
