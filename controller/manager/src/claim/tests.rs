//! Creates against the model of the API server, on a paused clock: several managers, caches that lag, answers
//! that get lost, processes that die.

mod crashes;
mod keys;
mod leases;
mod lines;
mod lost;
mod namespaced;
mod paths;
mod world;
