//! The receiver over real HTTP, in this process.

mod authentication;
mod batches;
pub(crate) mod certificates;
pub(crate) mod fixture;
mod limits;
mod properties;
mod statuses;
