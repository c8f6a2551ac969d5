//! What the scheduler, its passes and the client do.

mod binding;
mod client;
mod failures;
mod fixture;
mod model;
mod passes;
mod recovery;
mod releasing;
mod specs;
mod states;
mod stopping;
