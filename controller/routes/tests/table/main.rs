//! What the table promises, as its users see it.

#![forbid(unsafe_code)]

mod ambiguous;
mod bad_input;
mod changes;
mod convergence;
mod digests;
mod expiry;
mod fixture;
mod identities;
mod model;
mod model_check;
mod order;
mod pages;
mod relists;
mod scenarios;
mod stress;
mod tombstones;
