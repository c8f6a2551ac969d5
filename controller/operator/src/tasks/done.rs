//! The results that outlive their pods.
//!
//! A task that has ended is known by its pod's executor. Before the executor is told to forget it, and when
//! the pod is lost, the result is written to the batch. So a restart of the operator does not run the task
//! again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The annotation on a batch: `{"succeeded":[0,2],"failed":[1]}`, by index.
pub const ANNOTATION_TASKS_DONE: &str = "sandgate.dev/tasks-done";

/// How tasks have ended: whether they succeeded, by index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done(pub BTreeMap<usize, bool>);

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Written {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    succeeded: Vec<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<usize>,
}

impl Done {
    /// Reads the annotation. One that cannot be read says nothing: the tasks that it told of may run again.
    pub fn read(annotation: Option<&str>) -> Self {
        let written: Written =
            annotation.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let failed = written.failed.into_iter().map(|index| (index, false));
        Self(failed.chain(written.succeeded.into_iter().map(|index| (index, true))).collect())
    }

    /// The annotation. None if there is nothing to say.
    pub fn write(&self) -> Option<String> {
        let of = |wanted: bool| {
            self.0.iter().filter(|(_, succeeded)| **succeeded == wanted).map(|(index, _)| *index).collect()
        };
        let written = Written { succeeded: of(true), failed: of(false) };
        (!self.0.is_empty()).then(|| serde_json::to_string(&written).unwrap_or_default())
    }
}
