//! The one place that reads the time of day. Everything else is told it.

use jiff::Timestamp;

/// The time.
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

/// As the API says it: RFC 3339 in UTC, to the second.
pub(crate) fn text(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
