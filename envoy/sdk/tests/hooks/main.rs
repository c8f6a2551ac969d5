//! Drives the exported hooks without Envoy: `host` is a small Envoy in memory that defines the callbacks,
//! `module` a module whose hooks each test scripts. Everything happens on the test's own thread, so tests do
//! not see each other.

mod bootstrap;
mod cluster;
mod host;
mod http;
mod http_configs;
mod module;
mod network;
