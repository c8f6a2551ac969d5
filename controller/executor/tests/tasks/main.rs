//! The real program, driven over HTTP: what OpenSandbox's own tests show of its executor, and what ours adds.

mod api;
mod disk;
mod files;
mod harness;
mod lifecycle;
mod queue;
mod recovery;
mod sidecar;
mod stop;
mod token;
