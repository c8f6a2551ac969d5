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
mod callers;
mod config;
mod credentials;
mod decide;
mod door;
mod explain;
mod health;
mod look_up;
mod recognise;
mod refusal;
mod reply;

pub use crate::{
    address::{Address, Dialect, Form, Part},
    callers::AUTHORIZATION,
    config::{
        CallerMode, Callers, FilterConfig, Forward, ForwardedName, Patience, Rate, RouteConfig, SecretSource,
        Secrets, Unaddressed, Upstream,
    },
    credentials::{ACCESS_TOKEN, SECURE_ACCESS},
    decide::{Decision, Pass, Stop, Wait, choose_reading, decide, has_refused_method},
    door::{Door, Keyless, TrafficJwt},
    explain::{Step, StepOutcome, concluded, explain},
    health::{Health, health_check},
    look_up::{look_up, lookup_ids},
    recognise::{Headers, Recognition, RouteSignature, recognise},
    refusal::{Refusal, Trouble},
    reply::{Escaped, Media, Reply, preferred_media, reply},
};
