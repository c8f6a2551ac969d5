//! Every write to the API server.
//!
//! Each of them
//! 1. asks whether this process still leads;
//! 2. carries the version or the UID of what was decided on, or is a create, which fails where the name is
//!    taken;
//! 3. is given up after [`PATIENCE`](request::PATIENCE), and may have been done then;
//! 4. puts its answer into the view, so that nobody here reads anything older.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::future::join_all;
use kube::Client;
pub(crate) use sandgate_cache::WriteError;
use sandgate_cache::request::{self, path, path_of};
pub(crate) use sandgate_cache::request::{Merge, Only};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::metrics::WriteMetrics;
use crate::view::{Kept, Reserved, Seen, View};
use crate::{Category, Failed, Key, Leadership};

/// Whose fields they are, for the API server.
const MANAGER: &str = "sandgate-operator";

/// How many names are looked for at a time.
const RESOLVED_AT_A_TIME: usize = 16;

/// Volume claims, which the view does not have.
const CLAIM: &str = "PersistentVolumeClaim";
const CLAIMS: &str = "persistentvolumeclaims";

/// The fixed word for a failed write.
pub(crate) fn category(error: &WriteError) -> Category {
    match error {
        WriteError::Conflict(_) | WriteError::NotFound(_) | WriteError::AlreadyExists(_) => {
            Category::Conflict
        }
        WriteError::Refused { .. } => Category::Refused,
        WriteError::PutOff(_) => Category::PutOff,
        WriteError::Unanswered(_) => Category::Unanswered,
        WriteError::NotLeading => Category::NotLeading,
    }
}

impl From<WriteError> for Failed {
    fn from(error: WriteError) -> Self {
        Self { category: category(&error), message: error.to_string(), source: Some(Box::new(error)) }
    }
}

/// The way to the API server. Clones share everything.
#[derive(Clone)]
pub struct Writes {
    client: Client,
    view: View,
    leadership: Leadership,
    metrics: WriteMetrics,
}

impl Writes {
    /// Writes by this client while this process leads.
    pub fn new(client: Client, view: View, leadership: Leadership, metrics: WriteMetrics) -> Self {
        Self { client, view, leadership, metrics }
    }

    /// Whether this process leads, which each write asks.
    pub(crate) fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Creates an object. Its name is in it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn create<T: Kept>(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::create(&path_of::<T>(namespace), object, MANAGER);
        let text = self.send("create", T::KIND, request).await?;
        self.take_in(&text)
    }

