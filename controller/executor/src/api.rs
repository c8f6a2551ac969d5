//! The HTTP API: OpenSandbox's paths, statuses and bodies.

mod answer;
mod patience;
mod route;
mod server;
mod token;

pub(crate) use server::serve;
pub(crate) use token::Tokens;
