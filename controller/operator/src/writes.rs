//! Every write to the API server.
//!
//! Each of them
//! 1. asks whether this process still leads;
//! 2. carries the version or the UID of what was decided on, or is a create, which fails where the name is
//!    taken;
//! 3. is given up after [`PATIENCE`], and may have been done then;
//! 4. puts its answer into the view, so that nobody here reads anything older.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, timeout};

use crate::metrics::WriteMetrics;
use crate::view::{Kept, Seen, View};
use crate::{Category, Failed, Key, Leadership};

/// How long one request may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Whose fields they are, for the API server.
const MANAGER: &str = "sandgate-operator";

/// Why a write was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is not as it was any more. The next look decides anew.
    #[error("the object has changed: {0}")]
    Conflict(String),
    /// The object is gone.
    #[error("the object is gone: {0}")]
    NotFound(String),
    /// The name is taken.
    #[error("the name is taken: {0}")]
    AlreadyExists(String),
    /// The API server does not want it.
    #[error("refused with {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Why.
        message: String,
    },
    /// The API server has no time for it, or does not know this process for the moment. It was not done, and
    /// says nothing about the object.
    #[error("put off: {0}")]
    PutOff(String),
    /// There was no answer, or none that says what became of it. It may have been done.
    #[error("no answer: {0}")]
    Unanswered(String),
    /// This process does not lead, so nothing was sent.
    #[error("this process does not lead")]
    NotLeading,
}

impl WriteError {
    /// The fixed word for it.
    pub fn category(&self) -> Category {
        match self {
            Self::Conflict(_) | Self::NotFound(_) | Self::AlreadyExists(_) => Category::Conflict,
            Self::Refused { .. } => Category::Refused,
            Self::PutOff(_) => Category::PutOff,
            Self::Unanswered(_) => Category::Unanswered,
            Self::NotLeading => Category::NotLeading,
        }
    }

    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = status.message.clone();
                match (status.code, status.reason.as_str()) {
                    (409, "AlreadyExists") => Self::AlreadyExists(message),
                    (409, _) => Self::Conflict(message),
                    (404, _) => Self::NotFound(message),
                    // Too many requests at a time, or a token that has just been replaced.
                    (429 | 401, _) => Self::PutOff(message),
                    // A server that failed may have failed after the write.
                    (500.., _) => Self::Unanswered(message),
                    (code, _) => Self::Refused { code, message },
                }
            }
            kube::Error::BuildRequest(error) => {
                Self::Refused { code: 0, message: format!("cannot be asked for: {error}") }
            }
            other => Self::Unanswered(other.to_string()),
        }
    }
}

impl From<WriteError> for Failed {
    fn from(error: WriteError) -> Self {
        Self { category: error.category(), message: error.to_string(), source: Some(Box::new(error)) }
    }
}

/// What a delete depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    /// The object is the same one, whatever has changed in it.
    ThisUid,
    /// The object has not changed at all.
    ThisVersion,
}

/// How a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// By RFC 7386: lists are replaced.
    Plain,
    /// As built-in kinds know it: lists of containers are merged by name.
    Strategic,
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

    /// Creates an object. Its name is in it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn create<T: Kept>(
        &self,
        namespace: &str,
        object: &Value,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        let text = self.post(namespace, T::GROUP, T::VERSION, T::PLURAL, T::KIND, object).await?;
        self.take_in(&text)
    }

    /// Creates an object that the view does not have.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn create_claim(&self, namespace: &str, object: &Value) -> Result<(), WriteError> {
        let kind = "PersistentVolumeClaim";
        self.post(namespace, "", "v1", "persistentvolumeclaims", kind, object).await.map(drop)
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
        let path = path("", "v1", "persistentvolumeclaims", &key.namespace);
        let request = Request::new(path).get(&key.name, &GetParams::default());
        let text = self.send("get", "PersistentVolumeClaim", request).await?;
        let claim: Claim =
            serde_json::from_str(&text).map_err(|error| WriteError::Unanswered(error.to_string()))?;
        let owners = claim.metadata.owner_references.unwrap_or_default();
        Ok(owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid))
    }

    /// Reads an object from the API server itself.
    ///
    /// # Errors
    /// See [`WriteError`]. An object that does not exist is no error.
    pub(crate) async fn read<T: Kept>(&self, key: &Key) -> Result<Option<Arc<Seen<T>>>, WriteError> {
        let known = self.view.get::<T>(key);
        let request = Request::new(path_of::<T>(&key.namespace)).get(&key.name, &GetParams::default());
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

    /// Changes an object, or a subresource of it, if it is still as it was seen.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub(crate) async fn patch<T: Kept>(
        &self,
        seen: &Seen<T>,
        mut patch: Value,
        merge: Merge,
        subresource: Option<&str>,
    ) -> Result<Arc<Seen<T>>, WriteError> {
        patch["metadata"]["resourceVersion"] = seen.version.to_string().into();
        let patch = match merge {
            Merge::Plain => Patch::Merge(patch),
            Merge::Strategic => Patch::Strategic(patch),
        };
        let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(path_of::<T>(&seen.key.namespace));
        let request = match subresource {
            Some(name) => request.patch_subresource(name, &seen.key.name, &parameters, &patch),
            None => request.patch(&seen.key.name, &parameters, &patch),
        };
        match self.send("patch", T::KIND, request).await {
            Ok(text) => self.take_in(&text),
            Err(error) => Err(error),
        }
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
        let parameters = DeleteParams {
            grace_period_seconds: grace,
            preconditions: Some(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: (only == Only::ThisVersion).then(|| version.to_string()),
            }),
            ..DeleteParams::background()
        };
        let request = Request::new(path_of::<T>(&key.namespace)).delete(&key.name, &parameters);
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

    async fn post(
        &self,
        namespace: &str,
        group: &str,
        version: &str,
        plural: &str,
        kind: &'static str,
        object: &Value,
    ) -> Result<String, WriteError> {
        let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
        let request = Request::new(path(group, version, plural, namespace));
        self.send("create", kind, request.create(&parameters, object.to_string().into_bytes())).await
    }

    async fn send(
        &self,
        verb: &'static str,
        kind: &'static str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, WriteError> {
        let request = request.map_err(|error| WriteError::of(kube::Error::BuildRequest(error)))?;
        self.leadership.check().map_err(|_| WriteError::NotLeading)?;
        let began = Instant::now();
        let answer = match timeout(PATIENCE, self.client.request_text(request)).await {
            Ok(answer) => answer.map_err(WriteError::of),
            Err(_) => Err(WriteError::Unanswered(format!("not within {} s", PATIENCE.as_secs()))),
        };
        let outcome = answer.as_ref().map(drop).map_err(WriteError::category);
        self.metrics.observe(verb, kind, outcome, began.elapsed());
        answer
    }

    fn take_in<T: Kept>(&self, text: &str) -> Result<Arc<Seen<T>>, WriteError> {
        let seen = T::read(text.as_bytes()).map_err(|error| WriteError::Unanswered(error.to_string()))?;
        let seen = Arc::new(seen);
        self.view.answered(&seen);
        Ok(seen)
    }
}

fn path_of<T: Kept>(namespace: &str) -> String {
    path(T::GROUP, T::VERSION, T::PLURAL, namespace)
}

fn path(group: &str, version: &str, plural: &str, namespace: &str) -> String {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    format!("{root}/namespaces/{namespace}/{plural}")
}
