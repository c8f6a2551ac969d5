//! How requests are made: by wrk, by the open loop, or over HTTP/2.

use std::process::{Command, Stdio};

use crate::failure::{Doing as _, Failure, Result};
use crate::open_loop;
use crate::process;
use crate::wrk;

pub(crate) use sandgate_benches::questions::{Answers, Latency, Questions};

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
                return open_loop::run_by(own(open_loop::SUBCOMMAND)?, questions, rate);
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
