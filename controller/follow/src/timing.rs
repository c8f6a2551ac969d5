//! Every wait and bound of the engine, in one place.

use std::time::Duration;

/// The waits and bounds of the engine. The defaults are for production; tests shorten the waits.
#[derive(Clone, Debug)]
pub struct Timing {
    /// How long a response may take to begin. An API server gives up on a list after a minute.
    pub response: Duration,
    /// How long a list may be silent.
    pub list_silence: Duration,
    /// How long a watch may be silent. An API server sends a bookmark every minute.
    pub watch_silence: Duration,
    /// The API server is asked to end a watch after a random time from this to twice this. Random, so that
    /// the watches of many processes do not end together.
    pub watch: Duration,
    /// A watch that ends sooner than this counts as a failure.
    pub watch_at_least: Duration,
    /// The bound of the first wait after a failure.
    pub retry: Duration,
    /// The bound of the longest wait after a failure.
    pub retry_cap: Duration,
    /// The bound of the longest wait for a resource that the API server does not know.
    pub absent_cap: Duration,
    /// The time between two requests of all followers together.
    pub between_requests: Duration,
    /// The time between two lists while a sink holds objects back after a rewind.
    pub held_back: Duration,
    /// Objects in one page of a list.
    pub page: u32,
    /// The largest page, in bytes. A larger one is requested again in smaller pages.
    pub max_page: usize,
    /// The longest line of a watch, in bytes.
    pub max_line: usize,
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
