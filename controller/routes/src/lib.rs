//! The route table: what every request is answered from.
//!
//! **Who writes.** Every source (Kubernetes watch, peer push, routes file) has a [`RouteWriter`]. All of them
//! pass one lock, and that lock makes the order. The order is that of the object's versions, not of arrival:
//! an upsert must be newer than what is known of its object, a delete at least as new, and an expiry
//! ([`RouteWriter::expire`]) of exactly that version. A delete leaves a tombstone, so nothing older brings
//! the object back.
//!
//! **What a push counts.** The API server beats a push. A push that is not newer than the floor, the version
//! up to which the object's watch has reported everything, is stale. A newer one applies, and is undone if
//! the watch passes its version without reporting it. See `floors` and `unconfirmed`.
//!
//! **Who gets an ID** is a function of the live objects, not of arrival. See `ids`.
//!
//! **Who reads.** Envoy workers have a [`RouteReader`] and look an ID up without a lock, an allocation or a
//! wait. They see each object whole: a [`Route`] is never changed, only replaced.
//!
//! **How stale a read may be.** A lookup that starts after a writer's call has returned sees that call's
//! effect. A lookup during the call sees the table before or after it. A `&Route` stays readable until its
//! pin is dropped.
//!
//! **What a relist does.** It is a transaction of one [`Scope`]: objects that the list does not name, and
//! that are not newer than the list, are deleted at the list's version. See [`Relist`].
//!
//! **When to serve.** Serve nothing before [`RouteReader::is_ready`]. What a state allows is decided by
//! [`verdict`] alone.
//!
//! # Consistency
//! For one object, the versions that one reader sees never go back, unless the watch undoes a push. This also
//! holds across a change of its ID: the old ID is removed before the new one is inserted. For a moment
//! neither is found, and never both. A reader that acts on a missing object uses
//! [`RouteReader::find_consistent`].
//! Between two objects there is no order.

#![forbid(unsafe_code)]

mod addresses;
mod authority;
mod claims;
mod clock;
mod counts;
mod deletes;
mod digest;
mod feed;
mod floors;
mod holds;
mod ids;
mod index;
mod key;
mod limits;
mod observation;
mod outcome;
mod packed;
mod page;
mod policy;
mod predicate;
mod reader;
mod records;
mod relist;
mod route;
mod scope;
mod secret;
mod served;
mod slab;
mod table;
mod tombstones;
mod unconfirmed;
mod version;
mod writer;

pub use authority::Authority;
pub use clock::Clock;
pub use counts::Counts;
pub use feed::{Change, ChangeKind, Changes, Notice};
pub use key::{KeyError, KeyRef, ObjectKey};
pub use limits::{
    Limits, MAX_ID, MAX_NAME, MAX_NAMESPACE, MAX_OWNER, MAX_PAGE, MAX_PROVIDER, MAX_TOKEN, MAX_UID,
};
pub use observation::{Clash, Observation, is_valid_id};
pub use outcome::{Invalid, Outcome};
pub use packed::PackedText;
pub use page::{Filter, Page};
pub use policy::{AddressPolicy, Refused};
pub use predicate::{Capability, Fate, Service, State, StateError, Verdict, verdict};
pub use reader::{Moving, Pinned, RouteReader};
pub use relist::{Relist, RelistSummary};
pub use route::Route;
pub use scope::Scope;
pub use secret::{Secret, TokenKind};
pub use table::RouteTable;
pub use version::{Version, VersionError};
pub use writer::RouteWriter;
