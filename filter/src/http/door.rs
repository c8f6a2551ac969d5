//! What a decision asks beside the request and the table: the gateway's keys, the time, and what each worker
//! remembers.
//!
//! The keys are read lock-free from the gateway's keyring. The memory is a worker's own, so nothing is shared
//! and nothing waits; the failures at signed routes alone are counted over all workers, without a lock.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use envoy_proxy_dynamic_modules_rust_sdk::abi::envoy_dynamic_module_type_attribute_id as AttributeId;
use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyHttpFilter, EnvoyHttpFilterScheduler};
use sandgate_auth::{
    Budget, Failures, JwtKeys, Keys, KnownTags, Reviewed, Sandbox, TokenCache, TokenError, UnixTime,
};
use sandgate_request::{Door, TrafficJwt};
use sandgate_routes::Route;
use sandgate_watch::Gateway;

use super::secrets::Secrets;
use crate::cluster::Wakeup;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// What one worker remembers of credentials.
#[derive(Default)]
struct Memory {
    tokens: TokenCache,
    budget: Budget,
    tags: KnownTags,
}

/// The failures at signed routes, on all workers and in all filters.
static FAILURES: LazyLock<Failures> = LazyLock::new(Failures::default);

/// Since when times are counted.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The door of one request.
pub(super) struct RequestDoor<'a, EHF> {
    pub(super) gateway: &'static Gateway,
    pub(super) secrets: &'a Secrets,
    pub(super) envoy: &'a EHF,
}

impl<EHF: EnvoyHttpFilter> Door for RequestDoor<'_, EHF> {
    fn keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R {
        match self.gateway.keyring() {
            Some(keyring) if self.secrets.is_empty() => f(&keyring.keys()),
            keyring => {
                let mut keys = keyring.map_or_else(Keys::default, |keyring| Keys::clone(&keyring.keys()));
                self.secrets.put(self.envoy, &mut keys);
                f(&keys)
            }
        }
    }

    fn unix(&self) -> u64 {
        // A clock before 1970 is far off: then everything with an end is over.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(u64::MAX, |time| time.as_secs())
    }

    fn uptime(&self) -> Duration {
        START.elapsed()
    }

    fn source(&self) -> Option<IpAddr> {
        let address = self.envoy.get_attribute_string(AttributeId::SourceAddress)?;
        let address: SocketAddr = std::str::from_utf8(address.as_slice()).ok()?.parse().ok()?;
        Some(address.ip())
    }

    fn traffic_jwt(&self, token: &[u8], sandbox: &Route) -> TrafficJwt {
        let Some(keyring) = self.gateway.keyring() else { return TrafficJwt::NotReady };
        let keys = keyring.keys();
        let JwtKeys::Ready(verifier) = &keys.jwt else { return TrafficJwt::NotReady };
        let uid = sandbox.uid();
        let sandbox = Sandbox { id: sandbox.id_bytes(), uid: uid.as_bytes() };
        let found = MEMORY.with_borrow_mut(|memory| {
            memory.tokens.check(token, verifier, sandbox, UnixTime(self.unix()), &mut memory.budget)
        });
        match found {
            Ok(()) => TrafficJwt::Good,
            Err(TokenError::UnknownKey) => TrafficJwt::UnknownKey,
            Err(TokenError::Busy) => TrafficJwt::Busy,
            Err(_) => TrafficJwt::Bad,
        }
    }

    fn reviewed<R>(&self, token: &[u8], f: impl FnOnce(Option<&Reviewed>) -> R) -> R {
        match self.gateway.keyring() {
            Some(keyring) => f(keyring.reviewed(token).as_deref()),
            None => f(Some(&Reviewed::Failed)),
        }
    }

    fn failures(&self) -> &Failures {
        &FAILURES
    }

    fn known_tags<R>(&self, f: impl FnOnce(&mut KnownTags) -> R) -> R {
        MEMORY.with_borrow_mut(|memory| f(&mut memory.tags))
    }
}

/// The way back to a request that waits for keys or for the API server. Whether it is called or dropped, the
/// request is decided again: it must not wait for nobody.
pub(super) struct Ticket(Box<dyn EnvoyHttpFilterScheduler>);

impl Ticket {
    pub(super) fn new(scheduler: impl EnvoyHttpFilterScheduler + 'static) -> Self {
        Self(Box::new(scheduler))
    }

    /// What the keyring calls.
    pub(super) fn wake(self) -> Box<dyn FnOnce() + Send> {
        Box::new(move || drop(self))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.commit(Wakeup::DecideAgain as u64);
    }
}
