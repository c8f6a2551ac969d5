//! Snapshots: a Checkpoint object, and a SandboxTemplate of the same name to make sandboxes from it.
//!
//! The manager writes the objects; something else in the cluster executes them. Nothing does in OpenKruise's
//! community build, nor in Sandgate: there a snapshot is refused, at once if the settings say so, or else
//! when nobody has begun with it after a while.
//!
//! # What is not complete is removed
//! - By whoever made it, where it fails, takes too long, or its caller goes away. The work is a task of its
//!   own and outlives its caller.
//! - By the [sweep](Core::sweep_snapshots) of any manager, where the one that made it died or had no answer.
//!   The checkpoint says until when its maker waits for it ([`ANNOTATION_GIVEN_UP`]).
//!
//! The template goes with the checkpoint, which owns it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandgate_cache::predicates::wants_pause;
use sandgate_cache::request::Only;
use sandgate_cache::{Action, Check, Key, Seen, WaitError, WriteError};
use sandgate_objects::openkruise::API_VERSION;
use sandgate_objects::openkruise::names::{
    ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_OWNER, ANNOTATION_RUNTIME_ACCESS_TOKEN, LABEL_CHECKPOINT_ID,
    LABEL_SANDBOX_NAME,
};
use sandgate_objects::openkruise::resources::{
    Checkpoint, SandboxFacts, SandboxTemplate, SandboxTemplateSpec,
};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use crate::core::Core;
use crate::describe::annotation;
use crate::find::unread;
use crate::list::{Place, page};
use crate::tasks::Asked;
use crate::timeouts::after;
use crate::{Caller, Error, ErrorKind, NewSnapshot, Page, Snapshot};

/// The annotation with the ID of the sandbox.
const ANNOTATION_SANDBOX_ID: &str = "agents.kruise.io/sandbox-id";
/// The annotation with the name that the user gave.
const ANNOTATION_NAME: &str = "sandgate.dev/snapshot-name";
/// The annotation with the time from which nobody waits for the checkpoint any more. One that is complete by
/// then stays.
const ANNOTATION_GIVEN_UP: &str = "sandgate.dev/given-up-at";
/// How much later than its maker others take a checkpoint for given up: clocks differ.
const SLACK: Duration = Duration::from_secs(120);
/// The prefix of annotations that travel from a sandbox to what is made from it.
const SECURITY: &str = "security.agents.kruise.io/";
/// The annotation with the volumes.
const CSI: &str = "e2b.agents.kruise.io/csi-volume-config";
/// How long a create that is not answered is tried.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long what failed is tried to be removed. What is left then is swept.
const UNDO: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);

type One = Arc<Seen<Checkpoint>>;

impl Core {
    /// Makes a snapshot of a running sandbox.
    pub(crate) async fn snapshot(
        &self,
        caller: &Caller,
        id: &str,
        new: NewSnapshot,
        asked: &Asked,
    ) -> Result<Snapshot, Error> {
        let seen = self.seen_live(caller, id).await?;
        if !self.settings.snapshots.executor {
            return Err(unsupported());
        }
        if wants_pause(&seen) {
            let message = format!("sandbox {id} is paused: a snapshot is made of one that runs");
            return Err(Error::new(ErrorKind::Conflict, message));
        }
        let suffix = self.secrets.suffix()?;
        let start = &seen.key.name[..seen.key.name.floor_char_boundary(63 - suffix.len() - 1)];
        let key = Key::new(&seen.key.namespace, &format!("{}-{suffix}", start.trim_end_matches(['-', '.'])));
        let wait = new.wait.unwrap_or(self.settings.snapshots.wait);
        let mut object = checkpoint(&key, &seen, id, &new);
        let given_up = after(self.now(), PATIENCE + PATIENCE + wait + SLACK);
        object["metadata"]["annotations"][ANNOTATION_GIVEN_UP] = given_up.to_string().into();
        let contents = self.contents(&seen)?;
        asked.begin();
        // What was sent is not dropped, so that it is known what there is to remove.
        let made = async {
            let checkpoint = self.create_named(&key, &object).await?;
            self.create_named::<SandboxTemplate>(&key, &template(&checkpoint, &contents)?).await?;
            tokio::select! {
                biased;
                () = asked.gone() => {
                    Err(Error::new(ErrorKind::Unavailable, "nobody waits for the snapshot any more"))
                }
                done = self.executed(&checkpoint, wait) => done,
            }
        };
        let done = match made.await {
            Ok(done) => done,
            Err(error) => {
                self.undo(&key).await;
                return Err(error);
            }
        };
        self.label(&done).await;
        describe(&done).ok_or_else(|| Error::new(ErrorKind::Internal, "the snapshot has no ID"))
    }

