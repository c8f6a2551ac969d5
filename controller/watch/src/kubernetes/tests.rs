//! The watch with a scripted API server.

mod lists;
mod planes;
mod reuse;
mod source;
