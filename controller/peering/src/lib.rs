//! The wire between managers and gateways: `POST /refresh`, as OpenKruise's manager sends it.
//!
//! A manager that pauses or deletes a sandbox knows it before any watch does. It pushes the route to every
//! gateway. The feature `receive` has the gateway's side ([`Receiver`]), the feature `send` the manager's
//! ([`Pusher`]). What sends links no server.
//!
//! An operator asks the same port which sandboxes were used, and when: `GET /activity` ([`ActivityClient`]).
//!
//! # Message
//! One [`RouteMessage`] in JSON, or a batch: one message a line, posted to `/refresh/batch`. Unknown keys are
//! ignored. The object (`namespace`, `name`) and its `resourceVersion` order the message with whatever the
//! watch brings.
//!
//! # Authentication
//! In this order; everything that the head of a request shows is checked before its body is read:
//!
//! 1. With `insecure: true` nothing is checked.
//! 2. If there is an `Authorization` header, only that header is checked: `Bearer` by a TokenReview,
//!    `SANDGATE-HMAC-SHA256` by a shared key (see [`HmacKey`]).
//! 3. Otherwise the client certificate is checked.
//!
//! A signature is good if its time is within the replay window of the receiver's clock, and later than the
//! second in which the receiver started. Its nonce is good once. A sender signs every try anew.
//!
//! # Acknowledgement
//! 204 means that this process has applied the message, or knows something at least as new. It says nothing
//! of other gateways or of a restart. 400 and 413 are final. 401, 408, 425, 429 and 5xx are about the moment:
//! the sender retries.
//!
//! # Drain
//! A process that is about to end applies a message and answers 503, so that the sender pushes to the next
//! process too. That process may listen on the same port at the same time.
//!
//! # Limits
//! A message has at most 1 MiB, a batch 8 MiB and 10,000 lines, a head 32 KiB. A body and a head have 5 s
//! each. A connection may be silent for 5 s, and for 90 s once its sender is authenticated. 64 messages and 4
//! batches are read at a time. A quarter of the connections is for senders that are not authenticated.

#![forbid(unsafe_code)]

mod credential;
#[cfg_attr(not(feature = "receive"), allow(dead_code, reason = "only the receiver verifies signatures"))]
mod hmac;
mod message;
pub mod pem;
#[cfg(feature = "receive")]
mod receive;
#[cfg(any(feature = "receive", feature = "send"))]
mod reload;
#[cfg(feature = "send")]
mod send;
#[cfg(any(feature = "receive", feature = "send"))]
mod tls;

pub use credential::{CredentialError, KeyLengthError};
pub use hmac::{HmacKey, RandomError};
pub use message::{MessageError, RouteMessage};
#[cfg(feature = "receive")]
pub use receive::{
    Active, Activity, HmacSettings, LogLimit, Observed, Pushed, RawRefresh, Receiver, RefreshDrain,
    RefreshSettings, RefreshStatus, RefreshStatusReader, Source, Sources, TlsFiles, TokenReviewSettings,
    Uncounted, review_token, source_of,
};
#[cfg(any(feature = "receive", feature = "send"))]
pub use reload::Reloaded;
#[cfg(feature = "send")]
pub use send::{
    ActiveSandbox, ActivityClient, ActivitySettings, AskError, Credentials, Delivery, DiscoveryError, Known,
    PeerAddress, PeerAddressError, PeerMetrics, Peers, PeersError, PushError, PushSettings, Pusher, Ticket,
};
#[cfg(any(feature = "receive", feature = "send"))]
pub use tls::ServerTls;
