//! What is done with a request that addresses a sandbox.
//!
//! Reads the table as it is now; nothing is remembered between requests. The checks stand in the order in which their
//! failures are reported: table complete, sandbox known, one sandbox of that ID, sandbox running, traffic token, access token. Whether a state
//! is served is for [`verdict`] alone to say.

#[cfg(test)]
mod tests;

use sandgate_routes::{Capability, Pinned, Route, Service, State, verdict};

use crate::{Address, Dialect, FilterConfig, Form, Headers, Part, Trouble};

/// The header with the access token.
pub const ACCESS_TOKEN: &str = "x-access-token";
/// The header with the access token in the OpenSandbox dialect.
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

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The first list of sandboxes is not complete yet.
    NotReady,
    /// No such sandbox.
    Unknown,
    /// Several sandboxes have this ID and one of them will not share it: no telling which is meant.
    Ambiguous,
    /// The sandbox is there, but cannot be served in this state.
    NotRunning(State),
    /// The access token is missing or wrong.
    Unauthorized,
    /// The sandbox wants a traffic token and nobody here can verify one.
    JwtVerifierNotReady,
    /// The address is not valid.
    Malformed {
        /// The form whose shape was found.
        form: Form,
        /// The part that is wrong.
        part: Part,
    },
    /// The request addresses no sandbox and the config refuses those.
    Unaddressed,
    /// The sandbox was not reached, or not to the end.
    Upstream(Trouble),
    /// The gateway failed.
    Panic,
}

impl Refusal {
    /// The HTTP status, by the dialect of the address. Without one it is OpenKruise's.
    pub fn status(self, dialect: Option<Dialect>) -> u16 {
        let opensandbox = dialect == Some(Dialect::OpenSandbox);
        match self {
            Self::NotReady | Self::JwtVerifierNotReady => 503,
            Self::Unknown | Self::NotRunning(State::Dead) if opensandbox => 404,
            Self::NotRunning(_) if opensandbox => 503,
            Self::Unknown | Self::Ambiguous | Self::NotRunning(_) => 502,
            Self::Unauthorized => 401,
            Self::Malformed { .. } => 400,
            Self::Unaddressed => 404,
            Self::Upstream(trouble) => trouble.status(),
            Self::Panic => 500,
        }
    }

    /// The response code detail, which is also the `reason` of the reply.
    pub fn details(self) -> &'static str {
        match self {
            Self::NotReady => "gateway_not_ready",
            Self::Unknown => "sandbox_not_found",
            Self::Ambiguous => "sandbox_ambiguous",
            Self::NotRunning(_) => "sandbox_not_running",
            Self::Unauthorized => "unauthorized",
            Self::JwtVerifierNotReady => "jwt_verifier_not_ready",
            Self::Malformed { part, .. } => part.details(),
            Self::Unaddressed => "not_addressed",
            Self::Upstream(trouble) => trouble.details(),
            Self::Panic => "sandgate_panic",
        }
    }
}

/// Decides about one request. Never allocates, never panics.
///
/// `ready` is asked of the reader before the table is pinned, so that a table which says ready is complete.
pub fn decide<'t, H: Headers + ?Sized>(
    address: &Address,
    table: &'t Pinned<'_>,
    ready: bool,
    headers: &H,
    config: &FilterConfig,
) -> Decision<'t> {
    if !ready {
        return Decision::Refuse(Refusal::NotReady);
    }
    match find(address, table, headers) {
        Some(route) => match admit(address.dialect(), route, headers, config) {
            Ok(()) => Decision::Forward(route),
            Err(refusal) => Decision::Refuse(refusal),
        },
        None => Decision::Refuse(Refusal::Unknown),
    }
}

/// The route of the ID as sent, else, where it came from a host, of the ID in lower case. An ambiguous one stands for several objects and is
/// not compared with the one that was named.
fn find<'t, H: Headers + ?Sized>(address: &Address, table: &'t Pinned<'_>, headers: &H) -> Option<&'t Route> {
    let route =
        table.get_bytes(address.id_bytes()).or_else(|| address.with_folded_id(|id| table.get_bytes(id)))?;
    let Some(object) = address.object().filter(|_| !route.is_ambiguous()) else {
        return Some(route);
    };
    let same_object = object == (route.key().namespace(), route.key().name());
    let same_uid = headers.with(UID, |uid| uid.is_none_or(|uid| uid == route.uid().as_bytes()));
    (same_object && same_uid).then_some(route)
}

fn admit<H: Headers + ?Sized>(
    dialect: Dialect,
    route: &Route,
    headers: &H,
    config: &FilterConfig,
) -> Result<(), Refusal> {
    if route.is_ambiguous() {
        return Err(Refusal::Ambiguous);
    }
    match verdict(route.state(), Capability { wake: false }).service {
        Service::Serve => {}
        Service::Wake | Service::Refuse => return Err(Refusal::NotRunning(route.state())),
    }
    if route.ip().is_none() {
        return Err(Refusal::NotRunning(State::Creating));
    }
    // With or without enable-auth: a sandbox that wants verified traffic must not get any that is not.
    if route.require_traffic_auth() {
        return Err(Refusal::JwtVerifierNotReady);
    }
    if !config.enable_auth() {
        return Ok(());
    }
    let Some(token) = route.token() else {
        return Ok(());
    };
    if headers.with(token_header(dialect), |sent| sent.is_some_and(|sent| token.matches(sent))) {
        Ok(())
    } else {
        Err(Refusal::Unauthorized)
    }
}

/// One header a dialect and no second chance: a wrong token in the right header is never outvoted by another header.
pub(crate) fn token_header(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Kruise | Dialect::AgentSandbox => ACCESS_TOKEN,
        Dialect::OpenSandbox => SECURE_ACCESS,
    }
}
