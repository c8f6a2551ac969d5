//! A versioned model of the API server: what it stores, what it answers, what its watchers learn.
//!
//! One revision counts every write. An object's version is the revision that last changed it; a write that
//! changes nothing makes none. Names, UIDs and times come from the seed and from the clock that the caller
//! moves, so equal calls make equal models. Not modelled: namespaces (every namespace exists), schemas,
//! rights, server-side apply, foreground deletion.

mod creation;
mod deletion;
mod history;
mod kind;
pub mod object;
mod patch;
mod refusal;
mod rules;
mod selector;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use deletion::{DeleteOptions, Deleted};
pub use history::{Change, Event};
pub use kind::{
    BATCHES, CHECKPOINTS, CONFIG_MAPS, ENV_POOLS, ENVS, EVENTS, JOBS, Kind, LEASES, PODS, POOLS,
    SANDBOX_SETS, SANDBOX_TEMPLATES, SANDBOXES, SECRETS, SNAPSHOTS, TRAFFIC_POLICIES, VOLUME_CLAIMS,
};
pub use object::Place;
use object::{copy, metadata, text, uid};
pub use patch::Patch;
pub use refusal::Refusal;
pub use selector::Selector;

use crate::Random;

/// Which part of an object a request is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status.
    Main,
    /// The status alone.
    Status,
    /// The resources of a pod's containers.
    Resize,
}

/// The objects and their history.
#[derive(Debug)]
pub struct Model {
    revision: u64,
    now: Timestamp,
    objects: BTreeMap<Place, Arc<Value>>,
    history: history::History,
    seed: u64,
    created: u64,
    names: Random,
}

impl Model {
    /// An empty model whose watchers may lag `history` changes behind.
    pub fn new(seed: u64, now: Timestamp, history: usize) -> Self {
        let mut random = Random::new(seed);
        Self {
            revision: 1,
            now,
            objects: BTreeMap::new(),
            history: history::History::new(history),
            seed: random.next(),
            created: 0,
            names: random.split(),
        }
    }

    /// Sets the time that new objects and deletions are stamped with.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How many writes there were.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Reads an object.
    ///
    /// # Errors
    /// 404.
    pub fn get(&self, place: &Place) -> Result<&Arc<Value>, Refusal> {
        self.objects.get(place).ok_or_else(|| Refusal::not_found(place))
    }

    /// The objects of a kind, in the order of their namespaces and names.
    pub fn list(&self, kind: &'static Kind) -> impl Iterator<Item = &Arc<Value>> {
        self.objects.iter().filter(move |(place, _)| place.kind == kind).map(|(_, object)| object)
    }

    /// Every object.
    pub fn all(&self) -> impl Iterator<Item = (&Place, &Arc<Value>)> {
        self.objects.iter()
    }

    /// What happened after this revision.
    ///
    /// # Errors
    /// 410 if that is not known any more.
    pub fn since(&self, revision: u64) -> Result<impl Iterator<Item = &Event>, Refusal> {
        self.history.since(revision)
    }

    /// Forgets what happened up to this revision.
    pub fn compact(&mut self, up_to: u64) {
        self.history.compact(up_to.min(self.revision));
    }

    /// Replaces an object, or its status.
    ///
    /// # Errors
    /// 404; 409 if the UID or the version is another one; 422 for what the API server would refuse.
    pub fn replace(&mut self, place: &Place, of: Part, object: Value) -> Result<Arc<Value>, Refusal> {
        same_kind(place.kind, &object)?;
        same_name(place, &object)?;
        let old = Arc::clone(self.get(place)?);
        let asked = uid(&object);
        if !asked.is_empty() && asked != uid(&old) {
            let is = uid(&old);
            let why = format!("Precondition failed: UID in precondition: {asked}, UID in object meta: {is}");
            return Err(Refusal::conflict(place, &why));
        }
        self.write(place, of, &old, object)
    }

    /// Patches an object, or its status.
    ///
    /// # Errors
    /// 404; 409 if the patch holds another version; 422 for what the API server would refuse, such as another
    /// UID.
    pub fn patch(&mut self, place: &Place, of: Part, patch: &Patch) -> Result<Arc<Value>, Refusal> {
        let old = Arc::clone(self.get(place)?);
        let object = patch.apply(&old)?;
        same_name(place, &object)?;
        self.write(place, of, &old, object)
    }

