//! What a real API server does not do on cue: a scripted one, on a real socket, through the real client.

mod failures;
mod lists;
mod planes;
mod server;
mod source;