    /// Removes what there is of a snapshot that failed. It is tried until it is known to be gone.
    async fn undo(&self, key: &Key) {
        let until = Instant::now() + UNDO;
        let mut made = None;
        loop {
            let error = match self.try_undo(key, &mut made).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if Instant::now() >= until {
                tracing::warn!(checkpoint = %key, "a snapshot that failed is left for the sweep: {error}");
                return;
            }
            sleep(PAUSE).await;
        }
    }

    /// One try. `made` is the checkpoint, once it was found.
    async fn try_undo(&self, key: &Key, made: &mut Option<One>) -> Result<(), Error> {
        if made.is_none() {
            *made = self.writes.read::<Checkpoint>(key).await.map_err(unread)?;
        }
        match made {
            Some(checkpoint) => self.remove(checkpoint).await,
            None => Ok(()),
        }
    }

    /// Removes the checkpoints that nobody waits for any more and that are not complete.
    pub(crate) async fn sweep_snapshots(&self) {
        for seen in self.cache.checkpoints(None, None) {
            if is_given_up(&seen, self.now())
                && let Err(left) = self.sweep_snapshot(&seen).await
            {
                tracing::warn!(checkpoint = %seen.key, "a snapshot that was given up is left: {left}");
            }
        }
    }

    async fn sweep_snapshot(&self, seen: &One) -> Result<(), Error> {
        let Some(read) = self.writes.read::<Checkpoint>(&seen.key).await.map_err(unread)? else {
            return Ok(());
        };
        if !is_given_up(&read, self.now()) {
            return Ok(());
        }
        tracing::warn!(checkpoint = %read.key, "removing a snapshot that was given up and never completed");
        // Of this version only: it may be complete by now.
        self.writes.delete(&read, Only::ThisVersion).await?;
        self.remove(&read).await
    }

    /// One page of the caller's snapshots that are complete.
    pub(crate) fn snapshots(
        &self,
        caller: &Caller,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        next: Option<&str>,
    ) -> Result<Page<Snapshot>, Error> {
        let owned = self.cache.checkpoints(self.namespace_of(caller), Some(&caller.owner));
        let fits = |snapshot: &Snapshot| {
            sandbox.is_none_or(|sandbox| snapshot.sandbox == sandbox)
                && name.is_none_or(|name| snapshot.names.iter().any(|is| is == name))
        };
        let placed = owned.iter().filter_map(|seen| {
            let snapshot = describe(seen).filter(fits)?;
            Some((Place { at: snapshot.created, id: seen.key.to_string() }, snapshot))
        });
        page(placed.collect(), false, limit, next)
    }

    /// Deletes a snapshot.
    pub(crate) async fn delete_snapshot(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        let namespace = self.namespace_of(caller);
        let missing = || Error::new(ErrorKind::NotFound, format!("snapshot {id} was not found"));
        let found = match self.cache.checkpoint(namespace, id) {
            Some(found) => Some(found),
            None => self.find_checkpoint(namespace, id).await?,
        };
        let Some(found) = found else {
            if self.cache.set(namespace, id).is_some() {
                let message = format!("template {id} is a SandboxSet: its operator deletes it");
                return Err(Error::new(ErrorKind::Forbidden, message));
            }
            return Err(missing());
        };
        let is_owned = text(&found, ANNOTATION_OWNER) == &*caller.owner;
        if !is_owned || found.metadata.deletion_timestamp.is_some() {
            return Err(missing());
        }
        self.remove(&found).await
    }

    /// A snapshot that another replica has just made, by its label.
    async fn find_checkpoint(&self, namespace: Option<&str>, id: &str) -> Result<Option<One>, Error> {
        if !is_label_value(id) {
            return Ok(None);
        }
        let selector = format!("{LABEL_CHECKPOINT_ID}={id}");
        let mut found = self.writes.list::<Checkpoint>(namespace, &selector, 2).await.map_err(unread)?;
        found.retain(|found| checkpoint_id(found) == Some(id));
        Ok(found.into_iter().next())
    }

