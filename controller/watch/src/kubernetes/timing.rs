//! Every wait and bound of the watch, in one place.

use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Timing {
    /// How long a response may take to begin. An API server gives up on a list after a minute.
    pub(super) response: Duration,
    /// How long a list may be silent.
    pub(super) list_silence: Duration,
    /// How long a watch may be silent. An API server sends a bookmark every minute.
    pub(super) watch_silence: Duration,
    /// How long the API server is asked to keep a watch, from this to twice this: at random, so that the watches of many gateways do not
    /// end together.
    pub(super) watch: Duration,
    /// A watch that ends sooner than this counts as a failure.
    pub(super) watch_at_least: Duration,
    /// The first wait after a failure, the longest, and the longest for a resource that is not there.
    pub(super) retry: Duration,
    pub(super) retry_cap: Duration,
    pub(super) absent_cap: Duration,
    /// Time between two requests, of all scopes together.
    pub(super) between_requests: Duration,
    /// How often to list while objects are held back after the API server's versions went back.
    pub(super) held_back: Duration,
    /// Objects a page.
    pub(super) page: u32,
    /// The largest body of a page. One that is larger is asked for in smaller pages.
    pub(super) max_page: usize,
    /// The longest line of a watch.
    pub(super) max_line: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            response: Duration::from_secs(65),
            list_silence: Duration::from_secs(65),
            watch_silence: Duration::from_secs(100),
            watch: Duration::from_secs(300),
            watch_at_least: Duration::from_secs(1),
            retry: Duration::from_millis(200),
            retry_cap: Duration::from_secs(30),
            absent_cap: Duration::from_secs(10),
            between_requests: Duration::from_millis(20),
            held_back: Duration::from_secs(60),
            page: 500,
            max_page: 16 << 20,
            max_line: 16 << 20,
        }
    }
}
