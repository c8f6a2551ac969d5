//! Every request of the manager to the API server, but for those of the cache.
//!
//! A write
//! 1. carries the version or the UID of what was decided on, or is a create, which fails where the name is
//!    taken;
//! 2. is given up after [`PATIENCE`](request::PATIENCE), and may have been done then;
//! 3. puts its answer into the cache, so that nobody here reads anything older.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use sandgate_cache::request::{self, Merge, Only, path_of};
use sandgate_cache::{Cache, Kept, Key, Seen, WriteError};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::{Error, ErrorKind};

/// Whose fields they are, for the API server.
const MANAGER: &str = "sandgate-manager";

/// Who is told what the manager does, to count it. Every method may be left out.
pub trait Observer: Send + Sync + 'static {
    /// A request was answered, or was not. `outcome` is `ok` or the kind of the failure.
    fn request(&self, verb: &'static str, kind: &'static str, outcome: &'static str, took: Duration) {
        let _ = (verb, kind, outcome, took);
    }

    /// A create ended: `pool`, `made`, `clone`, `env`, `again` (an `Idempotency-Key` that was there), or
    /// `failed`.
    fn created(&self, how: &'static str, took: Duration) {
        let _ = (how, took);
    }

    /// A claim of a pod of an environment ended: `claimed`, `busy` (no pod, or no room to wait) or `failed`.
    fn env_claimed(&self, how: &'static str) {
        let _ = how;
    }

    /// A sandbox of a pool was another's before this process had it: `changed` or `gone`.
    fn missed(&self, how: &'static str) {
        let _ = how;
    }

    /// Something that was half made was taken back: `deleted`, `reserved`, `released`, or `left` if nobody
    /// could.
    fn undone(&self, how: &'static str) {
        let _ = how;
    }
}

/// Nobody.
impl Observer for () {}

/// The fixed word for a failed request.
fn outcome(error: &WriteError) -> &'static str {
    match error {
        WriteError::Conflict(_) => "conflict",
        WriteError::NotFound(_) => "gone",
        WriteError::AlreadyExists(_) => "taken",
        WriteError::Refused { .. } => "refused",
        WriteError::PutOff(_) => "put off",
        WriteError::Unanswered(_) => "unanswered",
        WriteError::NotLeading => "not leading",
    }
}

/// What a user is told of a failed write. A conflict is somebody else's write; whoever can decide again does
/// not come here.
impl From<WriteError> for Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Conflict(_) | WriteError::NotFound(_) | WriteError::AlreadyExists(_) => {
                ErrorKind::Conflict
            }
            WriteError::Refused { code: 400 | 422, .. } => ErrorKind::Invalid,
            WriteError::Refused { .. } | WriteError::NotLeading => ErrorKind::Internal,
            WriteError::PutOff(_) => ErrorKind::Unavailable,
            WriteError::Unanswered(_) => ErrorKind::Unknown,
        };
        let retry_after = (kind == ErrorKind::Unavailable).then_some(Duration::from_secs(1));
        Self { kind, message: format!("the API server: {error}"), retry_after }
    }
}

/// The way to the API server. Clones share everything.
#[derive(Clone)]
pub struct Writes {
    client: Client,
    cache: Cache,
    observer: Arc<dyn Observer>,
}

impl Writes {
    /// Requests by this client, whose answers go into this cache.
    pub fn new(client: Client, cache: Cache, observer: Arc<dyn Observer>) -> Self {
        Self { client, cache, observer }
    }

    /// Who is told.
    pub fn observer(&self) -> &Arc<dyn Observer> {
        &self.observer
    }

