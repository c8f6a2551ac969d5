//! Who asks: the key in `X-API-KEY`, and how often it may ask.
//!
//! An unknown key, a malformed one and none at all get the same words. The number of such answers is limited
//! for each address. A valid key is never refused for what others did from the same address, because a
//! gateway in front of the manager is one address for everybody.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::HeaderMap;
use jiff::Timestamp;

use super::ApiState;
use super::failure::Failure;
use super::lifecycle::Doing;
use crate::Caller;

/// The keys that may use the API, and what the API can do to them.
pub trait Keys: Send + Sync + 'static {
    /// Who has this key. The time taken does not tell a key that is nearly right from another.
    fn authenticate(&self, presented: &str) -> Option<Caller>;

    /// The teams that the caller can see.
    fn teams(&self, caller: &Caller) -> Vec<Team>;

    /// The keys that the caller can see: those of its team.
    fn list(&self, caller: &Caller) -> Vec<KeyFacts>;

    /// Makes a key. The answer is the only place where it is ever shown.
    fn create<'a>(&'a self, caller: &'a Caller, new: NewKey) -> Doing<'a, CreatedKey>;

    /// Revokes a key.
    fn revoke<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()>;
}

/// A team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Team {
    /// Its ID.
    pub id: String,
    /// Its name.
    pub name: String,
}

/// What may be known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFacts {
    /// Its ID, a UUID.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its team.
    pub team: String,
    /// What it looks like, with most of it left out.
    pub mask: KeyMask,
    /// When it was made.
    pub created: Timestamp,
    /// The ID of the key that made it.
    pub created_by: Option<String>,
    /// When it was used, roughly.
    pub last_used: Option<Timestamp>,
    /// When it stops being accepted.
    pub expires: Option<Timestamp>,
}

/// What a key looks like, with most of it left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyMask {
    /// What every key begins with: `e2b_`.
    pub prefix: String,
    /// How long the rest is.
    pub length: usize,
    /// The first characters of the rest.
    pub head: String,
    /// The last characters of the rest.
    pub tail: String,
}

/// A key that is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct NewKey {
    /// Its name.
    pub name: String,
    /// Its team; none is the caller's own.
    pub team: Option<String>,
    /// What it may use at most, as OpenKruise writes it: `{"limits":[…]}`.
    pub quota: Option<serde_json::Value>,
}

/// A key that was made.
#[derive(Clone)]
pub struct CreatedKey {
    /// What may be known of it.
    pub facts: KeyFacts,
    /// The key itself.
    pub key: crate::AccessToken,
}

/// The address of whoever is connected. The server puts it into the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// The header of the key.
pub(super) const HEADER: &str = "x-api-key";
/// No key is longer.
const LONGEST: usize = 512;

/// Lets a request with a valid key pass, with its [`Caller`] in the extensions.
pub(super) async fn authenticate(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(caller) = presented(request.headers()).and_then(|key| state.keys.authenticate(key)) else {
        let peer = request.extensions().get::<Peer>().map(|peer| peer.0);
        return match state.failures.take(&peer) {
            Ok(()) => Failure::new(401, "Invalid API Key").into_response(),
            Err(wait) => Failure::new(429, "too many requests with an invalid API key from this address")
                .after(wait)
                .into_response(),
        };
    };
    let owner = Arc::clone(&caller.owner);
    if let Err(wait) = state.rates.take(&owner) {
        let mut reply = Failure::new(429, "too many requests with this API key").after(wait).into_response();
        reply.extensions_mut().insert(KeyId(owner));
        return reply;
    }
    request.extensions_mut().insert(caller);
    let mut reply = next.run(request).await;
    reply.extensions_mut().insert(KeyId(owner));
    reply
}

/// The key's ID, for the access log.
#[derive(Clone)]
pub(super) struct KeyId(pub(super) Arc<str>);

/// The one key of a request. Two are none: a proxy in between may have checked the other one.
fn presented(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(HEADER).iter();
    let one = all.next()?;
    let text = one.to_str().ok().filter(|text| !text.is_empty() && text.len() <= LONGEST)?;
    all.next().is_none().then_some(text)
}
