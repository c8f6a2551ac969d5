//! wrk with a script of ours: a host of its own in every request, and the figures in one line.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Doing as _, Result};
use crate::fleet::Walk;
use crate::generator::{Answers, Questions};
use crate::process;

/// As many as keep one worker of Envoy busy.
const CONNECTIONS: &str = "32";
const SCRIPT: &str = include_str!("wrk.lua");
const MARK: &str = "figures:";

pub(crate) fn command(core: usize, questions: &Questions) -> Result<Command> {
    let mut command = process::pinned(core, "wrk");
    command.args(["-t1", "-c", CONNECTIONS, "-d"]).arg(format!("{}s", whole_seconds(questions.seconds)));
    command.arg("-s").arg(script()?).arg(format!("http://127.0.0.1:{}/", questions.port)).arg("--");
    let (head, tail) = questions.around_number();
    let escaped = tail.replace("\r\n", "|");
    command.args([head.replace("\r\n", "|"), escaped]);
    command.args([questions.count, questions.walk().at, Walk::STEP].map(|number| number.to_string()));
    Ok(command)
}

/// wrk knows whole seconds only.
pub(crate) fn whole_seconds(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few seconds")]
    let whole = seconds.ceil().max(1.0) as u64;
    whole
}

/// The script, in a file: wrk reads none from elsewhere. The same bytes every time, so that runs may share
/// it.
fn script() -> Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("sandgate-bench-{}.lua", std::process::id()));
    if !path.exists() {
        fs::write(&path, SCRIPT).doing(format!("writing {}", path.display()))?;
    }
    Ok(path)
}

/// Takes the script away again.
pub(crate) fn tidy() {
    let _ = fs::remove_file(std::env::temp_dir().join(format!("sandgate-bench-{}.lua", std::process::id())));
}

/// What the script's last line says. wrk counts every answer and, of those, the ones with a status from 400.
pub(crate) fn answers(output: &str, questions: &Questions) -> Option<Answers> {
    let line = output.lines().find_map(|line| line.strip_prefix(MARK))?;
    let numbers: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [answered, micros, refused, broken] = numbers[..] else { return None };
    let wanted = if questions.refused() { refused } else { answered.checked_sub(refused)? };
    Some(Answers {
        requests: wanted,
        seconds: micros as f64 / 1e6,
        failed: answered - wanted + broken,
        latency: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Asked;

    fn questions(asked: Asked) -> Questions {
        Questions { port: 1, upstream: 2, asked, count: 3, start: 4, seconds: 1.0, close: false }
    }

    #[test]
    fn refusals_are_answers_where_they_are_due_and_failures_elsewhere() {
        let output = "Running 1s test\n  1000 requests\nfigures: 1000 2000000 10 3\n";
        let served = answers(output, &questions(Asked::Served)).expect("figures");
        assert_eq!((served.requests, served.failed), (990, 13));
        assert_eq!(served.seconds, 2.0);
        let refused = answers(output, &questions(Asked::Unknown)).expect("figures");
        assert_eq!((refused.requests, refused.failed), (10, 993));
        assert_eq!(answers("unable to connect\n", &questions(Asked::Served)), None);
    }
}