    /// Creates an object. Its name is in it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn create<T: Kept>(&self, namespace: &str, object: &Value) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::create(&path_of::<T>(namespace), object, MANAGER);
        let text = self.send("create", T::KIND, request).await?;
        self.take_in(text.as_bytes())
    }

    /// Reads an object from the API server itself.
    ///
    /// # Errors
    /// See [`WriteError`]. An object that does not exist is no error.
    pub async fn read<T: Kept>(&self, key: &Key) -> Result<Option<Arc<Seen<T>>>, WriteError> {
        let known = self.cache.get::<T>(key);
        let request = request::get(&path_of::<T>(&key.namespace), &key.name);
        match self.send("get", T::KIND, request).await {
            Ok(text) => self.take_in(text.as_bytes()).map(Some),
            Err(WriteError::NotFound(_)) => {
                if let Some(known) = known {
                    self.cache.deleted_by_us::<T>(key, &known.uid);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the objects with these labels from the API server itself, at most so many; none is all
    /// namespaces.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn list<T: Kept>(
        &self,
        namespace: Option<&str>,
        selector: &str,
        limit: u32,
    ) -> Result<Vec<Arc<Seen<T>>>, WriteError> {
        self.page::<T>(namespace, selector, limit, None).await.map(|(found, _)| found)
    }

    /// Reads all objects with these labels from the API server itself, so many with each request; none is all
    /// namespaces. They are of different times.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn list_all<T: Kept>(
        &self,
        namespace: Option<&str>,
        selector: &str,
        page: u32,
    ) -> Result<Vec<Arc<Seen<T>>>, WriteError> {
        let (mut all, mut next) = self.page::<T>(namespace, selector, page, None).await?;
        while let Some(from) = next {
            let (found, then) = self.page::<T>(namespace, selector, page, Some(&from)).await?;
            all.extend(found);
            next = then;
        }
        Ok(all)
    }

    async fn page<T: Kept>(
        &self,
        namespace: Option<&str>,
        selector: &str,
        limit: u32,
        from: Option<&str>,
    ) -> Result<(Vec<Arc<Seen<T>>>, Option<String>), WriteError> {
        #[derive(Deserialize)]
        struct List<'a> {
            #[serde(default)]
            metadata: ListMeta,
            #[serde(borrow, default)]
            items: Vec<&'a RawValue>,
        }
        let path = match namespace {
            Some(namespace) => path_of::<T>(namespace),
            None if T::GROUP.is_empty() => format!("/api/{}/{}", T::VERSION, T::PLURAL),
            None => format!("/apis/{}/{}/{}", T::GROUP, T::VERSION, T::PLURAL),
        };
        let mut parameters = ListParams::default().labels(selector).limit(limit);
        parameters.continue_token = from.map(str::to_owned);
        let unbuilt = |error: kube::core::request::Error| WriteError::Refused {
            code: 0,
            message: format!("cannot be asked for: {error}"),
        };
        let request = Request::new(path).list(&parameters).map_err(unbuilt);
        let text = self.send("list", T::KIND, request).await?;
        let unreadable = |error: serde_json::Error| WriteError::Unanswered(error.to_string());
        let list: List<'_> = serde_json::from_str(&text).map_err(unreadable)?;
        // An object that cannot be read takes itself out.
        let found = list.items.into_iter().filter_map(|item| self.take_in(item.get().as_bytes()).ok());
        Ok((found.collect(), list.metadata.continue_.filter(|next| !next.is_empty())))
    }

    /// Changes an object by a merge patch, if it is still as it was seen.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch<T: Kept>(&self, seen: &Seen<T>, patch: Value) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::patch(seen, patch, Merge::Plain, None, MANAGER);
        let text = self.send("patch", T::KIND, request).await?;
        self.take_in(text.as_bytes())
    }

    /// The same by a strategic merge patch, which merges lists as the kind knows them. For built-in kinds.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_strategic<T: Kept>(
        &self,
        seen: &Seen<T>,
        patch: Value,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::patch(seen, patch, Merge::Strategic, None, MANAGER);
        let text = self.send("patch", T::KIND, request).await?;
        self.take_in(text.as_bytes())
    }

    /// Changes fields of an object that nobody else writes, whatever its version, if it is the one that was
    /// seen.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn patch_any_version<T: Kept>(
        &self,
        seen: &Seen<T>,
        patch: Value,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        let request = request::patch_any_version(seen, patch, MANAGER);
        let text = self.send("patch", T::KIND, request).await?;
        self.take_in(text.as_bytes())
    }

    /// Deletes an object, if it is the one that was seen. One that is gone already is deleted.
    ///
    /// # Errors
    /// See [`WriteError`]. With [`Only::ThisUid`] a conflict says nothing about the object.
    pub async fn delete<T: Kept>(&self, seen: &Seen<T>, only: Only) -> Result<(), WriteError> {
        let request = request::delete::<T>(&seen.key, &seen.uid, &seen.version, only, None);
        let answer = self.send("delete", T::KIND, request).await;
        match answer {
            // An object that has to end first is returned as it is now; one that is gone, as a Status.
            Ok(text) if self.take_in::<T>(text.as_bytes()).is_ok() => Ok(()),
            Ok(_) | Err(WriteError::NotFound(_)) => {
                self.cache.deleted_by_us::<T>(&seen.key, &seen.uid);
                Ok(())
            }
            // Another object may have the name by now.
            Err(WriteError::Conflict(why)) if only == Only::ThisUid => {
                match self.read::<T>(&seen.key).await? {
                    Some(is) if is.uid == seen.uid => Err(WriteError::Conflict(why)),
                    _ => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Sends a request about an object of a kind that the cache does not have. Returns the answer.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn other(
        &self,
        verb: &'static str,
        kind: &'static str,
        request: request::Built,
    ) -> Result<String, WriteError> {
        self.send(verb, kind, request).await
    }

    async fn send(
        &self,
        verb: &'static str,
        kind: &'static str,
        request: request::Built,
    ) -> Result<String, WriteError> {
        let request = request?;
        let began = Instant::now();
        let answer = request::send(&self.client, request).await;
        self.observer.request(verb, kind, answer.as_ref().map_or_else(outcome, |_| "ok"), began.elapsed());
        answer
    }

    fn take_in<T: Kept>(&self, object: &[u8]) -> Result<Arc<Seen<T>>, WriteError> {
        let seen = T::read(object).map_err(|error| WriteError::Unanswered(error.to_string()))?;
        let seen = Arc::new(seen);
        self.cache.answered(&seen);
        Ok(seen)
    }
}
