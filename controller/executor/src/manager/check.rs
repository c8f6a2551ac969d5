//! What is wrong with a task, found before anything is done about it.

use std::collections::BTreeSet;

use sandgate_executor_wire::{Process, Task};

use super::{MOST_TASKS, Refused};
use crate::name;

/// A task that shall be created.
pub(super) fn task(task: &Task) -> Result<(), Refused> {
    name::check(&task.name).map_err(|why| {
        Refused::Invalid(format!("invalid task name {:?}: {why}", name::shortened(&task.name)))
    })?;
    let wrong = |why: BadProcess| Refused::Invalid(format!("task {}: {why}", task.name));
    if task.pod_template_spec.is_some() {
        return Err(Refused::Unsupported(format!(
            "task {}: podTemplateSpec: the container executor is not implemented; give the task a process",
            task.name
        )));
    }
    let process = task.process.as_ref().ok_or_else(|| wrong(BadProcess::Missing))?;
    self::process(process).map_err(wrong)
}

/// Why a process cannot be started.
#[derive(Debug, thiserror::Error)]
enum BadProcess {
    #[error("process is required")]
    Missing,
    #[error("process.command is empty")]
    NoCommand,
    #[error("process has a NUL character")]
    Nul,
    #[error("process.env {0}: valueFrom cannot be resolved here; give a value")]
    ValueFrom(String),
    #[error("process.env {0:?} is no name of a variable")]
    VariableName(String),
    #[error("process.timeoutSeconds is negative")]
    NegativeTimeout,
}

fn process(process: &Process) -> Result<(), BadProcess> {
    let mut words = process.command.iter().chain(&process.args);
    if words.next().is_none_or(String::is_empty) {
        return Err(BadProcess::NoCommand);
    }
    let texts = process.command.iter().chain(&process.args).chain([&process.working_dir]);
    if texts.chain(process.env.iter().map(|variable| &variable.value)).any(|text| text.contains('\0')) {
        return Err(BadProcess::Nul);
    }
    for variable in &process.env {
        if variable.value_from.is_some() {
            return Err(BadProcess::ValueFrom(variable.name.clone()));
        }
        if variable.name.contains(['=', '\0']) {
            return Err(BadProcess::VariableName(variable.name.clone()));
        }
    }
    if process.timeout_seconds.is_some_and(|seconds| seconds < 0) {
        return Err(BadProcess::NegativeTimeout);
    }
    Ok(())
}

/// The list of the tasks that shall exist.
pub(super) fn list(wanted: &[Task]) -> Result<(), Refused> {
    if wanted.len() > MOST_TASKS {
        return Err(Refused::Invalid(format!("{} tasks are more than {MOST_TASKS}", wanted.len())));
    }
    let mut names = BTreeSet::new();
    for wanted in wanted {
        task(wanted)?;
        if !names.insert(&wanted.name) {
            return Err(Refused::Invalid(format!("task {} is in the list twice", wanted.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sandgate_executor_wire::Task;

    use super::{Refused, list, task};

    fn read(text: &str) -> Task {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_can_run_is_accepted() {
        for text in [
            r#"{"name":"a","process":{"command":["true"]}}"#,
            r#"{"name":"a","process":{"command":[],"args":["true"],"timeoutSeconds":0}}"#,
            r#"{"name":"a","process":{"command":["env"],"env":[{"name":"A","value":"x=y\n"},{"name":""}]}}"#,
        ] {
            assert!(task(&read(text)).is_ok(), "{text}");
        }
    }

    #[test]
    fn what_cannot_run_is_refused_and_told_why() {
        for (text, why) in [
            (r#"{"name":"a"}"#, "process is required"),
            (r#"{"name":"a","process":{"command":[]}}"#, "process.command is empty"),
            (r#"{"name":"a","process":{"command":[""]}}"#, "process.command is empty"),
            (r#"{"name":"a","process":{"command":["x\u0000"]}}"#, "NUL"),
            (r#"{"name":"a","process":{"command":["x"],"env":[{"name":"A=B"}]}}"#, "no name of a variable"),
            (r#"{"name":"a","process":{"command":["x"],"env":[{"name":"A","valueFrom":{}}]}}"#, "valueFrom"),
            (r#"{"name":"a","process":{"command":["x"],"timeoutSeconds":-1}}"#, "negative"),
            (r#"{"name":"a/b","process":{"command":["x"]}}"#, "slash"),
        ] {
            let refused = task(&read(text)).unwrap_err();
            assert!(matches!(refused, Refused::Invalid(_)), "{text}");
            assert!(refused.to_string().contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn a_container_is_not_supported() {
        let refused = task(&read(r#"{"name":"a","podTemplateSpec":{"spec":{}}}"#)).unwrap_err();
        assert!(matches!(refused, Refused::Unsupported(_)), "{refused}");
    }

    #[test]
    fn a_name_is_in_a_list_once() {
        let one = read(r#"{"name":"a","process":{"command":["true"]}}"#);
        assert!(list(&[one.clone(), one]).unwrap_err().to_string().contains("twice"));
    }
}
