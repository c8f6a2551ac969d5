//! What the operator and the task executor say to each other, in the format of OpenSandbox.
//!
//! The executor listens on [`PORT`] of the pod. `POST` [`SET_TASKS`] takes the list of the tasks that shall
//! exist and answers the list of those that do; `GET` [`GET_TASKS`] answers the same list and changes
//! nothing. A status other than 2xx has an [`ErrorBody`].
//!
//! Both sides read leniently: unknown fields are ignored, and `null` is an absent value, as Go's encoder
//! writes an empty list so. Times are RFC 3339 text in UTC; see [`Terminated`].

#![forbid(unsafe_code)]

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The port of the executor in every pod, unless its command line says otherwise.
pub const PORT: u16 = 5758;
/// The longest body of a request, in bytes.
pub const MAX_REQUEST: usize = 1 << 20;
/// The longest answer to expect. A list has what one request asked for, what the request before it asked for
/// while that is being deleted, and of each task what became of it.
pub const MAX_ANSWER: usize = 4 * MAX_REQUEST;
/// `POST` the tasks that shall exist, as a JSON list; the answer is the list of those that do.
pub const SET_TASKS: &str = "/setTasks";
/// `GET` the tasks that exist.
pub const GET_TASKS: &str = "/getTasks";
/// `POST` one task, which is created beside the others. `GET` and `DELETE` have the name behind a slash.
pub const TASKS: &str = "/tasks";
/// `GET` this to learn whether the executor answers. It needs no token.
pub const HEALTH: &str = "/health";

/// `terminated.reason` of a task that ran longer than its timeout.
pub const REASON_TIMEOUT: &str = "TaskTimeout";
/// `terminated.reason` of a task whose process is gone and left no exit code.
pub const REASON_CRASHED: &str = "ProcessCrashed";
/// The exit code that both reasons come with: what a shell says of a process that was killed.
pub const EXIT_KILLED: i32 = 137;

/// A task: what shall run, and in an answer also what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// The name: unique in its executor, and the name of its folder on the disk.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// When its deletion was asked for, if it was. OpenSandbox's executor never says it, ours does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<String>,
    /// The process to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// A container to run instead. No executor implements it; it is kept as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_spec: Option<Value>,
    /// What became of the process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_status: Option<ProcessStatus>,
    /// What became of the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_status: Option<PodStatus>,
}

/// A process and what it is started with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// The program and its first arguments.
    #[serde(default, deserialize_with = "null_is_default")]
    pub command: Vec<String>,
    /// The arguments after those of `command`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// What is added to the environment of the executor, or of the main container in sidecar mode.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Where it starts. Empty: where the executor is, or `/` of the main container in sidecar mode.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub working_dir: String,
    /// How long it may run. Absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

/// A variable of the environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// Its name.
    #[serde(default, deserialize_with = "null_is_default")]
    pub name: String,
    /// Its value.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Where Kubernetes would take the value from. An executor cannot, and refuses the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<Value>,
}

/// What became of a process. At most one of the three is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// It has not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// It runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<Running>,
    /// It has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Terminated>,
}

/// Why a process has not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// In one word.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For a person.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// A process that runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Running {
    /// Since when, as RFC 3339 says it, to the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
}

/// A process that has ended. The times are RFC 3339 text, to the second: `2026-06-12T08:30:00Z`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminated {
    /// With which code. [`EXIT_KILLED`] if it ran out of time or left none.
    #[serde(default)]
    pub exit_code: i32,
    /// By which signal, if that is known and one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why, in one word: `Succeeded`, `Failed`, [`REASON_TIMEOUT`] or [`REASON_CRASHED`].
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for a person.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
}

/// As much of a pod's status as says what became of its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Among them `Ready`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodCondition {
    /// Which, such as `Ready`.
    #[serde(default, rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(default)]
    pub status: String,
}

/// The body of every answer that is not 2xx.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The text of the status, such as `Bad Request`.
    #[serde(default)]
    pub code: String,
    /// What is wrong, for a person.
    #[serde(default)]
    pub message: String,
}

fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{EnvVar, Process, Running, Task};

    #[test]
    fn a_list_that_go_wrote_as_null_is_an_empty_one() {
        let text = r#"{"name":"a","process":{"command":null,"args":null,"env":null,"workingDir":null},"podStatus":null}"#;
        let task: Task = serde_json::from_str(text).unwrap();
        assert_eq!(task, Task { name: "a".to_owned(), process: Some(Process::default()), ..Task::default() });
    }

    #[test]
    fn a_task_is_written_with_opensandboxs_names_and_without_what_it_has_not() {
        let process = Process {
            command: vec!["echo".to_owned()],
            env: vec![EnvVar { name: "A".to_owned(), value: "1".to_owned(), value_from: None }],
            working_dir: "/tmp".to_owned(),
            timeout_seconds: Some(5),
            ..Process::default()
        };
        let mut task = Task { name: "a".to_owned(), process: Some(process), ..Task::default() };
        task.process_status.get_or_insert_default().running =
            Some(Running { started_at: Some("2026-06-12T08:30:00Z".to_owned()) });
        assert_eq!(
            serde_json::to_string(&task).unwrap(),
            concat!(
                r#"{"name":"a","process":{"command":["echo"],"env":[{"name":"A","value":"1"}],"workingDir":"/tmp","#,
                r#""timeoutSeconds":5},"processStatus":{"running":{"startedAt":"2026-06-12T08:30:00Z"}}}"#
            )
        );
    }

    #[test]
    fn what_nobody_knows_is_passed_over() {
        let task: Task =
            serde_json::from_str(r#"{"name":"a","later":1,"process":{"command":["x"],"tty":true}}"#).unwrap();
        assert_eq!(task.process.unwrap().command, ["x"]);
    }
}
