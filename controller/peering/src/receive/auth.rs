//! Who may push.
//!
//! A request has to satisfy one of the configured methods. If it has an `Authorization` header, only that
//! header is checked: `Bearer` by TokenReview, `SANDGATE-HMAC-SHA256` by a shared key. A client certificate
//! does not rescue a header that is wrong or of a method that is not configured. Without the header, the
//! client certificate is checked. Everything that the head of a request shows is checked before its body is
//! read.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use parking_lot::Mutex;

use super::review::Reviewer;
use crate::credential::CredentialError;
use crate::hmac::{Claim, HmacKey, Proof, unix_now};
use crate::receive::settings::{HmacSettings, RefreshSettings};
use crate::reload::Reloaded;

#[cfg(test)]
mod tests;

/// At 20,000 signed requests a second and a window of 30 s either way there is room to spare.
const MAX_NONCES: usize = 2_000_000;

/// Why a request may not push. A retry helps with `Unchecked` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// Wrong or no credentials.
    Unauthorized,
    /// They could not be checked now.
    Unchecked,
}

/// What the body still has to show.
#[derive(Debug)]
pub(crate) enum Admitted {
    /// Nothing.
    Any,
    /// That it is the one that was signed.
    Signed(Proof),
}

pub(crate) struct Auth {
    insecure: bool,
    certificates: bool,
    reviewer: Option<Reviewer>,
    signatures: Option<Signatures>,
}

struct Signatures {
    keys: Reloaded<Vec<HmacKey>>,
    replay: Mutex<Replay>,
}

impl Auth {
    /// Reads the keys. Signatures up to the second `since` are refused.
    pub(crate) fn new(settings: &RefreshSettings, since: u64) -> Result<Self, CredentialError> {
        Ok(Self {
            insecure: settings.is_insecure(),
            certificates: settings.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some()),
            reviewer: settings.token_review.clone().map(Reviewer::new),
            signatures: settings.hmac.as_ref().map(|hmac| Signatures::new(hmac, since)).transpose()?,
        })
    }

    /// Authenticates the head of a request. `certificate`: its connection has a good client certificate.
    pub(crate) async fn head(
        &self,
        head: &Parts,
        certificate: bool,
        source: IpAddr,
    ) -> Result<Admitted, Denied> {
        if self.insecure {
            return Ok(Admitted::Any);
        }
        let mut values = head.headers.get_all(AUTHORIZATION).iter();
        match (values.next(), values.next()) {
            (None, _) if self.certificates && certificate => Ok(Admitted::Any),
            (Some(value), None) => self.header(head, value.as_bytes(), source).await,
            _ => Err(Denied::Unauthorized),
        }
    }

    async fn header(&self, head: &Parts, value: &[u8], source: IpAddr) -> Result<Admitted, Denied> {
        if let Some(token) = bearer(value) {
            let reviewer = self.reviewer.as_ref().ok_or(Denied::Unauthorized)?;
            return reviewer.review(token, source).await.map(|()| Admitted::Any);
        }
        let signatures = self.signatures.as_ref().ok_or(Denied::Unauthorized)?;
        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
        signatures
            .verify(value, head.method.as_str(), path, unix_now())
            .map(Admitted::Signed)
            .ok_or(Denied::Unauthorized)
    }

    /// Checks the body against what the head has shown.
    pub(crate) fn body(&self, admitted: &Admitted, body: &[u8]) -> Result<(), Denied> {
        match (admitted, &self.signatures) {
            (Admitted::Any, _) => Ok(()),
            (Admitted::Signed(proof), Some(signatures)) if proof.covers(body) => {
                signatures.replay.lock().note(proof.time, proof.nonce, unix_now())
            }
            (Admitted::Signed(_), _) => Err(Denied::Unauthorized),
        }
    }

    /// Reads the keys again if they have changed. May block.
    pub(crate) fn reload(&self) -> Option<Result<(), CredentialError>> {
        self.signatures.as_ref()?.keys.reload()
    }
}

impl Signatures {
    fn new(settings: &HmacSettings, since: u64) -> Result<Self, CredentialError> {
        let keys = settings.keys.clone();
        let paths: Vec<PathBuf> = keys.iter().map(|(_, file)| file.clone()).collect();
        let load = move || keys.iter().map(|(id, file)| HmacKey::read(id, file)).collect();
        Ok(Self {
            keys: Reloaded::new(paths, load)?,
            replay: Mutex::new(Replay::new(settings.window, MAX_NONCES, since)),
        })
    }

    fn verify(&self, value: &[u8], method: &str, path: &str, now: u64) -> Option<Proof> {
        let claim = Claim::parse(value)?;
        let timely = self.replay.lock().is_timely(claim.time, now);
        if !timely {
            return None;
        }
        claim.verify(&self.keys.get(), method, path)
    }
}

/// The token, where the scheme is `Bearer`, in any case as RFC 9110 has it.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// The nonces of signed requests: each is good once.
///
/// Nonces are kept by the second in which their request was signed. A second that has left the window is
/// forgotten, because its requests are refused for their time. Only requests with a good signature are noted,
/// so nobody without a key can fill the store. A full store accepts nothing until a second has left the
/// window; the sender may retry.
///
/// A process does not have the nonces of an earlier one. So a request has to be signed in a later second than
/// the one in which this store was made: a request that was captured before a restart is refused after it. A
/// sender signs every try anew, so its first try a second later is good. The seconds are the sender's: if its
/// clock is ahead, a captured request stays good that much longer.
#[derive(Debug)]
struct Replay {
    seconds: BTreeMap<u64, HashSet<u128>>,
    count: usize,
    window: u64,
    max: usize,
    /// When the store was made.
    since: u64,
}

impl Replay {
    fn new(window: Duration, max: usize, since: u64) -> Self {
        Self { seconds: BTreeMap::new(), count: 0, window: window.as_secs(), max, since }
    }

    /// Whether the time of a request is within the window.
    fn is_timely(&self, time: u64, now: u64) -> bool {
        time > self.since && time.abs_diff(now) <= self.window
    }

    /// Notes a nonce. Denied if it was noted before or is of another time, and unchecked if the store is
    /// full.
    fn note(&mut self, time: u64, nonce: u128, now: u64) -> Result<(), Denied> {
        while let Some(second) = self.seconds.first_entry()
            && second.key().saturating_add(self.window) < now
        {
            self.count -= second.remove().len();
        }
        if !self.is_timely(time, now) {
            return Err(Denied::Unauthorized);
        }
        if self.count >= self.max {
            let seen = self.seconds.get(&time).is_some_and(|second| second.contains(&nonce));
            return Err(if seen { Denied::Unauthorized } else { Denied::Unchecked });
        }
        if !self.seconds.entry(time).or_default().insert(nonce) {
            return Err(Denied::Unauthorized);
        }
        self.count += 1;
        Ok(())
    }
}
