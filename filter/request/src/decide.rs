//! The routing decision: whether a request goes to its sandbox, and to which route.
//!
//! [`decide`] reads the table as it is now and keeps nothing between requests. It runs these checks and
//! returns the first that fails:
//! 1. the method is neither CONNECT nor TRACE;
//! 2. the config allows the port;
//! 3. the first lists are in the table;
//! 4. the table has the ID, and one object alone has it;
//! 5. the object is the one that the request names by namespace and name, and by UID;
//! 6. the sandbox is running ([`verdict`]) and has an IP address;
//! 7. no token is sent twice, no traffic token is required, and the access token is right.

#[cfg(test)]
mod tests;

use sandgate_routes::{Capability, Pinned, Route, Service, State, TokenKind, verdict};

use crate::{Address, Dialect, FilterConfig, Headers, Part, Refusal};

/// The header with the access token.
pub const ACCESS_TOKEN: &str = "x-access-token";
/// The header with the access token in the OpenSandbox dialect, and with the token of a sandbox that its
/// owner has closed, in every dialect. It is for the gateway: no sandbox gets it.
pub const SECURE_ACCESS: &str = "opensandbox-secure-access";

const UID: &str = "x-sandbox-uid";

/// Forward or refuse.
#[derive(Debug)]
pub enum Decision<'t> {
    /// The request goes to this sandbox, which is running and has an address.
    Forward(&'t Route),
    /// The request is answered here.
    Refuse(Refusal),
}

/// Whether the request has a method that no sandbox is ever sent. CONNECT asks for a tunnel, and TRACE for an
/// echo of the request with its credentials.
pub fn has_refused_method<H: Headers + ?Sized>(headers: &H) -> bool {
    headers.with(":method", |method| matches!(method, Some(b"CONNECT" | b"TRACE")))
}

/// Chooses between the readings of a host or a header that has two, by what the table knows. Without a second
/// reading, as nearly always, nothing is looked up. If neither is known the first one stays.
///
/// # Errors
/// When both are known: it cannot be told which one is meant.
#[inline]
pub fn choose_reading(address: &mut Address, table: &Pinned<'_>) -> Result<(), Refusal> {
    if address.has_two_readings() { choose(address, table) } else { Ok(()) }
}

#[cold]
fn choose(address: &mut Address, table: &Pinned<'_>) -> Result<(), Refusal> {
    let Some(other) = address.other_reading() else { return Ok(()) };
    match (is_known(address, table), is_known(&other, table)) {
        (true, true) => return Err(Refusal::TwoReadings),
        (false, true) => *address = other,
        (_, false) => address.drop_other_reading(),
    }
    Ok(())
}

/// Decides about one request whose reading is chosen. Never allocates, never panics.
///
/// `ready` is asked of the reader before the table is pinned, so that a table which says ready is complete.
pub fn decide<'t, H: Headers + ?Sized>(
    address: &Address,
    table: &'t Pinned<'_>,
    ready: bool,
    headers: &H,
    config: &FilterConfig,
) -> Decision<'t> {
    match route(address, table, ready, headers, config) {
        Ok(route) => Decision::Forward(route),
        Err(refusal) => Decision::Refuse(refusal),
    }
}

fn route<'t, H: Headers + ?Sized>(
    address: &Address,
    table: &'t Pinned<'_>,
    ready: bool,
    headers: &H,
    config: &FilterConfig,
) -> Result<&'t Route, Refusal> {
    if has_refused_method(headers) {
        return Err(Refusal::Method);
    }
    if !config.allows_port(address.port()) {
        return Err(Refusal::PortNotAllowed);
    }
    if !ready {
        return Err(Refusal::NotReady);
    }
    let route = look_up(address, table).ok_or(Refusal::Unknown)?;
    if route.is_ambiguous() {
        // It stands for several objects and is not compared with the one that was named.
        return Err(Refusal::Ambiguous);
    }
    if !is_named(address, route) {
        return Err(Refusal::Unknown);
    }
    check_uid(address, route, headers)?;
    admit(address, route, headers, config)?;
    Ok(route)
}

/// Whether the table has what the address names. An ID that several objects claim may stand for it.
fn is_known(address: &Address, table: &Pinned<'_>) -> bool {
    look_up(address, table).is_some_and(|route| route.is_ambiguous() || is_named(address, route))
}

/// Whether it is the object that the address names, where it names one.
fn is_named(address: &Address, route: &Route) -> bool {
    address.object().is_none_or(|object| object == (route.key().namespace(), route.key().name()))
}

/// The route of the ID. One that came from a host is meant in lower case, whatever case it was sent in: only
/// where nobody has that ID it is looked up as it was sent. Otherwise whoever took the ID in another case
/// would get the requests of clients that do not write hosts in lower case.
fn look_up<'t>(address: &Address, table: &'t Pinned<'_>) -> Option<&'t Route> {
    address.with_folded_id(|id| table.get_bytes(id)).or_else(|| table.get_bytes(address.id_bytes()))
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

fn repeated(address: &Address) -> Refusal {
    Refusal::Malformed { form: address.form(), part: Part::Repeated }
}

fn admit<H: Headers + ?Sized>(
    address: &Address,
    route: &Route,
    headers: &H,
    config: &FilterConfig,
) -> Result<(), Refusal> {
    match verdict(route.state(), Capability { wake: false }).service {
        Service::Serve => {}
        Service::Wake | Service::Refuse => return Err(Refusal::NotRunning(route.state())),
    }
    if route.ip().is_none() {
        return Err(Refusal::NotRunning(State::Creating));
    }
    // The sandbox reads a token too, and may take another of several than the gateway has compared.
    if [ACCESS_TOKEN, SECURE_ACCESS].into_iter().any(|name| headers.repeats(name)) {
        return Err(repeated(address));
    }
    // With or without enable-auth: a sandbox that wants verified traffic must not get any that is not.
    if route.require_traffic_auth() {
        return Err(Refusal::JwtVerifierNotReady);
    }
    let Some(token) = route.token() else {
        return Ok(());
    };
    let header = match token.kind() {
        // The owner has asked for it, so no switch of the gateway's operator takes it away.
        TokenKind::SecureAccess => SECURE_ACCESS,
        TokenKind::Runtime if config.enable_auth() => token_header(address.dialect()),
        TokenKind::Runtime => return Ok(()),
    };
    if headers.with(header, |sent| sent.is_some_and(|sent| token.matches(sent.trim_ascii()))) {
        Ok(())
    } else {
        Err(Refusal::Unauthorized { header })
    }
}

/// One header a dialect and no second chance: a wrong token in the right header is never outvoted by another
/// header.
fn token_header(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Kruise | Dialect::AgentSandbox | Dialect::SandboxEnv => ACCESS_TOKEN,
        Dialect::OpenSandbox => SECURE_ACCESS,
    }
}
