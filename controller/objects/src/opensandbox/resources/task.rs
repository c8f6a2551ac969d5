//! The task that runs in each pod of a batch.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schema;
use crate::whole::or_default;

/// A task as a batch asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct TaskTemplate {
    /// What runs, and how long.
    #[serde(default, deserialize_with = "or_default")]
    pub spec: TaskSpec,
}

/// What a task runs, and how long.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct TaskSpec {
    /// The process. There is no other way to run a task yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessTask>,
    /// How many seconds the task may take. No limit if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i64>,
}

/// A process.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct ProcessTask {
    /// The program and its first arguments. No shell is involved.
    #[serde(default, deserialize_with = "or_default")]
    pub command: Vec<String>,
    /// More arguments.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables of the environment.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// The folder that it runs in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}

/// A variable of the environment, as in core/v1.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvVar {
    /// The name.
    pub name: String,
    /// The value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Where the value is, as in core/v1. It is kept and not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::object")]
    pub value_from: Option<Value>,
}

/// Without the texts: they may contain secrets.
impl fmt::Debug for ProcessTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.command.len() + self.args.len();
        write!(f, "ProcessTask({words} words, environment {:?})", self.env)
    }
}

/// Without the value: it may be a secret.
impl fmt::Debug for EnvVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=…", self.name)
    }
}
