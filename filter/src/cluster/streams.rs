//! The requests in flight on one worker, so that a sandbox's can be ended with it.
//!
//! A request is entered when it is let through to its host and taken out when Envoy says the stream is complete (the
//! filter itself is dropped later, when Envoy gets round to it). What the rest of the module holds is a [`Token`], which
//! finds the entry again and never another's: a place that is used again has another generation.
//!
//! An entry holds a way back to its filter ([`EnvoyHttpFilterScheduler`]), because only the filter's own hook can answer
//! its request. Everything here belongs to one worker thread: no locks, no atomics but the counters shared with others.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use envoy_proxy_dynamic_modules_rust_sdk::EnvoyHttpFilterScheduler;

use super::host::Host;
use super::key::Key;
use super::local::Pick;

/// The event a filter gets when its request is to be ended.
pub(crate) const END: u64 = u64::MAX;

thread_local! {
    static STREAMS: RefCell<Streams> = const { RefCell::new(Streams { entries: Vec::new(), free: Vec::new() }) };
}

struct Streams {
    entries: Vec<Entry>,
    free: Vec<u32>,
}

struct Entry {
    generation: u32,
    stream: Option<Stream>,
}

struct Stream {
    host: Arc<Host>,
    pick: Pick,
    /// Whether the request has a connection to itself.
    alone: bool,
    /// Whether a host was picked for it before.
    tried: bool,
    scheduler: Box<dyn EnvoyHttpFilterScheduler>,
}

/// Finds one request on the worker that it was made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    index: u32,
    generation: u32,
}

impl Token {
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.index) << 32 | u64::from(self.generation)).to_ne_bytes()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let whole = u64::from_ne_bytes(bytes.try_into().ok()?);
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).ok();
        Some(Self { index: half(whole >> 32)?, generation: half(whole)? })
    }
}

/// Where a request is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) key: Key,
    pub(crate) identity: u64,
    pub(crate) pick: Pick,
    /// Whether a host was picked for it before: this is a retry.
    pub(crate) again: bool,
}

/// Enters a request that was admitted to `host`.
pub(crate) fn enter(
    host: Arc<Host>,
    pick: Pick,
    alone: bool,
    scheduler: Box<dyn EnvoyHttpFilterScheduler>,
) -> Token {
    host.enter();
    STREAMS.with_borrow_mut(|streams| {
        let stream = Some(Stream { host, pick, alone, tried: false, scheduler });
        if let Some(index) = streams.free.pop()
            && let Some(entry) = streams.entries.get_mut(index as usize)
        {
            entry.generation = entry.generation.wrapping_add(1);
            entry.stream = stream;
            return Token { index, generation: entry.generation };
        }
        let index = u32::try_from(streams.entries.len()).unwrap_or(u32::MAX);
        streams.entries.push(Entry { generation: 0, stream });
        Token { index, generation: 0 }
    })
}

/// The request is over. Does nothing the second time.
pub(crate) fn leave(token: Token) {
    // A filter may be dropped when the thread's own storage is gone already.
    let stream = STREAMS.try_with(|streams| {
        let mut streams = streams.borrow_mut();
        let entry = streams.entries.get_mut(token.index as usize)?;
        let stream = entry.stream.take_if(|_| entry.generation == token.generation)?;
        streams.free.push(token.index);
        Some(stream)
    });
    if let Ok(Some(stream)) = stream {
        stream.host.leave();
        stream.host.usage().leave(stream.alone);
    }
}

/// Where a request is to go, for the load balancer that picks its host now.
pub(crate) fn target(token: Token) -> Option<Target> {
    STREAMS.with_borrow_mut(|streams| {
        let entry = streams.entries.get_mut(token.index as usize)?;
        let stream = entry.stream.as_mut().filter(|_| entry.generation == token.generation)?;
        let again = std::mem::replace(&mut stream.tried, true);
        let (key, identity) = (stream.host.key(), stream.host.identity());
        Some(Target { key, identity, pick: stream.pick, again })
    })
}

/// Whose requests are to end: an identity's, all or those to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) identity: u64,
    pub(crate) at: Option<IpAddr>,
}

/// Tells the filters of these requests to end them.
pub(crate) fn end(ends: &[End]) {
    if ends.is_empty() {
        return;
    }
    STREAMS.with_borrow(|streams| {
        for stream in streams.entries.iter().filter_map(|entry| entry.stream.as_ref()) {
            let (identity, ip) = (stream.host.identity(), stream.host.key().ip());
            if ends.iter().any(|end| end.identity == identity && end.at.is_none_or(|at| at == ip)) {
                stream.scheduler.commit(END);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cluster::host::Usage;

    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<u64>>>);

    impl EnvoyHttpFilterScheduler for Seen {
        fn commit(&self, event_id: u64) {
            self.0.lock().expect("no panic").push(event_id);
        }
    }

    const PICK: Pick = Pick::none();

    fn host(identity: u64, last: u8) -> Arc<Host> {
        Arc::new(Host::new(Key::new([127, 0, 0, last].into(), 80), identity, Arc::new(Usage::default())))
    }

    #[test]
    fn a_token_finds_its_own_request_and_never_the_next_in_its_place() {
        let (first, second) = (host(1, 1), host(2, 2));
        let token = enter(Arc::clone(&first), PICK, true, Box::new(Seen::default()));
        assert_eq!(Token::from_bytes(&token.to_bytes()), Some(token));
        let found = target(token).expect("it is there");
        assert_eq!((found.identity, found.again), (1, false));
        assert!(target(token).expect("it is there").again, "the second time is a retry");
        leave(token);
        leave(token);
        assert_eq!((target(token), first.in_flight()), (None, 0));
        let next = enter(Arc::clone(&second), PICK, true, Box::new(Seen::default()));
        assert_eq!((next.index, target(token)), (token.index, None));
        leave(token);
        assert_eq!(second.in_flight(), 1, "an old token ended another's request");
        leave(next);
        assert_eq!(Token::from_bytes(b"seven"), None);
    }

    #[test]
    fn only_the_requests_of_the_identity_and_the_address_are_ended() {
        let told: Vec<Seen> = (0..3).map(|_| Seen::default()).collect();
        let hosts = [host(1, 1), host(1, 2), host(2, 1)];
        let tokens: Vec<Token> = hosts
            .iter()
            .zip(&told)
            .map(|(host, seen)| enter(Arc::clone(host), PICK, true, Box::new(seen.clone())))
            .collect();
        end(&[End { identity: 1, at: Some([127, 0, 0, 1].into()) }]);
        let counts = || told.iter().map(|seen| seen.0.lock().expect("no panic").len()).collect::<Vec<_>>();
        assert_eq!(counts(), [1, 0, 0]);
        end(&[End { identity: 2, at: None }, End { identity: 1, at: None }]);
        assert_eq!(counts(), [2, 1, 1]);
        tokens.into_iter().for_each(leave);
        end(&[End { identity: 1, at: None }]);
        assert_eq!(counts(), [2, 1, 1]);
    }
}
