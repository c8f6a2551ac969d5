//! The receiver over real HTTP, in this process.

pub(crate) mod activity;
mod authentication;
mod batches;
pub(crate) mod certificates;
mod drain;
pub(crate) mod fixture;
mod limits;
mod properties;
mod statuses;
