//! Whole managers against the model of the API server, on a paused clock.

mod gateways;
mod hidden;
mod ledgers;
mod life;
mod lookups;
mod networks;
mod pauses;
mod quotas;
mod resumes;
mod selected;
mod served;
mod snapshots;
pub(crate) mod world;
