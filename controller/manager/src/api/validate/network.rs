//! Where a sandbox may connect to: the lists of a create and of an update.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::Network;
use crate::api::failure::Failure;
use crate::api::model::NetworkBody;

/// So many entries a list may have.
const MOST: usize = 100;

/// The `network` of a create, and whether requests for the sandbox need a token of its own.
pub(in crate::api) fn network(field: &str, body: NetworkBody) -> Result<(Network, bool), Failure> {
    if body.allow_internet_access.is_some() {
        let field = at(field, "allow_internet_access");
        return Err(Failure::field(&field, "expected beside network, not in it"));
    }
    let private_traffic = body.allow_public_traffic == Some(false);
    checked(field, body).map(|network| (network, private_traffic))
}

/// An update, whose body has both.
pub(in crate::api) fn network_update(body: NetworkBody) -> Result<(Network, Option<bool>), Failure> {
    if body.allow_public_traffic.is_some() {
        return Err(Failure::field("allowPublicTraffic", "expected none: only a create can say so"));
    }
    let allow = body.allow_internet_access;
    checked("", body).map(|network| (network, allow))
}

fn checked(field: &str, body: NetworkBody) -> Result<Network, Failure> {
    let none = |name: &str, wanted: bool| match wanted {
        false => Ok(()),
        true => Err(Failure::field(&at(field, name), "expected none: this server cannot do it")),
    };
    none("dnsServers", body.dns_servers.is_some_and(|all| !all.is_empty()))?;
    none("egressProxy", body.egress_proxy.is_some_and(|value| !value.is_null()))?;
    none("maskRequestHost", body.mask_request_host.is_some_and(|host| !host.is_empty()))?;
    none("httpsPorts", body.https_ports.is_some_and(|all| !all.is_empty()))?;
    none("rules", body.rules.is_some_and(|all| !all.is_empty()))?;
    Ok(Network {
        allow_out: list(&at(field, "allowOut"), body.allow_out.unwrap_or_default(), |entry| {
            is_net(entry) || is_host(entry)
        })?,
        deny_out: list(&at(field, "denyOut"), body.deny_out.unwrap_or_default(), is_net)?,
    })
}

fn at(field: &str, name: &str) -> String {
    if field.is_empty() { name.to_owned() } else { format!("{field}.{name}") }
}

fn list(field: &str, entries: Vec<String>, fine: impl Fn(&str) -> bool) -> Result<Vec<String>, Failure> {
    if entries.len() > MOST {
        return Err(Failure::field(field, &format!("expected at most {MOST} entries")));
    }
    let wrong = entries.iter().position(|entry| !fine(entry));
    let Some(index) = wrong else { return Ok(entries) };
    let names = if field.ends_with("allowOut") { " or a name such as example.com" } else { "" };
    let expected = format!("expected an address, a network such as 10.0.0.0/8{names}");
    Err(Failure::field(&format!("{field}[{index}]"), &expected))
}

fn is_net(entry: &str) -> bool {
    entry.parse::<IpAddr>().is_ok() || entry.parse::<IpNet>().is_ok()
}

/// A DNS name. Without wildcards: the rules of the cluster have none.
fn is_host(entry: &str) -> bool {
    let label = |part: &str| {
        let bytes = part.as_bytes();
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
            && bytes.first() != Some(&b'-')
            && bytes.last() != Some(&b'-')
    };
    entry.len() <= 253
        && entry.contains('.')
        && entry.split('.').all(label)
        && !entry.rsplit('.').next().is_some_and(|last| last.bytes().all(|byte| byte.is_ascii_digit()))
}
