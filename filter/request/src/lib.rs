//! What a request addresses, what is decided about it, and what is answered.
//!
//! The steps of one request, in order: [`recognise()`] reads the address from path, headers or host;
//! [`choose_reading`] chooses between the readings of a host that has two; [`decide()`] looks the address up
//! in the route table and says forward or refuse; [`reply()`] words a refusal for the client. Nothing here
//! does I/O, knows Envoy, or panics on any input. `recognise`, `choose_reading` and `decide` do not allocate;
//! `reply` and [`explain()`] do.
//!
//! Everything a client sends is bytes of its choosing: it is checked before it is stored, an [`Address`]
//! holds only valid parts, and no client bytes other than a valid ID appear in a reply.
#![forbid(unsafe_code)]

mod address;
mod config;
mod decide;
mod explain;
mod recognise;
mod refusal;
mod reply;

pub use crate::{
    address::{Address, Dialect, Form, Part},
    config::{FilterConfig, Unaddressed, Upstream},
    decide::{ACCESS_TOKEN, Decision, SECURE_ACCESS, choose_reading, decide, has_refused_method},
    explain::{Step, StepOutcome, concluded, explain},
    recognise::{Headers, Recognition, recognise},
    refusal::{Refusal, Trouble},
    reply::{Escaped, Media, Reply, preferred_media, reply},
};
