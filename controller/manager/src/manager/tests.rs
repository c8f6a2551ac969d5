//! Whole managers against the model of the API server, on a paused clock.

mod life;
mod quotas;
mod snapshots;
pub(crate) mod world;
