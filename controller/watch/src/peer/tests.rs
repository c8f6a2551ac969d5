//! The receiver over real HTTP, in this process.

mod authentication;
mod batches;
mod certificates;
mod fixture;
mod limits;
mod properties;
mod statuses;
