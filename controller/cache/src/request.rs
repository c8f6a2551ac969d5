//! Requests to the API server, and what may become of them.
//!
//! Every write carries the version or the UID of what was decided on, or is a create, which fails where the
//! name is taken. A request is given up after [`PATIENCE`], and may have been done then.

use std::time::Duration;

use http::Request as HttpRequest;
use kube::Client;
use kube::api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use sandgate_routes::Version;
use serde_json::Value;
use tokio::time::timeout;

use crate::{Key, Seen, Viewed};

/// How long one request may take.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A request that was built, or why it could not be.
pub type Built = Result<HttpRequest<Vec<u8>>, WriteError>;

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

/// What a delete depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// The object is the same one, whatever has changed in it.
    ThisUid,
    /// The object has not changed at all.
    ThisVersion,
}

/// How a patch is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// By RFC 7386: lists are replaced.
    Plain,
    /// As built-in kinds know it: lists of containers are merged by name.
    Strategic,
}

/// The path of a resource in a namespace.
pub fn path(group: &str, version: &str, plural: &str, namespace: &str) -> String {
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    format!("{root}/namespaces/{namespace}/{plural}")
}

/// The path of a kind in a namespace.
pub fn path_of<T: Viewed>(namespace: &str) -> String {
    path(T::GROUP, T::VERSION, T::PLURAL, namespace)
}

/// Creates an object below this path. Its name is in it.
///
/// # Errors
/// If the request cannot be built.
pub fn create(path: &str, object: &Value, manager: &str) -> Built {
    let parameters = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    built(Request::new(path).create(&parameters, object.to_string().into_bytes()))
}

/// Reads the object of this name below this path.
///
/// # Errors
/// If the request cannot be built.
pub fn get(path: &str, name: &str) -> Built {
    built(Request::new(path).get(name, &GetParams::default()))
}

/// Reads nothing but the metadata of the object of this name below this path.
///
/// # Errors
/// If the request cannot be built.
pub fn get_metadata(path: &str, name: &str) -> Built {
    built(Request::new(path).get_metadata(name, &GetParams::default()))
}

/// Lists the objects below this path that have these labels.
///
/// # Errors
/// If the request cannot be built.
pub fn list(path: &str, labels: &str) -> Built {
    built(Request::new(path).list(&ListParams::default().labels(labels)))
}

/// Changes an object, or a subresource of it, if it is still as it was seen.
///
/// # Errors
/// If the request cannot be built.
pub fn patch<T: Viewed>(
    seen: &Seen<T>,
    mut patch: Value,
    merge: Merge,
    subresource: Option<&str>,
    manager: &str,
) -> Built {
    patch["metadata"]["resourceVersion"] = seen.version.to_string().into();
    let patch = match merge {
        Merge::Plain => Patch::Merge(patch),
        Merge::Strategic => Patch::Strategic(patch),
    };
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let request = Request::new(path_of::<T>(&seen.key.namespace));
    built(match subresource {
        Some(name) => request.patch_subresource(name, &seen.key.name, &parameters, &patch),
        None => request.patch(&seen.key.name, &parameters, &patch),
    })
}

/// Changes an object by a plain merge patch, whatever its version, if it is the one that was seen. It is for
/// fields that nobody else writes.
///
/// # Errors
/// If the request cannot be built.
pub fn patch_any_version<T: Viewed>(seen: &Seen<T>, mut patch: Value, manager: &str) -> Built {
    patch["metadata"]["uid"] = (*seen.uid).into();
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let request = Request::new(path_of::<T>(&seen.key.namespace));
    built(request.patch(&seen.key.name, &parameters, &Patch::Merge(patch)))
}

/// Deletes an object, if it is the one that was seen.
///
/// # Errors
/// If the request cannot be built.
pub fn delete<T: Viewed>(key: &Key, uid: &str, version: &Version, only: Only, grace: Option<u32>) -> Built {
    let parameters = DeleteParams {
        grace_period_seconds: grace,
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: (only == Only::ThisVersion).then(|| version.to_string()),
        }),
        ..DeleteParams::background()
    };
    built(Request::new(path_of::<T>(&key.namespace)).delete(&key.name, &parameters))
}

fn built(request: Result<HttpRequest<Vec<u8>>, kube::core::request::Error>) -> Built {
    request.map_err(|error| WriteError::of(kube::Error::BuildRequest(error)))
}

/// Sends a request and reads the answer as text.
///
/// # Errors
/// See [`WriteError`].
pub async fn send(client: &Client, request: HttpRequest<Vec<u8>>) -> Result<String, WriteError> {
    match timeout(PATIENCE, client.request_text(request)).await {
        Ok(answer) => answer.map_err(WriteError::of),
        Err(_) => Err(WriteError::Unanswered(format!("not within {} s", PATIENCE.as_secs()))),
    }
}
