//! What Sandgate costs: the parts that benches have in common.
//!
//! A bench here is a program that interleaves what it compares in short rounds, so that a machine's drift
//! falls on all alike, and records every round. What is said of it afterwards is a median with its quartiles,
//! and ratios are of the same round.

#![forbid(unsafe_code)]

pub mod failure;
pub mod fleet;
pub mod machine;
pub mod message;
pub mod open_loop;
pub mod operator;
pub mod proc;
pub mod process;
pub mod questions;
pub mod record;
pub mod rng;
pub mod stats;
pub mod upstream;
