//! What the operator and the manager share about scitix's environments.
//!
//! - [`change`]: what a claim, a release and the end of each do to a pod, as functions of values.
//! - [`EnvRouterSync`]: who is told of every environment that was brought up to date.
//! - [`router`]: which pool of an environment a claim goes to.
//! - [`scheduler`]: which pod of a pool a claim gets.

#![forbid(unsafe_code)]

pub mod change;
mod lookup;
pub mod router;
pub mod scheduler;
mod sync;

pub use sync::{EnvRouterSync, NoRouter};
