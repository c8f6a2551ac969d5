//! The list/watch engine: keeps a [`Sink`] true to the objects of a Kubernetes resource.
//!
//! A [`Follower`] lists one resource and then watches it, until it is dropped. The sink decides what an
//! object means. The gateway's sink fills the route table; a control plane's sink fills a cache of typed
//! objects. The protocol between the two is that of [`Sink`].
//!
//! The crate depends on `sandgate-routes` for [`Version`](sandgate_routes::Version) alone: resource versions
//! must be compared by the same rule wherever they meet.
//!
//! # Guarantees
//! Every number below is a field of [`Timing`] or a constant, and is given with its default.
//!
//! - **Bounded memory.** Objects pass through one at a time. The reader holds one line of a watch
//!   ([`max_line`](Timing::max_line), 16 MiB) or one page of a list ([`max_page`](Timing::max_page), 16 MiB).
//!   A page that is larger is requested again with a quarter of its objects. A line that is larger is skipped
//!   in a list, where its object counts as unreadable, and leads to a new list in a watch.
//! - **One list at a time.** All followers of one [`Api`] share one turn to list and one request rate
//!   ([`between_requests`](Timing::between_requests), 20 ms).
//! - **A list applies whole or deletes nothing.** [`Sink::commit`] is called only after the end of the list
//!   was read. A list that fails is abandoned, and what the sink had stays.
//! - **No event is lost.** A watch that ends is resumed from the last version that the sink was given. If the
//!   server has forgotten that version (410), or if [`MAX_RESUMES`] (3) attempts in a row
//!   fail though the server answers, there is a new list.
//! - **Jittered waits.** The wait after a failure is a random time between nothing and a bound, which doubles
//!   from [`retry`](Timing::retry) (200 ms) to [`retry_cap`](Timing::retry_cap) (30 s). For a resource that
//!   the server does not know, the cap is [`absent_cap`](Timing::absent_cap) (10 s). The server is asked to
//!   end a watch after a random time from [`watch`](Timing::watch) (300 s) to twice that.
//! - **Retry-After** is obeyed, up to [`MAX_RETRY_AFTER`] (300 s).
//! - **Silence is a failure.** A response must begin within [`response`](Timing::response) (65 s). A list may
//!   be silent for [`list_silence`](Timing::list_silence) (65 s), a watch for
//!   [`watch_silence`](Timing::watch_silence) (100 s): an API server sends a bookmark every minute.
//! - **Credentials are read anew** after a 401 and after a failed connection: kubeconfig, certificates,
//!   tokens and plugins. See [`Api`].
//! - **Rewinds are noticed.** If the server's versions go back, as after a restore from a backup, the sink is
//!   told by [`Sink::rewind`]. See [`Follower`].
//! - **A malformed object takes out only itself**, also if it makes the sink's decoder panic.
//! - **Two parses.** An object's bytes are parsed twice: as a part of its event or page, which finds its end,
//!   and by [`Sink::decode`]. The engine reads the metadata itself only of objects that the sink refused, and
//!   of deleted ones.

#![forbid(unsafe_code)]

mod access;
mod api;
mod backoff;
mod events;
mod failure;
mod follower;
mod log;
mod sink;
mod status;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod timing;

#[cfg(test)]
mod tests;

pub use access::{Access, AccessError};
pub use api::{Api, MAX_ANSWER};
pub use backoff::MAX_RETRY_AFTER;
pub use failure::{Failure, describe_json_error, shorten};
pub use follower::{Follower, Hooks, MAX_RESUMES, supervise};
pub use log::BoundedLog;
pub use sink::{Committed, Head, Rejected, Sink};
pub use status::{FollowState, FollowStatus, ListMode, StatusCell};
pub use target::Target;
pub use timing::Timing;
