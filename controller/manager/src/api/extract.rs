//! What handlers take out of a request. Whatever is wrong is answered with the field's name.

use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Path, Request};
use http::header::{CONTENT_TYPE, HOST};
use http::request::Parts;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::failure::Failure;
use super::{ApiState, PREFIX};
use crate::{Caller, Error};

/// How long a body may take to arrive.
const SLOWEST: Duration = Duration::from_secs(20);
/// So much of an unknown ID is repeated in an answer.
const SHOWN: usize = 64;

/// Who asks. The router lets nobody in without a key, so there is one.
pub(super) struct Who(pub(super) Caller);

impl FromRequestParts<ApiState> for Who {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, Failure> {
        let caller = parts.extensions.get::<Caller>().cloned();
        caller.map(Self).ok_or_else(|| Failure::new(401, "Invalid API Key"))
    }
}

/// The ID of a sandbox, from the path. What cannot be one was not found.
pub(super) struct SandboxId(pub(super) String);

impl FromRequestParts<ApiState> for SandboxId {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Failure> {
        let Name(id) = Name::from_request_parts(parts, state).await?;
        if is_name(&id) {
            return Ok(Self(id));
        }
        Err(Error::no_sandbox(&shown(&id)).into())
    }
}

/// One segment of the path, whatever it is.
pub(super) struct Name(pub(super) String);

impl FromRequestParts<ApiState> for Name {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Failure> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(name) = path.map_err(|_| Failure::field("path", "expected UTF-8, percent-encoded"))?;
        Ok(Self(name))
    }
}

/// Whether this can be the ID of a sandbox or the name of an object.
pub(super) fn is_name(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=253).contains(&text.len()) && text.bytes().all(fine)
}

/// Whether this can be the name of a SandboxSet, or the ID or name of a snapshot. Those of snapshots may have
/// `/` and `:`, as at E2B.
pub(super) fn is_template(text: &str) -> bool {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte);
    (1..=253).contains(&text.len()) && text.bytes().all(fine)
}

/// What of a text from outside is repeated in an answer.
pub(super) fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// The JSON body. None at all, or null, is the empty object.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<ApiState> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, Failure> {
        let (parts, body) = request.into_parts();
        let limit = state.settings.body_limit;
        let read = tokio::time::timeout(SLOWEST, to_bytes(body, limit)).await;
        let bytes = match read {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) if is_length(&error) => {
                return Err(Failure::new(413, format!("body: expected at most {limit} bytes")));
            }
            Ok(Err(_)) => return Err(Failure::new(400, "body: it ended early")),
            Err(_) => return Err(Failure::new(408, "body: it did not arrive in time")),
        };
        if bytes.is_empty() {
            return parse(b"{}").map(Self);
        }
        let text = bytes.trim_ascii();
        if !is_json(&parts.headers) {
            return Err(Failure::new(415, "Content-Type: expected application/json"));
        }
        parse(if text == b"null" { b"{}" } else { text }).map(Self)
    }
}

/// Whether the body was too long.
fn is_length(error: &axum::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        if error.is::<http_body_util::LengthLimitError>() {
            return true;
        }
        source = error.source();
    }
    false
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(value) = headers.get(CONTENT_TYPE) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    // A struct can be read from a list as well, which nobody means.
    if bytes.first() != Some(&b'{') {
        return Err(Failure::field("body", "expected a JSON object"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { "body" } else { &path };
        Failure::field(field, &error.inner().to_string())
    })?;
    reader.end().map_err(|error| Failure::field("body", &error.to_string()))?;
    Ok(value)
}

/// The query, decoded once.
pub(super) struct Query(Vec<(String, String)>);

impl FromRequestParts<ApiState> for Query {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _state: &ApiState) -> Result<Self, Failure> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Query {
    /// The value of a parameter that may stand there once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, Failure> {
        let mut all = self.all(name);
        let one = all.next();
        if all.next().is_some() {
            return Err(Failure::field(name, "expected once"));
        }
        Ok(one)
    }

    /// As [`one`](Self::one), for a text: an empty one is none.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Failure> {
        Ok(self.one(name)?.filter(|text| !text.is_empty()))
    }

    /// Every value of a parameter.
    pub(super) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A whole number within these bounds.
    pub(super) fn number(&self, name: &str, least: i64, most: i64) -> Result<Option<i64>, Failure> {
        let Some(text) = self.one(name)? else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number
            .map(Some)
            .ok_or_else(|| Failure::field(name, &format!("expected a whole number from {least} to {most}")))
    }

    /// The parameters that are none of these.
    pub(super) fn others(&self, known: &[&str]) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter().filter(move |(key, _)| !known.contains(&key.as_str()));
        pairs.map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

/// Where the caller thinks that the API is.
pub(super) struct Place {
    /// The domain of sandboxes, as the answer says it.
    pub(super) domain: Option<String>,
    /// It was asked under `/kruise/api`, so it is answered as OpenKruise answers.
    pub(super) kruise: bool,
}

impl FromRequestParts<ApiState> for Place {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Failure> {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let kruise = path.starts_with(PREFIX);
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str));
        let domain = state.settings.domain.clone().or_else(|| domain(host?, kruise));
        Ok(Self { domain, kruise })
    }
}

/// The domain that a `Host` stands for: without `api.`, with the port.
///
/// An address or `localhost` has no names below it, so it is no domain of sandboxes: the SDK then uses the
/// one that it was told. Under `/kruise/api` sandboxes are paths, and every host will do.
fn domain(host: &str, kruise: bool) -> Option<String> {
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if host.is_empty() || host.len() > 255 || !host.bytes().all(fine) {
        return None;
    }
    if kruise {
        return Some(host.to_owned());
    }
    let host = host.to_ascii_lowercase();
    let host = host.strip_prefix("api.").unwrap_or(&host);
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let numeric = name.starts_with('[') || name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (!numeric && name != "localhost" && !name.is_empty()).then(|| host.to_owned())
}

/// A header's text; what is not text is a wrong one.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Failure> {
    let mut all = headers.get_all(name).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Failure::field(name, "expected once"));
    }
    value.to_str().map(Some).map_err(|_| Failure::field(name, "expected ASCII text"))
}

/// The answer to a method that a path does not have. The router adds which it has.
pub(super) async fn no_method(method: Method) -> Failure {
    Failure::new(405, format!("this path has no method {method}"))
}
