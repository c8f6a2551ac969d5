//! The routing decision: whether a request goes to its sandbox, and to which route.
//!
//! [`decide`] reads the table as it is now and keeps nothing between requests. It runs these checks and
//! returns the first that fails:
//! 1. the method is neither CONNECT nor TRACE;
//! 2. the config allows the port;
//! 3. the first lists are in the table;
//! 4. in the agent-sandbox dialect, where the config has callers: the caller may ask;
//! 5. the table has the ID, and one object alone has it;
//! 6. the object is the one that the request names by namespace and name;
//! 7. for an object of a provider that the callers are for: the caller may ask;
//! 8. the request brings all that the sandbox asks for ([`credentials`]);
//! 9. the sandbox is the one that the request names by UID, and has the address that it names;
//! 10. the sandbox is running ([`verdict`]) and has an IP address.
//!
//! So whoever may not reach a sandbox does not learn its state, and wakes nobody.

#[cfg(test)]
mod tests;

use std::net::IpAddr;

use sandgate_routes::{Capability, Pinned, Route, Service, State, verdict};

use crate::callers;
use crate::credentials;
use crate::door::Door;
use crate::look_up::{is_known, look_up};
use crate::{Address, Dialect, FilterConfig, Headers, Part, Refusal};

const UID: &str = "x-sandbox-uid";
const POD_IP: &str = "x-sandbox-pod-ip";

/// Forward, wait or refuse.
#[derive(Debug)]
pub enum Decision<'t> {
    /// The request goes to its sandbox, which is running and has an address.
    Forward(Pass<'t>),
    /// It cannot be decided yet. When what is missing is there, it is decided again.
    Wait(Wait),
    /// The request is answered here.
    Refuse(Refusal),
}

/// A request that goes to its sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Pass<'t> {
    /// The sandbox.
    pub route: &'t Route,
    /// Whether the request's `Authorization` was for the gateway: then the sandbox does not get it.
    pub authorization_is_ours: bool,
    /// Whether the sandbox is closed with a token, so that a path which looks signed is signed.
    pub is_closed: bool,
}

/// What a decision waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Keys of traffic JWTs that are newer than those known here.
    NewerKeys,
    /// The API server's word on the caller's token.
    Review,
}

/// Why a decision ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It waits.
    Wait(Wait),
    /// It is no.
    Refuse(Refusal),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

/// Whether the request has a method that no sandbox is ever sent. CONNECT asks for a tunnel, and TRACE for an
/// echo of the request with its credentials.
pub fn has_refused_method<H: Headers + ?Sized>(headers: &H) -> bool {
    headers.with(":method", |method| matches!(method, Some(b"CONNECT" | b"TRACE")))
}

/// Chooses between the readings of a host or a header that has two, by what the table knows. Without a second
/// reading, as nearly always, nothing is looked up. If neither is known the first one stays.
///
/// A caller who has to be known is checked before: which readings exist is for nobody else.
///
/// # Errors
/// When both are known: it cannot be told which one is meant. And when the caller may not ask, or cannot be
/// judged yet.
#[inline]
pub fn choose_reading<H: Headers + ?Sized, D: Door>(
    address: &mut Address,
    table: &Pinned<'_>,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Result<(), Stop> {
    if !address.has_two_readings() {
        return Ok(());
    }
    check_named(address, headers, config, door)?;
    Ok(choose(address, table, config)?)
}

#[cold]
fn choose(address: &mut Address, table: &Pinned<'_>, config: &FilterConfig) -> Result<(), Refusal> {
    let Some(other) = address.other_reading() else { return Ok(()) };
    match (is_known(address, table, config), is_known(&other, table, config)) {
        (true, true) => return Err(Refusal::TwoReadings),
        (false, true) => *address = other,
        (_, false) => address.drop_other_reading(),
    }
    Ok(())
}

