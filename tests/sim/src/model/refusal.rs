//! Answers that are no success, as the API server words them.

use serde_json::{Value, json};

use super::Place;

/// A request that was not done, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Refusal {
    /// The status code of the answer.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
    /// Plural and name of the object.
    about: Option<(String, String)>,
}

impl Refusal {
    fn about(place: &Place, code: u16, reason: &'static str, message: String) -> Self {
        Self { code, reason, message, about: Some((place.kind.plural.to_owned(), place.name.clone())) }
    }

    pub(crate) fn not_found(place: &Place) -> Self {
        let message = format!("{} {:?} not found", place.kind.resource(), place.name);
        Self::about(place, 404, "NotFound", message)
    }

    pub(crate) fn already_exists(place: &Place) -> Self {
        let message = format!("{} {:?} already exists", place.kind.resource(), place.name);
        Self::about(place, 409, "AlreadyExists", message)
    }

    pub(crate) fn conflict(place: &Place, why: &str) -> Self {
        let resource = place.kind.resource();
        let message = format!("Operation cannot be fulfilled on {resource} {:?}: {why}", place.name);
        Self::about(place, 409, "Conflict", message)
    }

    /// The version that the request carried is not the object's.
    pub(crate) fn modified(place: &Place) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(place, why)
    }

    pub(crate) fn invalid(place: &Place, why: &str) -> Self {
        let message = format!("{} {:?} is invalid: {why}", place.kind.kind, place.name);
        Self::about(place, 422, "Invalid", message)
    }

    pub(crate) fn expired(since: u64, oldest: u64) -> Self {
        Self {
            code: 410,
            reason: "Expired",
            message: format!("too old resource version: {since} ({oldest})"),
            about: None,
        }
    }

    /// An answer of the server itself, about no object.
    pub fn of_server(code: u16) -> Self {
        let (reason, message) = match code {
            400 => ("BadRequest", "the server could not understand the request"),
            404 => ("NotFound", "the server could not find the requested resource"),
            405 => ("MethodNotAllowed", "the server does not allow this method on the requested resource"),
            409 => ("Conflict", "the server reported a conflict"),
            415 => ("UnsupportedMediaType", "the body of the request was in an unknown format"),
            429 => ("TooManyRequests", "the server has received too many requests, please try again later"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the server was unable to return a response in the time allotted"),
            _ => ("InternalError", "an error on the server has prevented the request from succeeding"),
        };
        Self { code, reason, message: message.to_owned(), about: None }
    }

    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self { message: why.into(), ..Self::of_server(400) }
    }

    /// A patch that cannot be applied to the object as it is, such as one whose `test` fails.
    pub(crate) fn patch(why: impl Into<String>) -> Self {
        Self { code: 422, reason: "Invalid", message: why.into(), about: None }
    }

    /// The body of the answer.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some((plural, name)) = &self.about {
            status["details"] = json!({ "name": name, "kind": plural });
        }
        status
    }
}
