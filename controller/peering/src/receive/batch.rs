//! Many messages in one request: NDJSON, one message a line.
//!
//! Lines are applied in order, and each is accepted or refused on its own. The answer has one line of JSON for each: its
//! number from 1, the status that it would have got alone, and what was wrong. Empty lines are skipped and not answered. A
//! batch over a limit is refused whole, and nothing of it is applied.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::json;

use super::admission::MAX_MESSAGE;
use super::apply::Answer;

pub(crate) const MEDIA_TYPE: &str = "application/x-ndjson";
/// The largest batch.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// The most messages in one.
pub(crate) const MAX_LINES: usize = 10_000;

/// The messages that are applied before other tasks get a turn.
const TURN: usize = 64;

/// The messages, with their numbers.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    (1..).zip(body.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty())
}

/// Applies the messages of a body, some at a time, and writes the answer.
pub(crate) async fn apply(body: &[u8], mut apply: impl FnMut(&[&[u8]]) -> Vec<Answer>) -> String {
    let mut answer = String::new();
    let mut lines = lines(body);
    loop {
        let turn: Vec<(usize, &[u8])> = lines.by_ref().take(TURN).collect();
        if turn.is_empty() {
            return answer;
        }
        let fitting = |message: &&[u8]| message.len() <= MAX_MESSAGE;
        let messages: Vec<&[u8]> = turn.iter().map(|(_, message)| *message).filter(fitting).collect();
        let mut answers = apply(&messages).into_iter();
        for (line, message) in turn {
            let too_large = || {
                (StatusCode::PAYLOAD_TOO_LARGE, Some(format!("a message has at most {MAX_MESSAGE} bytes")))
            };
            let answered = if fitting(&message) { answers.next() } else { Some(too_large()) };
            // `apply` answers each message.
            let Some((status, error)) = answered else { continue };
            let status = status.as_u16();
            // Writing to a string does not fail.
            let _ = match error {
                None => writeln!(answer, r#"{{"line":{line},"status":{status}}}"#),
                Some(error) => {
                    writeln!(answer, r#"{{"line":{line},"status":{status},"error":{}}}"#, json!(error))
                }
            };
        }
        tokio::task::yield_now().await;
    }
}
