//! The usages of all identities: who is followed, and who is remembered.
//!
//! A usage is followed for as long as somebody holds it. One that nobody holds is kept for what it knows of
//! its sandbox's activity, and is the same one when somebody follows the identity again. So no end of a
//! request is lost between the two.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use parking_lot::Mutex;

use super::Usage;
use crate::cluster::activity::{Clock, Second};

/// When an identity was last used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Used {
    pub(crate) identity: u64,
    /// When a request ended last. `None`: the first is in flight.
    pub(crate) last_end: Option<Second>,
    /// The requests in flight.
    pub(crate) open: u32,
}

/// So many identities that are not followed any more are remembered for their activity.
pub(super) const MOST_REMEMBERED: usize = 65_536;
/// After so many new identities, or one for sixteen that are known, those that are not followed any more are
/// looked through: it costs each new one little.
pub(super) const TIDY: usize = 1024;
pub(super) const TIDY_SHARE: usize = 16;

/// The usage of every identity that is followed: of those with a host in some cluster, a held request or a
/// request in flight. Each of these holds the usage.
///
/// A usage that nobody holds is kept while its identity lives and its activity is worth remembering. At most
/// [`MOST_REMEMBERED`] such usages are kept, but for the few that are new since they were looked through. The
/// ones that were used least recently go first.
#[derive(Debug, Default)]
pub(crate) struct Usages {
    pub(super) known: Mutex<Known>,
    clock: Arc<Clock>,
    /// The highest identity that was ever followed. Identities are numbered upwards: a new one is above it.
    highest: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its keys are numbers of our own making.
    pub(super) usages: HashMap<u64, Arc<Usage>, FixedState>,
    /// The identities that are new since the others were looked through.
    new: usize,
    /// The newest activity that was forgotten of an identity that may live.
    forgotten: Second,
}

/// Whether somebody beside the map holds it.
fn is_held(usage: &Arc<Usage>) -> bool {
    Arc::strong_count(usage) > 1
}

impl Known {
    /// Forgets usages that nobody holds: those that were never used, those of the dead, and the least recent
    /// ones above `most`. The others lose what only a held one needs.
    pub(super) fn tidy(&mut self, most: usize) {
        self.new = 0;
        let mut ends = Vec::new();
        self.usages.retain(|identity, usage| {
            // Nobody else can take hold of it: that takes the lock.
            let Some(usage) = Arc::get_mut(usage) else { return true };
            let last_end = *usage.last_end.get_mut();
            let is_worth_it = last_end != Second::NEVER.0 && !*usage.is_gone.get_mut();
            if is_worth_it {
                usage.shares.take();
                ends.push((Second(last_end), *identity));
            }
            is_worth_it
        });
        let Some(excess) = ends.len().checked_sub(most).filter(|excess| *excess > 0) else { return };
        let (oldest, newest, _) = ends.select_nth_unstable(excess - 1);
        self.forgotten = self.forgotten.max(newest.0);
        for (_, identity) in oldest.iter().chain([&*newest]) {
            self.usages.remove(identity);
        }
    }
}

impl Usages {
    /// The clock by which the ends of requests are noted.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The usage of an identity, which is followed while the usage is held. `id` is the identity's ID in the
    /// table.
    ///
    /// To follow an identity: 1. take its usage; 2. read the table. The writer calls [`Self::is_followed`]
    /// after each change, so a change that it rejected before step 1 is in the table by step 2, and none is
    /// missed.
    pub(crate) fn of(&self, identity: u64, id: &str) -> Arc<Usage> {
        self.highest.fetch_max(identity, Ordering::AcqRel);
        let mut known = self.known.lock();
        if let Some(usage) = known.usages.get(&identity) {
            return Arc::clone(usage);
        }
        // The forgotten are let go before the map would grow for them.
        let turn = TIDY.max(known.usages.len() / TIDY_SHARE);
        if known.new >= turn || known.usages.len() == known.usages.capacity() {
            known.tidy(MOST_REMEMBERED);
        }
        known.new += 1;
        let usage = Arc::new(Usage::new(id, &self.clock));
        known.usages.insert(identity, Arc::clone(&usage));
        usage
    }

    /// Whether changes of this identity are received.
    pub(crate) fn is_followed(&self, identity: u64) -> bool {
        self.known.lock().usages.get(&identity).is_some_and(is_held)
    }

    /// Whether anything is known of this identity.
    pub(crate) fn is_known(&self, identity: u64) -> bool {
        identity <= self.highest.load(Ordering::Acquire) && self.known.lock().usages.contains_key(&identity)
    }

    /// The identity has another ID in the table. Does nothing if it is not known.
    pub(crate) fn set_id(&self, identity: u64, id: &str) {
        // Nearly every identity that appears is new, and costs no look.
        if identity <= self.highest.load(Ordering::Acquire)
            && let Some(usage) = self.known.lock().usages.get(&identity)
        {
            *usage.id.lock() = id.into();
        }
    }

    /// The identity is dead, and its activity of no use to anybody.
    pub(crate) fn set_gone(&self, identity: u64) {
        let mut known = self.known.lock();
        if let Some(usage) = known.usages.get(&identity) {
            usage.is_gone.store(true, Ordering::Relaxed);
            if !is_held(usage) {
                known.usages.remove(&identity);
            }
        }
    }

    /// The ID of an identity in the table, or the last one it had, as long as anything is known of it.
    pub(crate) fn id_of(&self, identity: u64) -> Option<Arc<str>> {
        self.known.lock().usages.get(&identity).map(|usage| Arc::clone(&usage.id.lock()))
    }

    /// The identities that are followed.
    pub(crate) fn followed(&self) -> Vec<u64> {
        let known = self.known.lock();
        let followed = known.usages.iter().filter(|(_, usage)| is_held(usage));
        followed.map(|(identity, _)| *identity).collect()
    }

    /// Every identity that was used, and the newest activity that was forgotten: what is newer is complete.
    pub(crate) fn used(&self) -> (Vec<Used>, Second) {
        let known = self.known.lock();
        let used = known.usages.iter().filter_map(|(&identity, usage)| {
            let (open, last_end) = usage.activity();
            (open > 0 || last_end.is_some()).then_some(Used { identity, last_end, open })
        });
        (used.collect(), known.forgotten)
    }
}
