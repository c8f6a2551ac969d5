//! A typed, indexed view of the cluster in memory, with waits.
//!
//! [`Cache`] keeps sandboxes, their sets, templates and checkpoints, volume claims, and the Secrets and
//! ConfigMaps of one namespace; scitix's environments, their pools and the pods of pools, where they are
//! asked for. It is what the manager reads. [`Store`], [`Key`], [`Clock`], [`request`] and the rest are
//! shared with the operator.
//!
//! # Who writes
//! - The watch of each kind, through a [`Feed`]: the cache's own followers ([`Cache::start`]), somebody
//!   else's watch, or a test ([`Cache::observe_json`]).
//! - The answer to every write of this process, through [`Cache::answered`] and [`Cache::deleted_by_us`].
//!
//! The order of the versions decides between the two; see [`Store`]. Nobody else can write: reads give `Arc`s
//! of objects that never change. Whoever wants to change one sends a patch with the version that it has read.
//! A sandbox lacks what no reader needs (`managedFields`; of its pod everything but the address), so it must
//! never be sent as a whole.
//!
//! # How stale a read is
//! - What this process has written is never shown older. If that takes it out of the filters, it is gone.
//! - What others have written is shown when the watch brings it: usually after milliseconds. If the API
//!   server cannot be reached, the last known state stays, and [`Cache::healthy`] says so.
//! - What depends on the time is right at the time of the [`Clock`], also if no event came: a sandbox whose
//!   `shutdownTime` has passed is in no pool.
//! - All indexes change together with the object, under one lock.
//!
//! # What a relist does
//! A list that is complete ends what it did not name, unless this process has written it after the list. A
//! list that fails changes nothing. Waits see what a relist changes as they see an event.
//!
//! # Waits
//! A wait ([`Cache::wait`]) is a task with its own predicate. The predicate is asked about every version that
//! arrives, in their order, once: a state that lasts for one version only is not missed. Nothing is polled,
//! and a change costs nothing to those who wait for other objects. Every way to end has a type:
//! [`WaitError`].
//!
//! Pause and resume take a [`Turn`] before the spec is written. The same action joins, another is refused at
//! once with both names. Between processes the first write wins: who waits for the other action is told that
//! it was undone. A process that dies holds nothing: its turns were in its memory, its write is in the
//! object, and any other process can wait for the same.
//!
//! # Start and stop
//! [`Cache::start`] returns when every kind has had its first list, or the error that prevented it, with
//! nothing left running. [`Running::ended`] says which task ended and how: a watch that panics is not started
//! again, because nobody knows how far it had come. [`Cache::stop`] ends every wait and returns when all
//! tasks have ended; it can be called by anyone, any number of times. However a run ends, its waits end with
//! it.
//!
//! # Memory
//! Of a sandbox [`SandboxFacts`](sandgate_objects::openkruise::resources::SandboxFacts) are kept. Equal pod
//! templates are one text, however many sandboxes have them, and so are the names of labels and annotations.
//!
//! # Example
//! ```
//! use std::time::Duration;
//!
//! use sandgate_cache::testing::{TestCache, claimed, paused, pausing};
//! use sandgate_cache::{Action, Cache, Change};
//! use sandgate_objects::openkruise::resources::SandboxFacts;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! // In a program: `.access(Access::default())`, then `build()?` and `start().await?`.
//! let builder = Cache::builder()
//!     .namespace("default")
//!     .on(|change: &Change<SandboxFacts>| println!("{}", change.after.is_some()));
//! let test = TestCache::built(builder);
//! test.listed_all();
//!
//! // The watch shows a sandbox, and it is found by its ID.
//! test.show::<SandboxFacts>(&claimed("box", "ada", "id1"));
//! let sandbox = test.claimed(None, "id1").unwrap();
//!
//! // A pause: take the turn, write the spec, give the answer to the cache, wait for the event.
//! let turn = test.turn(&sandbox, Action::Pause).unwrap();
//! test.answer::<SandboxFacts>(&pausing(claimed("box", "ada", "id1")));
//! let controller = async { test.show::<SandboxFacts>(&paused(claimed("box", "ada", "id1"))) };
//! let (done, _) = tokio::join!(turn.wait(Duration::from_secs(60)), controller);
//! assert_eq!(done.unwrap().key, sandbox.key);
//! # });
//! ```
#![forbid(unsafe_code)]

mod action;
mod cache;
mod clock;
#[cfg(feature = "daemon")]
pub mod daemon;
mod facts;
mod group;
mod key;
pub mod predicates;
mod random;
pub mod request;
mod resource;
mod selector;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use action::{Action, Check, WaitError};
pub use cache::{
    BuildError, Cache, CacheBuilder, Feed, Followed, Kept, Kind, PoolWatch, ReadError, RunError, Running,
    StartError, Turn, Wait,
};
pub use clock::{Clock, ManualClock, SystemClock};
pub use facts::{ConfigMapFacts, PvcFacts, SecretFacts};
pub use group::Group;
pub use key::Key;
pub use random::Random;
pub use request::WriteError;
pub use resource::{Viewed, seen, seen_in_cluster};
pub use selector::SelectorError;
pub use store::{Change, Seen, Source, Store};
