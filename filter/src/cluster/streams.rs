//! The requests in flight on one worker, so that a sandbox's can be ended with it.
//!
//! A request is entered when it is let through to its host and taken out when Envoy says the stream is
//! complete (the filter itself is dropped later, when Envoy gets round to it). What the rest of the module
//! holds is a [`Token`], which finds the entry again and never another's: a place that is used again has
//! another generation.
//!
//! An entry holds a way back to its filter ([`EnvoyHttpFilterScheduler`]), because only the filter's own hook
//! can answer its request. Everything here belongs to one worker thread: no locks, no atomics but the
//! counters shared with others.
//!
//! The requests of one identity are found without looking at the others: entries are chained by the low bits
//! of the identity, which are as good as random, being numbers in a row, and there are as many chains as
//! entries. Entering and leaving touch the neighbours in the chain and allocate nothing.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use envoy_proxy_dynamic_modules_rust_sdk::EnvoyHttpFilterScheduler;

use super::host::{Endpoint, Host};
use super::usage::Entered;
use super::worker::{self, Pick};

/// The event a filter gets when its request is to be ended.
pub(crate) const END: u64 = u64::MAX;

thread_local! {
    static STREAMS: RefCell<Streams> = const { RefCell::new(Streams::new()) };
}

/// So often a request is tried in any case, as without a time that it is tried for.
const TRIES: u8 = 2;

/// The end of a chain.
const NONE: u32 = u32::MAX;
/// As many chains are there at first.
const FEWEST: usize = 64;

/// The requests of one worker.
pub(crate) struct Streams {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The first entry of each chain. A power of two.
    chains: Vec<u32>,
}

struct Entry {
    generation: u32,
    /// Its neighbours in the chain.
    before: u32,
    after: u32,
    stream: Option<Stream>,
}

struct Stream {
    host: Arc<Host>,
    pick: Pick,
    /// How it was counted.
    entered: Entered,
    /// Whether nothing listened on its port.
    refused: bool,
    /// How often a host was picked for it, up to [`TRIES`].
    tries: u8,
    /// Until when it is tried again, where that is not for Envoy's route alone to say.
    until: Option<Instant>,
    /// Whether that time is over and no host was picked any more.
    gave_up: bool,
    /// Whether its filter has been told to end it: once is enough.
    ended: bool,
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
    pub(crate) endpoint: Endpoint,
    pub(crate) identity: u64,
    /// Where it was found; `None` if that host has been removed since.
    pub(crate) pick: Option<Pick>,
    /// Whether a host was picked for it before: this is a retry.
    pub(crate) again: bool,
}

/// Enters a request that was admitted to `host`.
pub(crate) fn enter(
    host: Arc<Host>,
    pick: Pick,
    entered: Entered,
    scheduler: Box<dyn EnvoyHttpFilterScheduler>,
) -> Token {
    STREAMS.with_borrow_mut(|streams| streams.enter(host, pick, entered, scheduler))
}

/// The request is over. Does nothing the second time.
pub(crate) fn leave(token: Token) {
    // A filter may be dropped when the thread's own storage is gone already.
    let refused = STREAMS.try_with(|streams| streams.borrow_mut().leave(token));
    if let Ok(Some((pick, host))) = refused {
        worker::refused(pick, &host);
    }
}

/// Nothing listened on the port of this request.
pub(crate) fn refuse(token: Token) {
    STREAMS.with_borrow_mut(|streams| {
        if let Some(stream) = streams.get(token) {
            stream.refused = true;
        }
    });
}

/// The request is tried again until then, and twice in any case. After that there is no host for it.
pub(crate) fn try_until(token: Token, until: Instant) {
    STREAMS.with_borrow_mut(|streams| {
        if let Some(stream) = streams.get(token) {
            stream.until = Some(until);
        }
    });
}

/// Whether there was no host for the request because the time for it was over.
pub(crate) fn has_given_up(token: Token) -> bool {
    STREAMS.with_borrow_mut(|streams| streams.get(token).is_some_and(|stream| stream.gave_up))
}

/// Where a request is to go, for the load balancer that picks its host now.
pub(crate) fn target(token: Token) -> Option<Target> {
    STREAMS.with_borrow_mut(|streams| streams.target(token))
}

/// Tells the filters of these requests to end them, and says how many it told.
pub(crate) fn end(ends: &[End]) -> u64 {
    STREAMS.with_borrow_mut(|streams| streams.end(ends))
}

/// Whose requests are to end: an identity's, all of them or all but those at one address.
///
/// It is about the hosts there were when the order was given. When a late worker is told, the identity may be
/// served again where it was: its new requests are on newer hosts, and go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    identity: u64,
    /// Where it is served now.
    keep: Option<IpAddr>,
    /// The newest host there was.
    newest: u64,
}

impl End {
    pub(crate) fn now(identity: u64, keep: Option<IpAddr>) -> Self {
        Self { identity, keep, newest: Host::made() }
    }

