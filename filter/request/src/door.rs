//! What a decision asks beside the request and the table.

use std::net::IpAddr;
use std::time::Duration;

use sandgate_auth::{Failures, Keys, KnownTags, Reviewed};
use sandgate_routes::Route;

/// The keys, the time, who asks, and what this worker remembers.
///
/// Each of these is asked for only where the sandbox, or the config, wants a credential: a request without
/// any pays nothing. No method takes a lock or waits.
pub trait Door {
    /// Calls `f` with the keys as they are now.
    fn keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R;

    /// Seconds since 1970.
    fn unix(&self) -> u64;

    /// The time since any moment that stays the same.
    fn uptime(&self) -> Duration;

    /// The client's address, where it has one.
    fn source(&self) -> Option<IpAddr>;

    /// Whether a traffic JWT is good for this sandbox now.
    fn traffic_jwt(&self, token: &[u8], sandbox: &Route) -> TrafficJwt;

    /// Calls `f` with what the API server said of a bearer token; with `None` where it has to be asked.
    fn reviewed<R>(&self, token: &[u8], f: impl FnOnce(Option<&Reviewed>) -> R) -> R;

    /// The guesses at signed routes that failed, on all workers.
    fn failures(&self) -> &Failures;

    /// Calls `f` with the signed routes that were good on this worker.
    fn known_tags<R>(&self, f: impl FnOnce(&mut KnownTags) -> R) -> R;
}

/// What was learnt of a traffic JWT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficJwt {
    /// It is good for this sandbox.
    Good,
    /// It is not, or there is none.
    Bad,
    /// It names a key that is not known here. Newer keys may have it.
    UnknownKey,
    /// No keys are known yet, or none are configured.
    NotReady,
    /// This worker has checked as many signatures as it may for now.
    Busy,
}

/// A door without keys: what is closed stays closed. For tools that decide about no real request.
#[derive(Debug, Default)]
pub struct Keyless {
    keys: Keys,
    failures: Failures,
}

impl Door for Keyless {
    fn keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R {
        f(&self.keys)
    }

    fn unix(&self) -> u64 {
        0
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn source(&self) -> Option<IpAddr> {
        None
    }

    fn traffic_jwt(&self, _: &[u8], _: &Route) -> TrafficJwt {
        TrafficJwt::NotReady
    }

    fn reviewed<R>(&self, _: &[u8], f: impl FnOnce(Option<&Reviewed>) -> R) -> R {
        f(Some(&Reviewed::Failed))
    }

    fn failures(&self) -> &Failures {
        &self.failures
    }

    fn known_tags<R>(&self, f: impl FnOnce(&mut KnownTags) -> R) -> R {
        f(&mut KnownTags::default())
    }
}
