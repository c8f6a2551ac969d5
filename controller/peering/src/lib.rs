//! The wire between managers and gateways.

#![forbid(unsafe_code)]

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

pub use hmac::HmacKey;
pub use message::{MessageError, RouteMessage};
#[cfg(feature = "receive")]
pub use receive::{
    HmacSettings, Pushed, RawRefresh, Receiver, RefreshDrain, RefreshSettings, RefreshSettingsError,
    RefreshStatus, RefreshStatusReader, TlsFiles, TokenReviewSettings,
};
#[cfg(feature = "send")]
pub use send::{
    Credentials, Delivery, PeerAddress, PeerAddressError, PeerMetrics, Peers, PushError, PushSettings,
    Pusher, Ticket,
};
