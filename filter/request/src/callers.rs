//! Who may ask at all: SIG agent-sandbox's ways to know a caller.
//!
//! A caller is checked before the table is looked at, in requests that name their sandbox as agent-sandbox
//! does: whoever is not known learns nothing, not even whether a sandbox exists. Requests in other dialects
//! are checked when they turn out to be for an object of one of the providers that the config names, so that
//! no other dialect is a way around.

use sandgate_auth::{Caller, Reviewed, ScopedBuffer, any_matches, bearer_token, verify_scoped};

use crate::config::{CallerMode, Callers};
use crate::decide::Stop;
use crate::door::Door;
use crate::{Address, Headers, Part, Refusal, Wait};

/// The header with the caller's token. Where callers are checked no sandbox gets it.
pub const AUTHORIZATION: &str = "authorization";

/// Checks who asks, for the sandbox of this namespace and name.
pub(crate) fn check<H: Headers + ?Sized, D: Door>(
    address: &Address,
    (namespace, name): (&str, &str),
    headers: &H,
    callers: &Callers,
    door: &D,
) -> Result<(), Stop> {
    if headers.repeats(AUTHORIZATION) {
        return Err(Refusal::Malformed { form: address.form(), part: Part::Repeated }.into());
    }
    headers.with(AUTHORIZATION, |value| {
        let Some(token) = value.and_then(bearer_token) else {
            // What is sent and is no bearer token does not count as nothing.
            return if value.is_none() && callers.allow_anonymous {
                Ok(())
            } else {
                Err(Refusal::CallerUnknown.into())
            };
        };
        match &callers.mode {
            CallerMode::Bearer => door
                .keys(|keys| any_matches(&keys.bearer, token))
                .then_some(())
                .ok_or_else(|| Refusal::CallerUnknown.into()),
            CallerMode::ScopedToken => {
                let mut buffer = ScopedBuffer::default();
                let claims = door.keys(|keys| verify_scoped(token, &keys.scoped, door.unix(), &mut buffer));
                match claims {
                    Ok(claims) if claims.is_for(namespace, name) => Ok(()),
                    Ok(_) => Err(Refusal::CallerForbidden.into()),
                    Err(_) => Err(Refusal::CallerUnknown.into()),
                }
            }
            CallerMode::TokenReview => door.reviewed(token, |reviewed| match reviewed {
                Some(Reviewed::Good(caller)) if callers.admits(caller, namespace) => Ok(()),
                Some(Reviewed::Good(_)) => Err(Refusal::CallerForbidden.into()),
                Some(Reviewed::Bad) => Err(Refusal::CallerUnknown.into()),
                Some(Reviewed::Failed) => Err(Refusal::ReviewFailed.into()),
                None => Err(Stop::Wait(Wait::Review)),
            }),
        }
    })
}

impl Callers {
    /// Whether a known caller may reach a sandbox of this namespace.
    fn admits(&self, caller: &Caller, namespace: &str) -> bool {
        let is_named = self.subjects.iter().any(|subject| subject.matches(&caller.username))
            || caller.groups.iter().any(|group| self.groups.contains(group));
        let anybody = self.subjects.is_empty() && self.groups.is_empty();
        (anybody || is_named) && (!self.bind_namespace || caller.namespace() == Some(namespace))
    }
}
