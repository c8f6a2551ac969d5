//! Whose pods are, from one step to the next.

use std::collections::{BTreeMap, BTreeSet};

use sandgate_sim::model::object::{list, text, uid};
use sandgate_sim::model::{BATCHES, Model, PODS, Place};
use serde_json::Value;

use super::{Broken, Laws, broken};
use crate::executors;
use crate::held::Lists;
use crate::users::{NAMESPACE, POOL_NAMES, pool_of_pod};

/// A pod's life, as far as it was given away.
#[derive(Default)]
pub(super) struct Given {
    /// The batch that holds it, by UID.
    to: Option<String>,
    /// Whether it was given to any batch before.
    is_used: bool,
    /// The IDs of its containers when it was given away last.
    containers: BTreeSet<String>,
}

impl Laws {
    /// A pod that stays has the slot that it had; slots go at the end only, and only when given back.
    pub(super) fn check_slots(&mut self, model: &Model) -> Result<(), Broken> {
        for batch in model.list(&BATCHES) {
            let Some(lists) = Lists::of(batch) else { continue };
            let name = text(batch, "/metadata/name");
            if let Some(before) = self.lists.get(uid(batch)) {
                for (slot, pod) in lists.slots.iter().enumerate() {
                    let was = before.slots.iter().position(|known| known == pod);
                    if was.is_some_and(|was| was != slot) {
                        return broken(format!("pod {pod} of batch {name} goes from slot {was:?} to {slot}"));
                    }
                }
                let shrinks =
                    lists.slots.len() < before.slots.len() && !text(batch, "/spec/poolRef").is_empty();
                let cut = before.slots.get(lists.slots.len()..).unwrap_or_default();
                let stays = |pod: &&String| !before.released.contains(*pod) && !before.release.contains(*pod);
                if shrinks && let Some(lost) = cut.iter().find(stays) {
                    return broken(format!(
                        "the slot of pod {lost} of batch {name} is cut off before its time"
                    ));
                }
            }
            self.lists.insert(uid(batch).to_owned(), lists);
        }
        Ok(())
    }

    /// No pod is held by two batches, and none is given again before it was recycled.
    pub(super) fn check_holders(&mut self, model: &Model) -> Result<(), Broken> {
        let mut holders: BTreeMap<String, &str> = BTreeMap::new();
        let mut held = BTreeSet::new();
        for batch in model.list(&BATCHES) {
            let name = text(batch, "/metadata/name");
            let lists = self.lists_of(batch);
            let mut own = BTreeSet::new();
            for pod in lists.held() {
                if !own.insert(pod) {
                    return broken(format!("batch {name} has pod {pod} in two slots"));
                }
                if let Some(other) = holders.insert(pod.clone(), name) {
                    return broken(format!("pod {pod} is held by batch {other} and by batch {name}"));
                }
                if let Ok(object) = model.get(&Place::new(&PODS, NAMESPACE, pod)) {
                    held.insert(uid(object));
                    self.check_given(batch, object)?;
                }
            }
        }
        for (pod, given) in &mut self.given {
            if !held.contains(&**pod) {
                given.to = None;
            }
        }
        Ok(())
    }

    /// A pod that is given away is as its pool's recycling has left it, also for the batch that has had it.
    fn check_given(&mut self, batch: &Value, pod: &Value) -> Result<(), Broken> {
        let given = self.given.entry(uid(pod).to_owned()).or_default();
        if given.to.as_deref() == Some(uid(batch)) {
            return Ok(());
        }
        let (name, to) = (text(pod, "/metadata/name"), text(batch, "/metadata/name"));
        let containers: BTreeSet<String> = list(pod, "/status/containerStatuses")
            .iter()
            .map(|status| text(status, "/containerID").to_owned())
            .collect();
        let recycle =
            POOL_NAMES.iter().find(|(pool, _)| *pool == pool_of_pod(pod)).map(|(_, recycle)| *recycle);
        if given.is_used && recycle == Some("Delete") {
            return broken(format!("pod {name} is given to batch {to}, and was used before"));
        }
        if recycle == Some("Restart") && containers.iter().any(|id| given.containers.contains(id)) {
            return broken(format!(
                "pod {name} is given to batch {to} with containers that were used before"
            ));
        }
        let mut tasks = executors::all().into_iter().filter(|held| held.runs && held.is_wanted);
        let address = text(pod, "/status/podIP");
        if let Some(held) = tasks.find(|held| {
            held.address == address && given.is_used && !held.task.starts_with(&format!("{to}-"))
        }) {
            return broken(format!("pod {name} is given to batch {to}, and task {} runs in it", held.task));
        }
        *given = Given { to: Some(uid(batch).to_owned()), is_used: true, containers };
        Ok(())
    }
}