    /// Deletes a checkpoint and its template.
    async fn remove(&self, checkpoint: &One) -> Result<(), Error> {
        self.delete(checkpoint).await?;
        let template = self.writes.read::<SandboxTemplate>(&checkpoint.key).await.map_err(unread)?;
        let is_its = |template: &Arc<Seen<SandboxTemplate>>| {
            let owners = template.metadata.owner_references.iter().flatten();
            template.metadata.deletion_timestamp.is_none()
                && owners.into_iter().any(|owner| owner.uid == *checkpoint.uid)
        };
        match template.filter(is_its) {
            Some(template) => self.delete(&template).await,
            None => Ok(()),
        }
    }

    /// Waits until a checkpoint is complete.
    async fn executed(&self, checkpoint: &One, wait: Duration) -> Result<One, Error> {
        let until = Instant::now() + wait;
        let (key, uid) = (&checkpoint.key, &checkpoint.uid);
        let has_begun = |seen: &Seen<Checkpoint>| {
            let status = seen.status.as_ref();
            Check::holds(status.and_then(|status| status.phase.as_deref()).is_some_and(|is| !is.is_empty()))
        };
        let begun = self.cache.wait(key, uid, Action::Checkpoint, has_begun);
        match begun.within(wait.min(self.settings.snapshots.start_wait)).await {
            Ok(_) => {}
            Err(WaitError::Timeout | WaitError::NotSatisfied) => return Err(unsupported()),
            Err(error) => return Err(waited(error)),
        }
        let left = until.saturating_duration_since(Instant::now());
        self.cache.checkpoint_done(key, uid).within(left).await.map_err(waited)
    }

    /// Writes the ID as a label, by which another replica finds it. Without it they find it by their watch.
    async fn label(&self, checkpoint: &One) {
        let Some(id) = checkpoint_id(checkpoint).filter(|id| is_label_value(id)) else { return };
        let patch = json!({"metadata": {"labels": {LABEL_CHECKPOINT_ID: id}}});
        if let Err(error) = self.writes.patch(checkpoint, patch).await {
            tracing::debug!(checkpoint = %checkpoint.key, "the snapshot has no label: {error}");
        }
    }

    /// What a sandbox is made from.
    fn contents(&self, sandbox: &Seen<SandboxFacts>) -> Result<SandboxTemplateSpec, Error> {
        if let Some(named) = sandbox.template_ref.as_ref().filter(|_| sandbox.template.is_none()) {
            let key = Key::new(&sandbox.key.namespace, &named.name);
            let found = self.cache.get::<SandboxTemplate>(&key);
            let missing = || Error::new(ErrorKind::Conflict, "the template of the sandbox is gone");
            return found.map(|found| found.spec.clone()).ok_or_else(missing);
        }
        Ok(sandbox.contents())
    }