    fn write(&mut self, place: &Place, of: Part, old: &Value, asked: Value) -> Result<Arc<Value>, Refusal> {
        match text(&asked, "/metadata/resourceVersion") {
            "" if !place.kind.unconditional => {
                let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
                return Err(Refusal::invalid(place, why));
            }
            "" => {}
            asked if asked == text(old, "/metadata/resourceVersion") => {}
            _ => return Err(Refusal::modified(place)),
        }
        let mut new = match of {
            Part::Main | Part::Resize => {
                let mut new = asked;
                if place.kind.status {
                    copy("status", old, part_of(&mut new));
                }
                new
            }
            Part::Status if place.kind.is_custom() => {
                let mut new = old.clone();
                copy("status", &asked, part_of(&mut new));
                new
            }
            Part::Status => {
                let mut new = asked;
                copy("spec", old, part_of(&mut new));
                if place.kind.graceful() {
                    copy("ownerReferences", &old["metadata"], metadata(&mut new));
                }
                new
            }
        };
        let before = &old["metadata"];
        let fields = metadata(&mut new);
        for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
            if fields.get(field).is_none_or(Value::is_null) {
                copy(field, before, fields);
            }
        }
        for field in ["generation", "deletionGracePeriodSeconds", "resourceVersion"] {
            copy(field, before, fields);
        }
        object::tidy(&mut new);
        rules::update(place, of, old, &new)?;
        if new == *old {
            return Ok(Arc::clone(&self.objects[place]));
        }
        if place.kind.generation && content(place.kind, old) != content(place.kind, &new) {
            let generation = object::number(old, "/metadata/generation").unwrap_or(0);
            metadata(&mut new).insert("generation".to_owned(), json!(generation + 1));
        }
        if deletion::is_due(&new) {
            // The last finalizer is gone. Nobody sees the object without it: it is deleted as it was.
            self.remove(place);
            return Ok(Arc::new(new));
        }
        Ok(self.put(place, new))
    }

    /// Writes an object as it is, as the parts of a cluster do that the model does not model (a scheduler
    /// binds a pod).
    pub fn put(&mut self, place: &Place, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        metadata(&mut object).insert("resourceVersion".to_owned(), json!(self.revision.to_string()));
        let object = Arc::new(object);
        let before = self.objects.insert(place.clone(), Arc::clone(&object));
        self.history.push(history::event(
            place,
            self.revision,
            before,
            Some(Arc::clone(&object)),
            Arc::clone(&object),
        ));
        object
    }

    fn remove(&mut self, place: &Place) -> Arc<Value> {
        self.revision += 1;
        let before = self.objects.remove(place).expect("the caller has just read it");
        let mut last = Value::clone(&before);
        metadata(&mut last).insert("resourceVersion".to_owned(), json!(self.revision.to_string()));
        let last = Arc::new(last);
        self.history.push(history::event(place, self.revision, Some(before), None, Arc::clone(&last)));
        last
    }
}

/// What a change of bumps the generation.
fn content<'a>(kind: &Kind, object: &'a Value) -> Vec<(&'a String, &'a Value)> {
    let skipped = |field: &str| field == "metadata" || (field == "status" && kind.status);
    object.as_object().into_iter().flatten().filter(|(field, _)| !skipped(field)).collect()
}

fn same_kind(kind: &Kind, object: &Value) -> Result<(), Refusal> {
    let (version, name) = (text(object, "/apiVersion"), text(object, "/kind"));
    if (!version.is_empty() && version != kind.api_version()) || (!name.is_empty() && name != kind.kind) {
        let is = kind.api_version();
        return Err(Refusal::bad(format!(
            "{name} in {version:?} does not match the expected {} in {is:?}",
            kind.kind
        )));
    }
    Ok(())
}

fn same_name(place: &Place, object: &Value) -> Result<(), Refusal> {
    let (name, namespace) = (text(object, "/metadata/name"), text(object, "/metadata/namespace"));
    let differs = |is: &str, asked: &str| !asked.is_empty() && is != asked;
    if differs(&place.name, name) || differs(&place.namespace, namespace) {
        return Err(Refusal::bad("the name of the object does not match the name on the URL"));
    }
    Ok(())
}

fn part_of(object: &mut Value) -> &mut serde_json::Map<String, Value> {
    metadata(object);
    object.as_object_mut().expect("it has metadata")
}

/// A time as metadata has it: whole seconds.
pub fn stamp(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
