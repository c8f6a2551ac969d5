//! What is in `task.json`: OpenSandbox's format, and beside it the key `sandgate`, which OpenSandbox's
//! executor passes over.

use jiff::Timestamp;
use sandgate_executor_wire::{Process, Task};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A task as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<Timestamp>,
    #[serde(default)]
    pub(crate) process: Option<Process>,
    #[serde(default)]
    pub(crate) pod_template_spec: Option<Value>,
    #[serde(default)]
    pub(crate) status: Status,
    /// What only we write.
    #[serde(default)]
    pub(crate) sandgate: Own,
}

/// What OpenSandbox's format has no place for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Own {
    /// Tasks are listed and started in this order.
    #[serde(default)]
    pub(crate) sequence: u64,
    /// When it was found to run too long. It is written before the process is stopped, so that however it
    /// ends, and whoever sees that, it has ended by its timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timed_out_at: Option<Timestamp>,
}

/// The state, and one entry with what is known of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[serde(default)]
    pub(crate) state: State,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) sub_statuses: Vec<SubStatus>,
}

/// OpenSandbox's states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum State {
    /// It has not started.
    #[default]
    Pending,
    /// It runs.
    Running,
    /// It has ended with 0.
    Succeeded,
    /// It has ended otherwise.
    Failed,
    /// Theirs, while it is stopped because of its timeout. We never write it.
    Timeout,
    /// Anything else.
    #[serde(other)]
    Unknown,
}

/// What is known of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubStatus {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) exit_code: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Timestamp>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(code: &i32) -> bool {
    *code == 0
}

impl State {
    /// Whether it will not change any more.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Record {
    /// A task that was just accepted.
    pub(crate) fn new(task: Task, sequence: u64) -> Self {
        Self {
            name: task.name,
            deletion_timestamp: None,
            process: task.process,
            pod_template_spec: task.pod_template_spec,
            status: Status::default(),
            sandgate: Own { sequence, timed_out_at: None },
        }
    }

    /// Whether its deletion was asked for.
    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// How long it may run, in seconds.
    pub(crate) fn timeout(&self) -> Option<i64> {
        self.process.as_ref()?.timeout_seconds
    }
}

#[cfg(test)]
mod tests {
    use super::{Record, State};

    #[test]
    fn a_file_of_opensandboxs_executor_is_read() {
        let text = r#"{
          "name": "old",
          "deletionTimestamp": "2026-06-12T10:00:00.123456789+08:00",
          "process": {"command": ["sleep", "60"], "timeoutSeconds": 5},
          "podTemplateSpec": null,
          "status": {"state": "Timeout", "subStatuses": [{"reason": "TaskTimeout", "startedAt": "2026-06-12T01:59:00Z"}]}
        }"#;
        let record: Record = serde_json::from_str(text).unwrap();
        assert!(record.is_deleting());
        assert_eq!(record.timeout(), Some(5));
        assert_eq!(record.status.state, State::Timeout);
        assert_eq!(record.sandgate.sequence, 0);
    }

    #[test]
    fn a_state_that_nobody_knows_is_read_and_is_not_final() {
        let record: Record = serde_json::from_str(r#"{"name":"x","status":{"state":"Frozen"}}"#).unwrap();
        assert_eq!(record.status.state, State::Unknown);
        assert!(!record.status.state.is_final());
    }
}