    #[cfg(test)]
    pub(crate) fn identity(self) -> u64 {
        self.identity
    }

    fn concerns(self, host: &Host) -> bool {
        host.identity() == self.identity
            && Some(host.endpoint().ip()) != self.keep
            && host.number() <= self.newest
    }
}

impl Streams {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new(), chains: Vec::new() }
    }

    pub(crate) fn enter(
        &mut self,
        host: Arc<Host>,
        pick: Pick,
        entered: Entered,
        scheduler: Box<dyn EnvoyHttpFilterScheduler>,
    ) -> Token {
        host.enter();
        let identity = host.identity();
        let stream = Some(Stream {
            host,
            pick,
            entered,
            refused: false,
            tries: 0,
            until: None,
            gave_up: false,
            ended: false,
            scheduler,
        });
        if let Some(index) = self.free.pop()
            && let Some(entry) = self.entries.get_mut(index as usize)
        {
            entry.generation = entry.generation.wrapping_add(1);
            entry.stream = stream;
            let generation = entry.generation;
            self.link(index, identity);
            return Token { index, generation };
        }
        let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
        self.entries.push(Entry { generation: 0, before: NONE, after: NONE, stream });
        if self.entries.len() > self.chains.len() {
            self.chain_anew();
        } else {
            self.link(index, identity);
        }
        Token { index, generation: 0 }
    }

    /// Says which host may go, if nothing listens there and this was the last of its requests.
    pub(crate) fn leave(&mut self, token: Token) -> Option<(Pick, Arc<Host>)> {
        let entry = self.entries.get_mut(token.index as usize)?;
        let stream = entry.stream.take_if(|_| entry.generation == token.generation)?;
        self.unlink(token.index, stream.host.identity());
        self.free.push(token.index);
        stream.host.leave();
        stream.host.usage().leave(stream.entered);
        (stream.refused && stream.host.in_flight() == 0).then_some((stream.pick, stream.host))
    }

    fn get(&mut self, token: Token) -> Option<&mut Stream> {
        let entry = self.entries.get_mut(token.index as usize)?;
        entry.stream.as_mut().filter(|_| entry.generation == token.generation)
    }

    pub(crate) fn target(&mut self, token: Token) -> Option<Target> {
        let stream = self.get(token)?;
        if stream.tries < TRIES {
            stream.tries += 1;
        } else if stream.until.is_some_and(|until| Instant::now() >= until) {
            stream.gave_up = true;
            return None;
        }
        let again = stream.tries > 1;
        let (endpoint, identity) = (stream.host.endpoint(), stream.host.identity());
        let pick = (!stream.host.is_removed()).then_some(stream.pick);
        Some(Target { endpoint, identity, pick, again })
    }

    pub(crate) fn end(&mut self, ends: &[End]) -> u64 {
        let mut ended = 0;
        for end in ends {
            let mut next = self.chain(end.identity).map_or(NONE, |chain| *chain);
            while let Some(entry) = self.entries.get_mut(next as usize) {
                next = entry.after;
                if let Some(stream) = entry.stream.as_mut()
                    && end.concerns(&stream.host)
                    && !std::mem::replace(&mut stream.ended, true)
                {
                    stream.scheduler.commit(END);
                    ended += 1;
                }
            }
        }
        ended
    }

    /// The first entry of the chain that an identity's requests are in.
    fn chain(&mut self, identity: u64) -> Option<&mut u32> {
        let mask = (self.chains.len() as u64).wrapping_sub(1);
        self.chains.get_mut(usize::try_from(identity & mask).unwrap_or(usize::MAX))
    }

    fn link(&mut self, index: u32, identity: u64) {
        let first = self.chain(identity).map_or(NONE, |chain| std::mem::replace(chain, index));
        if let Some(entry) = self.entries.get_mut(first as usize) {
            entry.before = index;
        }
        if let Some(entry) = self.entries.get_mut(index as usize) {
            (entry.before, entry.after) = (NONE, first);
        }
    }

    fn unlink(&mut self, index: u32, identity: u64) {
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        let (before, after) = (entry.before, entry.after);
        if let Some(entry) = self.entries.get_mut(after as usize) {
            entry.before = before;
        }
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => {
                if let Some(chain) = self.chain(identity) {
                    *chain = after;
                }
            }
        }
    }

    /// There are more entries than chains: twice as many chains.
    fn chain_anew(&mut self) {
        let chains = (self.chains.len() * 2).max(FEWEST);
        self.chains.clear();
        self.chains.resize(chains, NONE);
        for index in 0..self.entries.len() {
            let identity = self.entries[index].stream.as_ref().map(|stream| stream.host.identity());
            if let (Some(identity), Ok(index)) = (identity, u32::try_from(index)) {
                self.link(index, identity);
            }
        }
    }
}