/// Decides about one request whose reading is chosen. Never allocates, never panics.
///
/// `ready` is asked of the reader before the table is pinned, so that a table which says ready is complete.
pub fn decide<'t, H: Headers + ?Sized, D: Door>(
    address: &Address,
    table: &'t Pinned<'_>,
    ready: bool,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Decision<'t> {
    match route(address, table, ready, headers, config, door) {
        Ok(pass) => Decision::Forward(pass),
        Err(Stop::Wait(wait)) => Decision::Wait(wait),
        Err(Stop::Refuse(refusal)) => Decision::Refuse(refusal),
    }
}

fn route<'t, H: Headers + ?Sized, D: Door>(
    address: &Address,
    table: &'t Pinned<'_>,
    ready: bool,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Result<Pass<'t>, Stop> {
    if has_refused_method(headers) {
        return Err(Refusal::Method.into());
    }
    if !config.allows_port(address.port()) {
        return Err(Refusal::PortNotAllowed.into());
    }
    if !ready {
        return Err(Refusal::NotReady.into());
    }
    let mut authorization_is_ours = check_named(address, headers, config, door)?;
    let route = look_up(address, table, config)?;
    if !authorization_is_ours && let Some(callers) = config.callers() {
        let object = route.key();
        if callers.are_for(object.provider()) {
            callers::check(address, (object.namespace(), object.name()), headers, callers, door)?;
            authorization_is_ours = true;
        }
    }
    let is_closed = credentials::check(address, route, headers, config, door)?;
    check_uid(address, route, headers)?;
    check_pod_ip(address, route, headers)?;
    match verdict(route.state(), Capability { wake: false }).service {
        Service::Serve => {}
        Service::Wake | Service::Refuse => return Err(Refusal::NotRunning(route.state()).into()),
    }
    if route.ip().is_none() {
        return Err(Refusal::NotRunning(State::Creating).into());
    }
    Ok(Pass { route, authorization_is_ours, is_closed })
}

/// Checks the caller of a request that names its sandbox as agent-sandbox does. Whether there was anything to
/// check.
fn check_named<H: Headers + ?Sized, D: Door>(
    address: &Address,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Result<bool, Stop> {
    match (config.callers(), address.object()) {
        (Some(callers), Some(object)) => {
            callers::check(address, object, headers, callers, door).map(|()| true)
        }
        _ => Ok(false),
    }
}

/// A UID says which sandbox of that name is meant, in every form: its successor is another one. An empty one
/// says nothing.
fn check_uid<H: Headers + ?Sized>(address: &Address, route: &Route, headers: &H) -> Result<(), Refusal> {
    headers.with(UID, |uid| match uid {
        None => Ok(()),
        Some(_) if headers.repeats(UID) => Err(repeated(address)),
        Some(uid) if uid.is_empty() || uid == route.uid().as_bytes() => Ok(()),
        Some(_) => Err(Refusal::Unknown),
    })
}

/// The address that a client of agent-sandbox believes its sandbox to have. It is never connected to: if the
/// sandbox has another one by now, the client has to learn so.
fn check_pod_ip<H: Headers + ?Sized>(address: &Address, route: &Route, headers: &H) -> Result<(), Stop> {
    if address.dialect() != Dialect::AgentSandbox {
        return Ok(());
    }
    headers.with(POD_IP, |sent| {
        let sent = sent.map(<[u8]>::trim_ascii).unwrap_or_default();
        if sent.is_empty() {
            return Ok(());
        }
        let ip: Option<IpAddr> = std::str::from_utf8(sent).ok().and_then(|text| text.parse().ok());
        match (ip, route.ip()) {
            (None, _) => Err(Refusal::Malformed { form: address.form(), part: Part::PodIp }.into()),
            (Some(ip), Some(own)) if ip.to_canonical() != own.to_canonical() => {
                Err(Refusal::OtherPodIp.into())
            }
            _ => Ok(()),
        }
    })
}

fn repeated(address: &Address) -> Refusal {
    Refusal::Malformed { form: address.form(), part: Part::Repeated }
}
