//! The metrics listener: `/ready` and `/stats/prometheus` of the admin port for those who are not on this
//! machine.
//!
//! The admin port stays on loopback, because its other pages change and end the process. This listener leads
//! to it and lets two exact paths through, read with GET or HEAD. Envoy compares the path as it was sent,
//! byte for byte and without its query, and the admin port does the same with what it gets: there is no
//! second spelling of a page, and nothing is decoded on the way.
//!
//! A probe has to be answered when clients have taken everything they may. So this listener is not among
//! those that the limit of clients' connections, the share of one address and the overload manager hold back.
//! It has a small limit of its own instead: its connections cannot use up the files that clients' connections
//! need.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::{Value, json};

use super::RunError;
use crate::args::Run;
use crate::failure::{Failure, usage};

#[cfg(test)]
mod tests;

const LISTENERS: &str = "/static_resources/listeners";
const CLUSTERS: &str = "/static_resources/clusters";
const OWN_ADDRESSES: &str = "/bootstrap_extensions/0/typed_config/extension_config/value/own-addresses";
/// The listener, and the cluster of the admin port.
const METRICS: &str = include_str!("metrics.yaml");
/// The limits of `metrics.yaml`: of the listener, and to the admin port.
const CONNECTIONS: u64 = 32;
const ADMIN_CONNECTIONS: u64 = 8;

/// How many files the listener may have open, of those that Envoy may open.
pub(super) fn files(port: Option<u16>) -> u64 {
    if port.is_some() { CONNECTIONS + 2 * ADMIN_CONNECTIONS } else { 0 }
}

/// Whether the listener can be had with these options.
pub(super) fn check(args: &Run) -> Result<(), Failure> {
    let Some(port) = args.metrics_port else { return Ok(()) };
    if args.admin_port == 0 {
        let reason = "the listener leads to the admin port, which therefore must be known";
        return Err(usage!("--metrics-port needs a fixed --admin-port, not 0: {reason}"));
    }
    for (option, taken) in [("--port", args.port), ("--admin-port", args.admin_port)] {
        if taken == port {
            return Err(usage!("--metrics-port and {option} are both {port}"));
        }
    }
    Ok(())
}

/// Adds the listener and the cluster of the admin port to a rendered config, if there is to be one.
pub(super) fn add(
    config: &mut Value,
    address: IpAddr,
    port: Option<u16>,
    admin_port: u16,
) -> Result<(), RunError> {
    let Some(port) = port else { return Ok(()) };
    let (own, admin) =
        (SocketAddr::new(address, port), SocketAddr::new(Ipv4Addr::LOCALHOST.into(), admin_port));
    let mut metrics: Value = serde_saphyr::from_str(METRICS).expect("a test reads the shipped metrics");
    for (pointer, address) in [
        ("/listener/address", own),
        ("/cluster/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address", admin),
    ] {
        let place = metrics.pointer_mut(pointer).ok_or_else(|| RunError::missing("address", pointer))?;
        *place = json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } });
    }
    for (list, value) in [
        (LISTENERS, metrics["listener"].take()),
        (CLUSTERS, metrics["cluster"].take()),
        // No sandbox is there.
        (OWN_ADDRESSES, own.to_string().into()),
    ] {
        let place = config.pointer_mut(list).and_then(Value::as_array_mut);
        place.ok_or_else(|| RunError::missing("list", list))?.push(value);
    }
    Ok(())
}
