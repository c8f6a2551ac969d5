//! Many messages in one request: NDJSON, one message a line.
//!
//! Each line stands for itself: it is applied or refused whatever becomes of the others, in the order of the lines. The
//! answer has one line of JSON for each: its number from 1, the status it would have got alone, and what was wrong.
//! Empty lines are skipped and not answered. What is over the bounds is refused as a whole, and nothing of it applied.

use http::StatusCode;
use serde_json::json;

use super::serve::MAX_MESSAGE;

pub(crate) const MEDIA_TYPE: &str = "application/x-ndjson";
/// The largest batch.
pub(crate) const MAX_BYTES: usize = 8 << 20;
/// The most messages in one.
pub(crate) const MAX_LINES: usize = 10_000;

/// Messages between two looks at what else there is to do.
const STRETCH: usize = 64;

/// The messages, with their numbers.
pub(crate) fn lines(body: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    (1..).zip(body.split(|byte| *byte == b'\n')).filter(|(_, line)| !line.trim_ascii().is_empty())
}

pub(crate) async fn take(body: &[u8], mut take: impl FnMut(&[u8]) -> (StatusCode, Option<String>)) -> String {
    let mut answer = String::new();
    for (count, (line, message)) in lines(body).enumerate() {
        if count % STRETCH == STRETCH - 1 {
            tokio::task::yield_now().await;
        }
        let (status, error) = if message.len() > MAX_MESSAGE {
            (StatusCode::PAYLOAD_TOO_LARGE, Some(format!("a message has at most {MAX_MESSAGE} bytes")))
        } else {
            take(message)
        };
        let result = match error {
            None => json!({ "line": line, "status": status.as_u16() }),
            Some(error) => json!({ "line": line, "status": status.as_u16(), "error": error }),
        };
        answer.push_str(&result.to_string());
        answer.push('\n');
    }
    answer
}
