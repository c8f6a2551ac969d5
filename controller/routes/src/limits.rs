//! The bounds of everything a message may bring.
//!
//! Text limits are checked when an observation is applied (or a key is made): what is over them is invalid
//! and changes nothing. Counts are bounded by [`Limits`], so no sequence of messages makes the table grow
//! past them.

use std::time::Duration;

/// Longest lookup ID, in bytes: a DNS name's length, since an ID may arrive as part of a host.
pub const MAX_ID: usize = 253;
/// Longest provider name, in bytes.
pub const MAX_PROVIDER: usize = 63;
/// Longest namespace, in bytes. Empty is allowed: an object without one.
pub const MAX_NAMESPACE: usize = 63;
/// Longest object name, in bytes.
pub const MAX_NAME: usize = 253;
/// Longest UID, in bytes. Kubernetes uses 36; a routes file may derive one from namespace and name.
pub const MAX_UID: usize = 400;
/// Longest owner, in bytes.
pub const MAX_OWNER: usize = 255;
/// Longest access token, in bytes.
pub const MAX_TOKEN: usize = 4096;
/// Most routes in one page of [`RouteReader::page`](crate::RouteReader::page).
pub const MAX_PAGE: usize = 10_000;

/// How much a table remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long a tombstone stays, from its object's newest delete. As long is an ID kept for the namespace
    /// of the one who was served under it.
    pub tombstone_lifetime: Duration,
    /// Most tombstones at once. At the cap the oldest is dropped for each new one: a late message is least
    /// likely to be about it. Each one dropped is counted.
    pub max_tombstones: usize,
    /// Most live objects at once. An observation of a further one is invalid, and counted as such.
    pub max_routes: usize,
    /// How long a push may be ahead of a watch that still reports. After that the watch wins.
    pub push_confirmation: Duration,
    /// How long a pushed route lives that no watch covers, from the last push of it; nothing is for ever. The
    /// next push of it, also an equal one, brings it back.
    pub push_lease: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tombstone_lifetime: Duration::from_secs(600),
            max_tombstones: 1_000_000,
            max_routes: 4_000_000,
            push_confirmation: Duration::from_secs(30),
            push_lease: None,
        }
    }
}
