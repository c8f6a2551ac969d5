//! The route table: what every request is answered from.
//!
//! **Who writes.** Every source (Kubernetes watch, peer push, routes file) holds a [`RouteWriter`]; all of them pass one lock, and that
//! lock is where order is made. Order is the object's version, never the time of arrival: an upsert must be strictly newer than what is
//! known of its object, a delete at least as new, and an end by time ([`RouteWriter::expire`]) of that very version. A delete is remembered
//! as a tombstone, so nothing older brings the object back.
//!
//! **What a push is worth.** What the API server has told beats what a push has claimed. A push that is not newer than what the watch of
//! its object has told whole (the floor) is stale. A newer one counts until the watch has come so far, and is undone if the watch has no
//! word of it: see `floors` and `unconfirmed`.
//!
//! **Whose an ID is** is a function of the objects that live, never of arrival: see `ids`.
//!
//! **Who reads.** Envoy workers hold a [`RouteReader`] and look an ID up without lock, allocation or waiting. They see each object
//! whole: a [`Route`] never changes, it is replaced.
//!
//! **How stale a read may be.** A lookup that starts after a writer's call returned sees that call's effect. One that runs at the
//! same time sees the table before or after it. A `&Route` in hand stays readable until its pin is dropped, whatever happens to the table.
//!
//! **What a relist does.** It is a transaction of one [`Scope`]: objects it did not see, and that are not newer than the list, are
//! deleted at the list's version. See [`Relist`].
//!
//! **What may be believed.** Nothing is served before [`RouteReader::is_ready`]; what a state allows is decided by [`verdict`] alone.
//!
//! # Consistency
//! For one object, versions seen by one reader never go back, unless the watch undoes a push, also across a change of its ID: the old ID is taken away before the new
//! one is put in place, so for a moment neither may be found, and never both; who acts on that asks [`RouteReader::settled`]. Between two objects there is no order.

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
