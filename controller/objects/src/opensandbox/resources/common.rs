//! What several kinds have.

use serde::{Deserialize, Serialize};

use crate::whole::{Time, or_default};

/// Something that is true of an object. A condition that would be False is removed; only its type and its
/// status are certain to be there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// The name of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// True or False.
    pub status: String,
    /// Why, in one word for programs.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the condition changed last: its status, its reason or its message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
