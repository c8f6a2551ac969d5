//! Does what a plan for a set says.
//!
//! Requests go out in batches of 16, 32, 64 and so on. A batch in which one fails is the last: what fails
//! once fails for the rest of a thousand too. A conflict is about one sandbox and ends nothing.

use std::sync::Arc;

use futures_util::future::join_all;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxTemplate};

use super::observe::{Contents, ContentsOf, Observed};
use super::plan::{CREATE_FAILED, Plan, Trouble};
use super::{SandboxSetReconciler, child};
use crate::child_name::child_key;
use crate::view::Child;
use crate::writes::{Only, WriteError};
use crate::{Key, conditions};

/// The size of the first batch.
const FIRST_BATCH: usize = 16;

/// How often a name is drawn. There are fourteen million for each set.
const DRAWS: usize = 16;

impl SandboxSetReconciler {
    /// Does everything that can be done, and returns the first failure.
    pub(super) async fn apply(
        &self,
        observed: &Observed,
        plan: &mut Plan,
        free: Vec<Key>,
    ) -> Option<WriteError> {
        let Plan { materialise, delete, create, prune, failures, trouble, again: _ } = plan;
        let mut failure = None;
        let mut keep_first = |result: Result<(), WriteError>| {
            if let Err(error) = result {
                failure.get_or_insert(error);
            }
        };
        if let ContentsOf::Found(contents) = &observed.contents {
            if *materialise {
                keep_first(self.materialise(observed, contents).await);
            }
            if *create > 0 {
                let created = self.create(observed, contents, *create, free).await;
                if let Err(error @ WriteError::Refused { .. }) = &created {
                    let message = steady_message(failures.refusal(), error.to_string());
                    *failures = failures.clone().and_refused(&contents.revision, &message, observed.now);
                    *trouble = Some(Trouble { reason: CREATE_FAILED, message });
                }
                keep_first(created);
            }
        }
        keep_first(self.delete(delete).await);
        for template in prune {
            let seen = (&template.key, &template.uid, &template.version);
            keep_first(self.writes.delete::<SandboxTemplate>(seen, Only::ThisVersion, None).await);
        }
        failure
    }

    async fn materialise(&self, observed: &Observed, contents: &Contents) -> Result<(), WriteError> {
        let template = child::revision(&observed.set, contents);
        match self.writes.create::<SandboxTemplate>(&observed.set.key.namespace, &template).await {
            Err(WriteError::AlreadyExists(_)) => {
                // It was made before and not seen yet; or somebody else's has its name, and the set does
                // without.
                let name = template["metadata"]["name"].as_str().unwrap_or_default();
                self.writes
                    .read::<SandboxTemplate>(&Key::new(&observed.set.key.namespace, name))
                    .await
                    .map(drop)
            }
            done => done.map(drop),
        }
    }

    async fn create(
        &self,
        observed: &Observed,
        contents: &Contents,
        count: usize,
        free: Vec<Key>,
    ) -> Result<(), WriteError> {
        let mut free = free.into_iter();
        let mut missing = count;
        let mut size = FIRST_BATCH;
        while missing > 0 {
            let keys: Vec<_> = (0..missing.min(size))
                .filter_map(|_| self.reserve(observed, &contents.revision, &mut free))
                .collect();
            let requests = keys.iter().map(|key| self.create_one(observed, contents, key));
            join_all(requests).await.into_iter().collect::<Result<(), _>>()?;
            missing -= missing.min(size);
            size *= 2;
        }
        Ok(())
    }

    /// Registers a name. A drawn one that is in use is drawn again.
    fn reserve(
        &self,
        observed: &Observed,
        revision: &Arc<str>,
        free: &mut impl Iterator<Item = Key>,
    ) -> Option<Key> {
        (0..DRAWS).find_map(|_| {
            let draw = || child_key(&observed.set.key, &mut self.random.lock());
            let key = free.next().unwrap_or_else(draw);
            self.view.reserve(&observed.set.uid, &key, revision).then_some(key)
        })
    }

    async fn create_one(
        &self,
        observed: &Observed,
        contents: &Contents,
        key: &Key,
    ) -> Result<(), WriteError> {
        let sandbox = child::sandbox(&observed.set, contents, key);
        match self.writes.create::<Sandbox>(&key.namespace, &sandbox).await {
            Ok(_) => {
                self.view.release(key);
                Ok(())
            }
            // Whether it was made is found out by the next look.
            Err(error @ WriteError::Unanswered(_)) => Err(error),
            // An earlier request with this name was done after all; or the name is somebody else's.
            Err(WriteError::AlreadyExists(_)) => {
                self.writes.read::<Sandbox>(key).await?;
                self.view.release(key);
                Ok(())
            }
            Err(error) => {
                self.view.release(key);
                Err(match error {
                    // The name was drawn for this try alone: a message with it would be a new one each time.
                    WriteError::Refused { code, message } => {
                        let message = message.replace(&*key.name, &format!("{}-…", observed.set.key.name));
                        WriteError::Refused { code, message }
                    }
                    other => other,
                })
            }
        }
    }

    async fn delete(&self, children: &[Child]) -> Result<(), WriteError> {
        let mut rest = children;
        let mut size = FIRST_BATCH;
        let mut conflict = Ok(());
        while !rest.is_empty() {
            let (batch, after) = rest.split_at(rest.len().min(size));
            let requests = batch.iter().map(|Child { key, uid, version, .. }| {
                self.writes.delete::<Sandbox>((key, uid, version), Only::ThisVersion, None)
            });
            for done in join_all(requests).await {
                match done {
                    // It was claimed, or changed otherwise: it is looked at again.
                    Err(error @ WriteError::Conflict(_)) => conflict = Err(error),
                    done => done?,
                }
            }
            rest = after;
            size *= 2;
        }
        conflict
    }
}

/// The message of the last refusal, if this one says the same.
fn steady_message(last: Option<&str>, message: String) -> String {
    match last {
        Some(last) if conditions::says_the_same(last, &message) => last.to_owned(),
        _ => message,
    }
}
