//! How often guesses at a short tag may fail: by sandbox and source, and by sandbox.
//!
//! A signed route has 32 bits ([`signed`](crate::SignedKeys)). At 10,000 guesses a second they last for some
//! days. Here a source has [`PER_SOURCE`] guesses at one sandbox and gets one more each six seconds; all
//! sources together have [`PER_SANDBOX`] and get three a second. So half of the space takes 20 years.
//!
//! # Who writes, who reads
//! Every worker does both, without a lock. A counter is one number: the time at which all failures are
//! forgotten. A failure moves it on. Two rows of counters, at places that two keyed hashes name, hold all
//! sandboxes and sources; the lower of the two counts. So a stranger is limited with a sandbox under attack
//! only where both hashes meet, once in 2²⁴ pairs.
//!
//! # What a flood from many addresses takes
//! Where a sandbox is over its limit, tags that nobody has verified before are refused, good ones too. Each
//! worker remembers the last ones that were good ([`KnownTags`]), and these stay good.

use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foldhash::quality::RandomState;

/// How many guesses one source has at one sandbox.
pub const PER_SOURCE: u32 = 10;
/// How many guesses all sources together have at one sandbox.
pub const PER_SANDBOX: u32 = 200;

const ROWS: usize = 2;
const PLACES: usize = 4096;

/// How many failures there may be, and how soon each is forgotten.
struct Allowance {
    guesses: u32,
    forgets: Duration,
}

const OF_SOURCE: Allowance = Allowance { guesses: PER_SOURCE, forgets: Duration::from_secs(6) };
const OF_SANDBOX: Allowance = Allowance { guesses: PER_SANDBOX, forgets: Duration::from_millis(300) };

/// The failures of all sandboxes.
#[derive(Debug)]
pub struct Failures {
    keys: [RandomState; ROWS],
    /// In milliseconds.
    forgotten_at: Box<[[AtomicU64; PLACES]; ROWS]>,
}

impl Default for Failures {
    fn default() -> Self {
        let rows: Vec<[AtomicU64; PLACES]> =
            (0..ROWS).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect();
        let rows = rows.into_boxed_slice().try_into();
        Self { keys: Default::default(), forgotten_at: rows.unwrap_or_else(|_| unreachable!("as many rows")) }
    }
}

/// What is counted together: the failures of one source at a sandbox, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counted {
    sandbox: u64,
    source: Option<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Source(u64);

impl Source {
    /// Of an IPv6 address the first 64 bits count: a host usually has all addresses below them. All requests
    /// without an address are one source.
    fn of(ip: Option<IpAddr>) -> Self {
        Self(match ip.map(|ip| ip.to_canonical()) {
            None => 1 << 63,
            Some(IpAddr::V4(ip)) => u64::from(ip.to_bits()),
            Some(IpAddr::V6(ip)) => u64::try_from(ip.to_bits() >> 64).unwrap_or_default() | 1 << 62,
        })
    }
}

impl Failures {
    /// How long this source has to wait until it may guess at this sandbox again; `None` if it may now. `now`
    /// is the time since any moment that is the same for all calls.
    pub fn wait(&self, sandbox: u64, source: Option<IpAddr>, now: Duration) -> Option<Duration> {
        let own = Counted { sandbox, source: Some(Source::of(source)) };
        let own = self.over(own, &OF_SOURCE, now);
        let all = self.over(Counted { sandbox, source: None }, &OF_SANDBOX, now);
        own.max(all).filter(|wait| !wait.is_zero())
    }

    /// Counts a failure.
    pub fn count(&self, sandbox: u64, source: Option<IpAddr>, now: Duration) {
        self.push(Counted { sandbox, source: Some(Source::of(source)) }, &OF_SOURCE, now);
        self.push(Counted { sandbox, source: None }, &OF_SANDBOX, now);
    }

    fn places(&self, key: Counted) -> impl Iterator<Item = &AtomicU64> {
        self.keys.iter().zip(self.forgotten_at.iter()).map(move |(hasher, row)| {
            let place = usize::try_from(hasher.hash_one(key) >> 32).unwrap_or_default();
            &row[place % PLACES]
        })
    }

    /// How long it takes until there is room for one more failure.
    fn over(&self, key: Counted, allowance: &Allowance, now: Duration) -> Option<Duration> {
        let forgotten = self.places(key).map(|place| place.load(Ordering::Relaxed)).min()?;
        let room = allowance.forgets * (allowance.guesses - 1);
        Duration::from_millis(forgotten).saturating_sub(now).checked_sub(room)
    }

