//! What is wrong with an object and cannot be refused.
//!
//! The definitions refuse some of it in what is new, and objects from before may have it. The rest is allowed
//! by OpenSandbox's own definitions and by these, and does not do what its author will have meant. An API
//! server has no way to warn about either.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{BatchSandbox, Pool, RecycleType, ResourcePolicy};

#[cfg(test)]
mod tests;

/// What a label value may have at most.
const MAX_LABEL: usize = 63;

impl BatchSandbox {
    /// What is wrong with the batch, for an event: a sentence each, with nothing of the object in it.
    ///
    /// A template beside the name of a pool is not wrong: the operator itself writes the name in the place of
    /// `*`.
    pub fn warnings(&self) -> Vec<String> {
        let spec = &self.spec;
        let (pool, template) = (spec.pool(), spec.template.as_ref());
        let task = spec.task_template.as_ref();
        let policy = spec.task_resource_policy_when_completed.as_ref();
        said([
            (
                pool.is_none() && template.is_none(),
                "it gets no pods: set spec.template (a pod template) or spec.poolRef (the name of a Pool, or * for any)",
            ),
            (
                pool.is_some() && !spec.shard_patches.is_empty(),
                "spec.shardPatches is not used: the pods of a pool are not patched",
            ),
            (
                task.is_none() && !spec.shard_task_patches.is_empty(),
                "spec.shardTaskPatches is not used: there is no spec.taskTemplate to patch",
            ),
            (
                task.is_some_and(|task| task.spec.process.is_none()) && spec.shard_task_patches.is_empty(),
                "spec.taskTemplate.spec.process is missing: there is nothing to run",
            ),
            (
                matches!(policy, Some(ResourcePolicy::Other(_))),
                "spec.taskResourcePolicyWhenCompleted counts as Retain: set it to Retain or Release",
            ),
            (
                spec.replicas.is_some_and(|replicas| replicas < 0),
                "spec.replicas counts as 0: set it to 0 or more",
            ),
        ])
    }
}

impl Pool {
    /// What is wrong with the pool, for an event: a sentence each, with nothing of the object in it.
    pub fn warnings(&self) -> Vec<String> {
        let spec = &self.spec;
        let capacity = spec.capacity_spec;
        let scale = spec.scale_strategy.as_ref().and_then(|strategy| strategy.max_unavailable.as_ref());
        let update = spec.update_strategy.as_ref().and_then(|strategy| strategy.max_unavailable.as_ref());
        let recycle = spec.recycle_strategy.as_ref().and_then(|strategy| strategy.type_.as_ref());
        said([
            (spec.template.is_none(), "it makes no pods: set spec.template (a pod template)"),
            (
                capacity.buffer_min > capacity.buffer_max,
                "spec.capacitySpec.bufferMin is above bufferMax, which counts: set it to at most bufferMax",
            ),
            (
                capacity.pool_min > capacity.pool_max,
                "spec.capacitySpec.poolMin is above poolMax, which counts: set it to at most poolMax",
            ),
            (
                scale.is_some_and(is_no_share),
                "spec.scaleStrategy.maxUnavailable counts as 25%: set a number of pods, or a share as in 25%",
            ),
            (
                update.is_some_and(is_no_share),
                "spec.updateStrategy.maxUnavailable counts as 25%: set a number of pods, or a share as in 25%",
            ),
            (
                matches!(recycle, Some(RecycleType::Other(_))),
                "spec.recycleStrategy.type counts as Delete: set it to Delete, Restart or Noop",
            ),
            (
                self.metadata.name.as_ref().is_some_and(|name| name.len() > MAX_LABEL),
                "its name is longer than 63 characters: its pods cannot have it as a label",
            ),
        ])
    }
}

/// What holds.
fn said<const N: usize>(cases: [(bool, &str); N]) -> Vec<String> {
    cases.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned()).collect()
}

/// Whether it is neither a number of pods nor a percentage.
fn is_no_share(value: &IntOrString) -> bool {
    match value {
        IntOrString::Int(number) => *number < 0,
        IntOrString::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit())
        }
    }
}
