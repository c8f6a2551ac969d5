//! What the table promises, as its users see it.

#![forbid(unsafe_code)]

mod addresses;
mod ambiguous;
mod bad_input;
mod changes;
mod claims;
mod convergence;
mod digests;
mod expiry;
mod fixture;
mod heirs;
mod identities;
mod model;
mod model_check;
mod order;
mod pages;
mod pushes;
mod relists;
mod scenarios;
mod stress;
mod tombstones;
