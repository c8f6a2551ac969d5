//! What a real API server does not do on demand, with the scripted one of [`testing`](crate::testing) and the
//! real client.

mod failures;
mod lists;
mod protocol;
mod store;
mod supervised;
