//! When to look again because of a time that stands in an object.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::Again;

/// Just after `at`: a deadline is past only when it lies before now.
pub(crate) fn until(at: Timestamp, now: Timestamp) -> Again {
    let wait = at.duration_since(now).saturating_add(SignedDuration::from_millis(1));
    Again::After(Duration::try_from(wait).unwrap_or_default())
}
