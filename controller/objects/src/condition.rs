//! The conditions of a status.

use serde::{Deserialize, Serialize};

use crate::decode::Keep;
use crate::metadata::str_of;

/// The condition of an object that serves.
pub const READY: &str = "Ready";
/// The condition of an object whose work is done.
pub const FINISHED: &str = "Finished";

/// A condition of a status. Of all conditions [`READY`] and [`FINISHED`] are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Condition<S> {
    /// The name of the condition.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<S>,
    /// `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<S>,
    /// Why the condition has this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<S>,
}

impl<S: AsRef<str>> Keep for Condition<S> {
    fn keep(&self) -> bool {
        matches!(str_of(&self.kind), READY | FINISHED)
    }
}

/// Whether the condition of this name is there and true.
pub(crate) fn is_true<S: AsRef<str>>(conditions: &[Condition<S>], name: &str) -> bool {
    find(conditions, name).is_some_and(|condition| str_of(&condition.status) == "True")
}

/// The reason of the condition of this name.
pub(crate) fn reason_of<'a, S: AsRef<str>>(conditions: &'a [Condition<S>], name: &str) -> &'a str {
    find(conditions, name).map_or("", |condition| str_of(&condition.reason))
}

fn find<'a, S: AsRef<str>>(conditions: &'a [Condition<S>], name: &str) -> Option<&'a Condition<S>> {
    conditions.iter().find(|condition| str_of(&condition.kind) == name)
}
