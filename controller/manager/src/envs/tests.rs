//! Whole managers with environments against the model of the API server, on a paused clock.

mod chaos;
mod create;
mod keyed;
mod life;
mod notes;
mod routes;
pub(crate) mod world;