    fn push(&self, key: Counted, allowance: &Allowance, now: Duration) {
        let (now, by) = (millis(now), millis(allowance.forgets));
        for place in self.places(key) {
            // Several may fail at once, and each of them counts.
            let next = |before: u64| Some(before.max(now).saturating_add(by));
            let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Tags that were good not long ago, as one worker remembers them. They are kept as keyed hashes.
#[derive(Debug)]
pub struct KnownTags {
    key: RandomState,
    hashes: Box<[u64; KNOWN]>,
}

const KNOWN: usize = 1024;

impl Default for KnownTags {
    fn default() -> Self {
        Self { key: RandomState::default(), hashes: Box::new([0; KNOWN]) }
    }
}

impl KnownTags {
    /// Remembers a good tag. Its place is that of another one, which is forgotten.
    pub fn add(&mut self, tag: impl Hash) {
        let hash = self.key.hash_one(tag);
        *self.place(hash) = hash;
    }

    /// Whether it was good not long ago.
    pub fn has(&mut self, tag: impl Hash) -> bool {
        let hash = self.key.hash_one(tag);
        hash != 0 && *self.place(hash) == hash
    }

    fn place(&mut self, hash: u64) -> &mut u64 {
        let place = usize::try_from(hash >> 32).unwrap_or_default() % KNOWN;
        &mut self.hashes[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(1000);

    fn source(last: u8) -> Option<IpAddr> {
        Some([192, 0, 2, last].into())
    }

    /// How many guesses go through before one has to wait.
    fn guesses(failures: &Failures, sandbox: u64, source: Option<IpAddr>, now: Duration) -> u32 {
        (0..100_000)
            .take_while(|_| {
                let may = failures.wait(sandbox, source, now).is_none();
                if may {
                    failures.count(sandbox, source, now);
                }
                may
            })
            .count()
            .try_into()
            .unwrap()
    }

    #[test]
    fn a_source_has_ten_guesses_and_gets_one_more_every_six_seconds() {
        let failures = Failures::default();
        assert_eq!(guesses(&failures, 1, source(1), START), PER_SOURCE);
        let wait = failures.wait(1, source(1), START).unwrap();
        assert!(wait <= OF_SOURCE.forgets, "{wait:?}");
        assert_eq!(guesses(&failures, 1, source(1), START + OF_SOURCE.forgets), 1);
        assert_eq!(guesses(&failures, 1, source(1), START + OF_SOURCE.forgets * 4), 3);
        assert_eq!(guesses(&failures, 1, source(1), START + OF_SOURCE.forgets * 100), PER_SOURCE);
    }

    #[test]
    fn another_source_and_another_sandbox_are_not_limited_with_it() {
        let failures = Failures::default();
        guesses(&failures, 1, source(1), START);
        assert_eq!(failures.wait(1, source(2), START), None);
        assert_eq!(failures.wait(2, source(1), START), None);
        let [one, neighbour, other] =
            ["2001:db8::1", "2001:db8::2", "2001:db8:1::1"].map(|text| Some(text.parse().unwrap()));
        guesses(&failures, 3, one, START);
        assert!(failures.wait(3, neighbour, START).is_some(), "one network");
        assert_eq!(failures.wait(3, other, START), None);
        guesses(&failures, 4, Some("::ffff:192.0.2.7".parse().unwrap()), START);
        assert!(failures.wait(4, source(7), START).is_some(), "one address, however it is written");
    }

    #[test]
    fn all_sources_together_have_a_limit_too() {
        let failures = Failures::default();
        let tries: u32 = (0..=u8::MAX).map(|last| guesses(&failures, 1, source(last), START)).sum();
        assert_eq!(tries, PER_SANDBOX);
        assert!(failures.wait(1, Some([198, 51, 100, 1].into()), START).is_some());
        let later = START + Duration::from_secs(1);
        assert_eq!(guesses(&failures, 1, Some([198, 51, 100, 2].into()), later), 3);
        assert_eq!(failures.wait(2, Some([198, 51, 100, 1].into()), START), None, "another sandbox");
    }

    #[test]
    fn failures_on_many_workers_are_all_counted() {
        let failures = Failures::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|_| failures.count(1, source(1), START)));
            }
        });
        let wait = failures.wait(1, source(1), START).unwrap();
        let all = OF_SOURCE.forgets * 4000;
        assert!(wait > all - OF_SOURCE.forgets * PER_SOURCE && wait <= all, "{wait:?}");
    }

    #[test]
    fn a_tag_that_was_good_is_known_and_no_other() {
        let mut known = KnownTags::default();
        assert!(!known.has((1, b"8c9cadf5a")));
        known.add((1, b"8c9cadf5a"));
        assert!(known.has((1, b"8c9cadf5a")));
        assert!(!known.has((2, b"8c9cadf5a")) && !known.has((1, b"8c9cadf5b")));
    }
}
