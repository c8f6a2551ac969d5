//! Many messages in one request: NDJSON, one message a line.
//!
//! Each line stands for itself: it is applied or refused whatever becomes of the others, in the order of the lines. The
//! answer has one line of JSON for each: its number from 1, the status it would have got alone, and what was wrong.
//! Empty lines are skipped and not answered. What is over the bounds is refused as a whole, and nothing of it applied.

use std::fmt::Write as _;

use http::StatusCode;
use serde_json::json;

use super::serve::{Answer, MAX_MESSAGE};

pub(crate) const MEDIA_TYPE: &str = "application/x-ndjson";
/// The largest batch.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// The most messages in one.
pub(crate) const MAX_LINES: usize = 10_000;

/// Messages that are handed to the table together, between two looks at what else there is to do.
const STRETCH: usize = 64;

/// The messages, with their numbers.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    (1..).zip(body.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty())
}

/// `take` is given some messages at a time, and answers each.
pub(crate) async fn take(body: &[u8], mut take: impl FnMut(&[&[u8]]) -> Vec<Answer>) -> String {
    let mut answer = String::new();
    let mut lines = lines(body);
    loop {
        let stretch: Vec<(usize, &[u8])> = lines.by_ref().take(STRETCH).collect();
        if stretch.is_empty() {
            return answer;
        }
        let fitting = |message: &&[u8]| message.len() <= MAX_MESSAGE;
        let messages: Vec<&[u8]> = stretch.iter().map(|(_, message)| *message).filter(fitting).collect();
        let mut answers = take(&messages).into_iter();
        for (line, message) in stretch {
            let too_large = || {
                (StatusCode::PAYLOAD_TOO_LARGE, Some(format!("a message has at most {MAX_MESSAGE} bytes")))
            };
            let answered = if fitting(&message) { answers.next() } else { Some(too_large()) };
            // Each message has been answered.
            let Some((status, error)) = answered else { continue };
            let status = status.as_u16();
            // Writing to a text does not fail.
            let _written = match error {
                None => writeln!(answer, r#"{{"line":{line},"status":{status}}}"#),
                Some(error) => {
                    writeln!(answer, r#"{{"line":{line},"status":{status},"error":{}}}"#, json!(error))
                }
            };
        }
        tokio::task::yield_now().await;
    }
}
