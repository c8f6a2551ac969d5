//! The cases that OpenKruise's own tests of its cache have, as they apply here, and ours.
//!
//! - Reads and index functions: [`reads`].
//! - BuildCacheConfig: [`filters`].
//! - AddIndexes, controller getters and the setup of reconcilers do not apply: indexes and waits are part of
//!   the cache and cannot be missing. What can fail is the start of a follower: [`lives`]. How a run ends:
//!   [`ends`].
//! - TrafficPolicy present or absent does not apply: it is not cached. A kind that is absent: [`lives`].
//! - Health and event handlers: [`lives`], [`events`]. A handler is there for the life of the cache, so there
//!   is nothing to remove.
//! - Wait ad hoc, WaitForObjectSatisfied, CheckObjectSatisfied and DoubleCheck: [`waits`]. There is no second
//!   check at the end, because the predicate has been asked about every version.
//! - Refresh (cache hit, fallback to the API server, both miss): [`live`].
//! - "Polling satisfies without a signal" does not apply: nothing is polled. A change that no event has shown
//!   is found by a relist: [`waits`].
//! - Keys and entries of the hook map do not apply: waiters are typed and kept by key. To end one twice is
//!   to end it once: [`waits`].
//! - Pre-acquired tasks: [`turns`]. Tasks (pause, resume, ready, checkpoint, PVC): [`tasks`].
//! - Reconcilers, that is, what a change tells to whom: [`events`].
//! - What OpenKruise does not have, environments: [`environments`].
//! - Concurrency: [`concurrent`], under a seeded scheduler, [`threads`] and [`delivery`].
//! - Expectations of resource versions do not apply: the answer to a write is in the cache before anybody can
//!   ask: [`reads`].

mod concurrent;
mod delivery;
mod ends;
mod environments;
mod events;
mod filters;
mod live;
mod lives;
mod reads;
mod scheduler;
mod tasks;
mod threads;
mod turns;
mod waits;

use std::sync::Arc;
use std::time::Duration;

use sandgate_objects::openkruise::resources::SandboxFacts;

use crate::testing::TestCache;
use crate::{Action, Check, Seen, Wait};

/// Longer than any wait here takes.
const LONG: Duration = Duration::from_secs(3600);

/// A wait for a label.
fn labelled(
    test: &TestCache,
    seen: &Arc<Seen<SandboxFacts>>,
    action: Action,
    label: &'static str,
) -> Wait<SandboxFacts> {
    test.wait(&seen.key, &seen.uid, action, move |seen: &Seen<SandboxFacts>| match seen.labels.get(label) {
        Some("failed") => Check::Failed(format!("{label} failed")),
        Some(_) => Check::Done,
        None => Check::Not,
    })
}