    /// Creates an object whose name nobody else has: if the name is taken, an earlier try has done it.
    async fn create_named<T: sandgate_cache::Kept>(
        &self,
        key: &Key,
        object: &Value,
    ) -> Result<Arc<Seen<T>>, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            match self.writes.create::<T>(&key.namespace, object).await {
                Ok(made) => return Ok(made),
                Err(WriteError::AlreadyExists(why)) => {
                    let read = self.writes.read::<T>(key).await.map_err(unread)?;
                    return read.ok_or_else(|| WriteError::AlreadyExists(why).into());
                }
                Err(WriteError::Unanswered(_) | WriteError::PutOff(_)) if Instant::now() < until => {
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn checkpoint(key: &Key, sandbox: &Seen<SandboxFacts>, id: &str, new: &NewSnapshot) -> Value {
    let mut annotations = Map::new();
    let travels = |key: &str| {
        [ANNOTATION_INIT_RUNTIME_REQUEST, ANNOTATION_RUNTIME_ACCESS_TOKEN, ANNOTATION_OWNER, CSI]
            .contains(&key)
            || key.starts_with(SECURITY)
    };
    for (key, value) in sandbox.annotations.iter().filter(|(key, _)| travels(key)) {
        annotations.insert(key.to_owned(), value.into());
    }
    annotations.insert(ANNOTATION_SANDBOX_ID.to_owned(), id.into());
    if let Some(name) = &new.name {
        annotations.insert(ANNOTATION_NAME.to_owned(), name.as_str().into());
    }
    let mut contents = new.contents.clone();
    if contents.is_empty() {
        contents.extend_from_slice(sandbox.persistent_contents());
    }
    contents.retain(|kept| ["memory", "filesystem"].contains(&kept.as_str()));
    let mut spec = json!({"podName": &*sandbox.key.name, "keepRunning": new.keep_running.unwrap_or(true)});
    if !contents.is_empty() {
        spec["persistentContents"] = contents.into();
    }
    if let Some(ttl) = &new.ttl {
        spec["ttlAfterFinished"] = ttl.as_str().into();
    }
    json!({
        "apiVersion": API_VERSION,
        "kind": "Checkpoint",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": {
                LABEL_SANDBOX_NAME: &*sandbox.key.name,
                ANNOTATION_OWNER: annotation(sandbox, ANNOTATION_OWNER),
            },
            "annotations": annotations,
        },
        "spec": spec,
    })
}

fn template(checkpoint: &Seen<Checkpoint>, contents: &SandboxTemplateSpec) -> Result<Value, Error> {
    let unreadable = |error: serde_json::Error| Error::new(ErrorKind::Internal, error.to_string());
    Ok(json!({
        "apiVersion": API_VERSION,
        "kind": "SandboxTemplate",
        "metadata": {
            "name": &*checkpoint.key.name,
            "namespace": &*checkpoint.key.namespace,
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": "Checkpoint", "name": &*checkpoint.key.name,
                "uid": &*checkpoint.uid, "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": serde_json::to_value(contents).map_err(unreadable)?,
    }))
}

/// Whether a checkpoint is not complete, and nobody waits for it any more.
fn is_given_up(checkpoint: &Checkpoint, now: Timestamp) -> bool {
    let given_up = text(checkpoint, ANNOTATION_GIVEN_UP).parse::<Timestamp>();
    checkpoint_id(checkpoint).is_none()
        && checkpoint.metadata.deletion_timestamp.is_none()
        && given_up.is_ok_and(|at| at < now)
}

/// A snapshot that is complete.
fn describe(checkpoint: &Seen<Checkpoint>) -> Option<Snapshot> {
    let is_deleting = checkpoint.metadata.deletion_timestamp.is_some();
    let id = checkpoint_id(checkpoint).filter(|_| !is_deleting)?;
    let name = text(checkpoint, ANNOTATION_NAME);
    Some(Snapshot {
        id: id.to_owned(),
        names: Some(name.to_owned()).filter(|name| !name.is_empty()).into_iter().collect(),
        sandbox: text(checkpoint, ANNOTATION_SANDBOX_ID).to_owned(),
        created: checkpoint.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |at| at.0),
    })
}

/// The ID of a checkpoint that is complete.
fn checkpoint_id(checkpoint: &Checkpoint) -> Option<&str> {
    let status = checkpoint.status.as_ref()?;
    let is_done = status.phase.as_deref() == Some("Succeeded");
    status.checkpoint_id.as_deref().filter(|id| is_done && !id.is_empty())
}

fn text<'a>(checkpoint: &'a Checkpoint, name: &str) -> &'a str {
    let annotations = checkpoint.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(name)).map_or("", String::as_str)
}

fn is_label_value(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_alphanumeric();
    let is_inner = |c: char| is_end(c) || matches!(c, '-' | '_' | '.');
    (1..=63).contains(&text.len())
        && text.chars().all(is_inner)
        && text.starts_with(is_end)
        && text.ends_with(is_end)
}

fn unsupported() -> Error {
    let message = "this cluster has nothing that executes Checkpoint objects, so there are no snapshots";
    Error::new(ErrorKind::Unsupported, message)
}

fn waited(error: WaitError) -> Error {
    match error {
        WaitError::Timeout | WaitError::NotSatisfied => {
            Error::new(ErrorKind::Timeout, "the snapshot was not complete in time, and was given up")
        }
        WaitError::Cancelled => Error::new(ErrorKind::Unavailable, "the manager is stopping"),
        WaitError::Gone => Error::new(ErrorKind::Conflict, "somebody deleted the snapshot"),
        other => Error::new(ErrorKind::Internal, other.to_string()),
    }
}
