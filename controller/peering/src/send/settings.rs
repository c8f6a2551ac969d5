//! How a pusher pushes.

use std::time::Duration;

/// How a pusher pushes.
#[derive(Clone, Debug)]
pub struct PushSettings {
    /// The tries of a message.
    pub tries: u32,
    /// How long a connection may take at first, TLS included. A slower peer gets more time.
    pub connect_timeout: Duration,
    /// How long an answer may take at first. A slower peer gets more time.
    pub try_timeout: Duration,
    /// The most time that a connection or an answer gets.
    pub max_try_timeout: Duration,
    /// How long the tries of a message may take together. The try that is in flight then is the last.
    pub give_up: Duration,
    /// The pause between the first two tries. It doubles with each try, up to twenty times as long.
    pub pause: Duration,
    /// The longest pause between two tries of a peer that is not reached. The first is `pause`, and it
    /// doubles.
    pub back_off: Duration,
    /// How long a message that is no delete is kept for a peer that is not reached. It has to be shorter than
    /// the tombstones of the receivers live (`tombstone-lifetime-seconds`, by default 600).
    pub keep: Duration,
    /// How long deletes are kept for a peer that discovery does not find any more.
    pub keep_absent: Duration,
    /// Send what waits as one batch, to peers that take batches.
    pub batch: bool,
    /// The objects that may wait for one peer. Past that, living objects are given up first, and deletes only
    /// where nothing else waits.
    pub max_pending: usize,
    /// The time between two discoveries.
    pub rediscover: Duration,
}

impl Default for PushSettings {
    fn default() -> Self {
        Self {
            tries: 10,
            connect_timeout: Duration::from_millis(300),
            try_timeout: Duration::from_millis(100),
            max_try_timeout: Duration::from_secs(2),
            give_up: Duration::from_secs(2),
            pause: Duration::from_millis(10),
            back_off: Duration::from_secs(1),
            keep: Duration::from_secs(300),
            keep_absent: Duration::from_secs(600),
            batch: true,
            max_pending: 100_000,
            rediscover: Duration::from_secs(5),
        }
    }
}