    /// Creates an object that the view does not have.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn create_claim(&self, namespace: &str, object: &Value) -> Result<(), WriteError> {
        let request = request::create(&path("", "v1", CLAIMS, namespace), object, MANAGER);
        self.send("create", CLAIM, request).await.map(drop)
    }

    /// The UID of the controller of a volume claim.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn owner_of_claim(&self, key: &Key) -> Result<Option<String>, WriteError> {
        #[derive(Deserialize)]
        struct Claim {
            metadata: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        }
        let request = request::get(&path("", "v1", CLAIMS, &key.namespace), &key.name);
        let text = self.send("get", CLAIM, request).await?;
        let claim: Claim = serde_json::from_str(&text).map_err(unreadable)?;
        let owners = claim.metadata.owner_references.unwrap_or_default();
        Ok(owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid))
    }

    /// Reads an object from the API server itself.
    ///
    /// # Errors
    /// See [`WriteError`]. An object that does not exist is no error.
    pub(crate) async fn read<T: Kept>(&self, key: &Key) -> Result<Option<Arc<Seen<T>>>, WriteError> {
        let known = self.view.get::<T>(key);
        let request = request::get(&path_of::<T>(&key.namespace), &key.name);
        match self.send("get", T::KIND, request).await {
            Ok(text) => self.take_in(&text).map(Some),
            Err(WriteError::NotFound(_)) => {
                if let Some(known) = known {
                    self.view.deleted_by_us::<T>(key, &known.uid);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads an object as the API server has it, with fields that its type does not know.
    ///
    /// # Errors
    /// [`WriteError::Conflict`] if it is not as it was seen any more. See [`WriteError`].
    pub(crate) async fn read_raw<T: Kept>(&self, seen: &Seen<T>) -> Result<Value, WriteError> {
        let request = request::get(&path_of::<T>(&seen.key.namespace), &seen.key.name);
        let text = self.send("get", T::KIND, request).await?;
        let now = self.take_in::<T>(&text)?;
        if now.version != seen.version || now.uid != seen.uid {
            return Err(WriteError::Conflict(format!("{} was read at an older version", seen.key)));
        }
        serde_json::from_str(&text).map_err(unreadable)
    }

    /// Whether there is an object that the view does not have, of the core group. Nothing but its metadata is
    /// read, so that a secret stays where it is.
    ///
    /// # Errors
    /// See [`WriteError`]. An object that does not exist is no error.
    pub(crate) async fn exists(
        &self,
        (kind, plural): (&'static str, &str),
        key: &Key,
    ) -> Result<bool, WriteError> {
        let request = request::get_metadata(&path("", "v1", plural, &key.namespace), &key.name);
        match self.send("get", kind, request).await {
            Ok(_) => Ok(true),
            Err(WriteError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes an object, or a subresource of it, if it is still as it was seen.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn patch<T: Kept>(
        &self,
        seen: &Seen<T>,
        patch: Value,
        merge: Merge,
        subresource: Option<&str>,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::patch(seen, patch, merge, subresource, MANAGER);
        let text = self.send("patch", T::KIND, request).await?;
        self.take_in(&text)
    }

    /// Deletes an object. One that is gone already is deleted.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn delete<T: Kept>(
        &self,
        seen: (&Key, &Arc<str>, &sandgate_routes::Version),
        only: Only,
        grace: Option<u32>,
    ) -> Result<(), WriteError> {
        let (key, uid, version) = seen;
        let request = request::delete::<T>(key, uid, version, only, grace);
        match self.send("delete", T::KIND, request).await {
            // An object that has to end first is returned as it is now; one that is gone, as a Status.
            Ok(text) if self.take_in::<T>(&text).is_ok() => Ok(()),
            Ok(_) | Err(WriteError::NotFound(_)) => {
                self.view.deleted_by_us::<T>(key, uid);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Finds out what became of the children that were asked for and not seen. Returns the names that are
    /// free, which are used again: should the first request still be done, there is one child and not two.
    /// A name of which nothing could be found out stays registered, and counts as a child in creation.
    pub(crate) async fn resolve<T: Kept>(&self, reserved: &[Reserved]) -> (Vec<Key>, Result<(), WriteError>) {
        let mut free = Vec::new();
        for some in reserved.chunks(RESOLVED_AT_A_TIME) {
            let reads = some.iter().map(|Reserved { key, .. }| self.read::<T>(key));
            let mut failure = None;
            for (Reserved { key, .. }, read) in some.iter().zip(join_all(reads).await) {
                match read {
                    Ok(found) => {
                        if found.is_none() {
                            free.push(key.clone());
                        }
                        self.view.release(key);
                    }
                    Err(error) => drop(failure.get_or_insert(error)),
                }
            }
            if let Some(error) = failure {
                return (free, Err(error));
            }
        }
        (free, Ok(()))
    }

    /// Reads an object that the view does not have, of the core group: its kind and the plural name of that.
    ///
    /// # Errors
    /// See [`WriteError`]. An object that does not exist is no error.
    pub(crate) async fn get_json(
        &self,
        (kind, plural): (&'static str, &str),
        key: &Key,
    ) -> Result<Option<Value>, WriteError> {
        let request = request::get(&path("", "v1", plural, &key.namespace), &key.name);
        match self.send("get", kind, request).await {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(unreadable),
            Err(WriteError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Lists objects that the view does not have, of the core group, by their labels.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn list_json(
        &self,
        (kind, plural): (&'static str, &str),
        namespace: &str,
        labels: &str,
    ) -> Result<Vec<Value>, WriteError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            items: Vec<Value>,
        }
        let request = request::list(&path("", "v1", plural, namespace), labels);
        let text = self.send("list", kind, request).await?;
        let list: List = serde_json::from_str(&text).map_err(unreadable)?;
        Ok(list.items)
    }

    async fn send(
        &self,
        verb: &'static str,
        kind: &'static str,
        request: request::Built,
    ) -> Result<String, WriteError> {
        let request = request?;
        self.leadership.check().map_err(|_| WriteError::NotLeading)?;
        let began = Instant::now();
        let answer = request::send(&self.client, request).await;
        self.metrics.observe(verb, kind, answer.as_ref().map(drop).map_err(category), began.elapsed());
        answer
    }

    fn take_in<T: Kept>(&self, text: &str) -> Result<Arc<Seen<T>>, WriteError> {
        let seen = T::read(text.as_bytes()).map_err(|error| WriteError::Unanswered(error.to_string()))?;
        let seen = Arc::new(seen);
        self.view.answered(&seen);
        Ok(seen)
    }
}

/// An answer that cannot be read says nothing.
#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn unreadable(error: serde_json::Error) -> WriteError {
    WriteError::Unanswered(error.to_string())
}
