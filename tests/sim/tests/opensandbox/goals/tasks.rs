//! What has become of the tasks of a batch, once each of them had the time to end.

use std::collections::BTreeMap;

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::object::{number, text};
use serde_json::Value;

use crate::executors;
use crate::held::has_finalizer;
use crate::laws::{Broken, broken, done, index_of};

/// Checks a batch with tasks that has these pods.
pub(super) fn check(batch: &Value, pods: &[&Value]) -> Result<(), Broken> {
    let name = text(batch, "/metadata/name");
    if !has_finalizer(batch, names::FINALIZER_TASK_CLEANUP) {
        return broken(format!("batch {name} has tasks, and not the finalizer for them"));
    }
    let wanted = number(batch, "/spec/replicas").and_then(|it| usize::try_from(it).ok()).unwrap_or(1);
    let held = executors::all();
    let mut results: BTreeMap<usize, bool> = done(batch);
    let mut free = Vec::new();
    for pod in pods.iter().filter(|pod| text(pod, "/status/phase") == "Running") {
        let address = text(pod, "/status/podIP");
        let mut tasks = held.iter().filter(|held| held.address == address).peekable();
        if tasks.peek().is_none() {
            free.push(text(pod, "/metadata/name"));
        }
        for task in tasks {
            let (Some(index), Some(code)) = (index_of(name, &task.task), task.exit_code) else {
                return broken(format!("task {} is in a pod of batch {name}, and has not ended", task.task));
            };
            results.entry(index).or_insert(code == 0);
        }
    }
    results.retain(|index, _| *index < wanted);
    let succeeded = results.values().filter(|succeeded| **succeeded).count();
    let pending = wanted - results.len();
    if pending > 0 && !free.is_empty() {
        return broken(format!("{pending} tasks of batch {name} wait, and the pods {free:?} are free"));
    }
    let expected = [
        ("taskSucceed", succeeded),
        ("taskFailed", results.len() - succeeded),
        ("taskPending", pending),
        ("taskRunning", 0),
        ("taskUnknown", 0),
    ];
    for (field, is) in expected {
        let says = number(batch, &format!("/status/{field}")).unwrap_or(0);
        // A batch that has never had a pod says nothing.
        if usize::try_from(says) != Ok(is) && !(pods.is_empty() && text(batch, "/status/phase").is_empty()) {
            return broken(format!("the status of batch {name} says {says} {field}, of {is}"));
        }
    }
    Ok(())
}
