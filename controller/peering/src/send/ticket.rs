//! What a caller learns of its message.

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::PeerAddress;

/// What became of a message at one peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The peer has applied it, or ignored it because it knew something at least as new.
    Delivered,
    /// The peer refuses it, and would again.
    Refused {
        /// The status of the answer.
        status: u16,
        /// What the peer says is wrong.
        reason: String,
    },
    /// It was not delivered in all its tries. It is kept for when the peer is reached again.
    Failed {
        /// Why the last try failed.
        reason: String,
    },
    /// It was not sent, because a newer message of the same object is.
    Coalesced,
    /// It was given up: the queue of the peer is full, the message is too old, or the peer is gone.
    Dropped,
    /// There was no outcome by the deadline. It is still being sent.
    Pending,
}

/// The outcomes of one message, as they arrive.
#[derive(Debug)]
pub struct Ticket {
    pub(super) outcomes: Vec<(PeerAddress, oneshot::Receiver<Delivery>)>,
}

impl Ticket {
    /// The outcome at each peer, as far as it is known by the deadline.
    pub async fn outcomes(self, deadline: Instant) -> Vec<(PeerAddress, Delivery)> {
        let mut outcomes = Vec::with_capacity(self.outcomes.len());
        for (peer, outcome) in self.outcomes {
            let delivery = match timeout_at(deadline, outcome).await {
                Ok(Ok(delivery)) => delivery,
                Ok(Err(_)) => Delivery::Dropped,
                Err(_) => Delivery::Pending,
            };
            outcomes.push((peer, delivery));
        }
        outcomes
    }
}
