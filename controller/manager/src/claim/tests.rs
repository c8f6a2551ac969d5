//! Creates against the model of the API server, on a paused clock: several managers, caches that lag, answers
//! that get lost, processes that die.

mod crashes;
mod keys;
mod lines;
mod lost;
mod paths;
mod world;
