//! What tasks a batch has.

use sandgate_executor_wire::{Process, Task};
use serde_json::Value;

use crate::strategic_merge::{self, Refused};

/// What a batch's tasks are made from.
#[derive(Clone, Copy, Debug)]
pub struct TaskSource<'a> {
    /// The batch's name.
    pub batch: &'a str,
    /// How many there are.
    pub replicas: usize,
    /// `spec.taskTemplate`: `{"spec": {"process": …, "timeoutSeconds": …}}`.
    pub template: Option<&'a Value>,
    /// `spec.shardTaskPatches`: the one of index i is for task i.
    pub patches: &'a [Value],
}

/// A batch whose tasks cannot be made. Trying again helps when the batch has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTask {
    /// There is nothing to run.
    #[error("task {0} has no process: taskTemplate.spec.process with a command is needed")]
    NoProcess(usize),
    /// The process has no command.
    #[error("task {0} has a process without a command")]
    NoCommand(usize),
    /// It is something else than a task template.
    #[error("task {index} is no task: {message}")]
    Malformed {
        /// Which one.
        index: usize,
        /// What is wrong.
        message: String,
    },
    /// The patch cannot be applied.
    #[error("shardTaskPatches[{index}] cannot be applied: {message}")]
    Patch {
        /// Which one.
        index: usize,
        /// What is wrong.
        message: String,
    },
}

/// Says which tasks a batch has.
pub trait TaskSchedulingStrategy: Send + Sync + 'static {
    /// Whether it has tasks.
    fn needs_tasks(&self, source: &TaskSource<'_>) -> bool;

    /// Its tasks, in the order of their index.
    ///
    /// # Errors
    /// None can be made of one of them. Tasks that run go on then.
    fn specs(&self, source: &TaskSource<'_>) -> Result<Vec<Task>, InvalidTask>;
}

/// The default: one task a replica, from the template and the patch of its index.
///
/// As with OpenSandbox, `timeoutSeconds` is always the template's: a patch of it has no effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromTemplate;

impl TaskSchedulingStrategy for FromTemplate {
    fn needs_tasks(&self, source: &TaskSource<'_>) -> bool {
        source.template.is_some_and(|template| !template.is_null())
    }

    fn specs(&self, source: &TaskSource<'_>) -> Result<Vec<Task>, InvalidTask> {
        let null = Value::Null;
        let template = source.template.unwrap_or(&null);
        let timeout = template.pointer("/spec/timeoutSeconds").and_then(Value::as_i64);
        let plain = source.patches.len() < source.replicas;
        // Most tasks have no patch: they are read once.
        let plain = plain.then(|| process(template, source.patches.len())).transpose()?;
        let process_of = |index: usize| match (source.patches.get(index), &plain) {
            (None, Some(plain)) => Ok(plain.clone()),
            (Some(patch), _) if !patch.is_null() => {
                let patched = strategic_merge::task(template, patch);
                let refused = |refused: Refused| InvalidTask::Patch { index, message: refused.to_string() };
                process(&patched.map_err(refused)?, index)
            }
            _ => process(template, index),
        };
        let task = |index| {
            let process = Process { timeout_seconds: timeout, ..process_of(index)? };
            Ok(Task { name: name(source.batch, index), process: Some(process), ..Task::default() })
        };
        (0..source.replicas).map(task).collect()
    }
}

fn process(template: &Value, index: usize) -> Result<Process, InvalidTask> {
    let process = template.pointer("/spec/process").filter(|process| !process.is_null());
    let process = process.ok_or(InvalidTask::NoProcess(index))?;
    let process: Process = serde::Deserialize::deserialize(process)
        .map_err(|error: serde_json::Error| InvalidTask::Malformed { index, message: error.to_string() })?;
    if process.command.is_empty() {
        return Err(InvalidTask::NoCommand(index));
    }
    Ok(process)
}

/// The name of a task.
pub(super) fn name(batch: &str, index: usize) -> String {
    format!("{batch}-{index}")
}

/// The index of a task of this name, if it is one of the batch.
pub(super) fn index(batch: &str, name: &str) -> Option<usize> {
    let digits = name.strip_prefix(batch)?.strip_prefix('-')?;
    let is_plain =
        digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    if is_plain { digits.parse().ok() } else { None }
}
