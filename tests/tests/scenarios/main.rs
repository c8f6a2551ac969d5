//! The scenarios: what a user of the gateway relies on, each against a real Envoy with the real module.
//!
//! One binary, so that the scenarios of all themes share the machine's cores; `cargo test -p sandgate-tests
//! addresses::` runs one theme.
#![forbid(unsafe_code)]

mod addresses;
mod admin;
mod answers;
mod apiserver;
mod auth;
mod book;
mod browser;
mod check;
mod churn;
mod cli;
mod cluster;
mod config;
mod definitions;
mod demo;
mod deploy;
mod door;
mod drain;
mod e2b;
mod envoy_gateway;
mod explain;
mod harness;
mod headers;
mod hot_restart;
mod image;
mod kubernetes;
mod lifecycle;
mod limits;
mod listeners;
mod load;
mod loops;
mod malformed;
mod manager;
mod manager_door;
mod methods_and_ports;
mod metrics;
mod newcomer;
mod node;
mod operator;
mod panics;
mod partition;
mod pins;
mod push_churn;
mod recycled;
mod refresh;
mod reload;
mod replies;
mod routes_file;
mod said;
mod secrets;
mod shares;
mod shutdown;
mod sim;
mod soak;
mod support;
mod switches;
mod threads;
mod tls;
mod transport;
mod upgrades;
mod upstream;
mod watch_and_push;
