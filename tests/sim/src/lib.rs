//! A seeded simulation: a versioned model of the API server behind kube's client, and a world around it in
//! which answers get lost, watches lag and processes die. One seed, one trace.
#![forbid(unsafe_code)]

pub mod model;
pub mod network;
mod random;
mod trace;
mod world;

pub use random::Random;
pub use trace::{Tail, Trace};
pub use world::{
    Committed, Happened, Listing, Process, SimClock, Start, Weather, World, is_orphan, kubelet, restart,
};
