//! What a sandbox asks its clients for, and whether a request brings it.
//!
//! Each thing that is asked for has to be there; a good one does not make up for another one that is wrong:
//!
//! * OpenSandbox's secure access: always, in `OpenSandbox-Secure-Access`; where that is not sent at all, a
//!   signed route will do.
//! * A traffic JWT: always, in the traffic token's header.
//! * E2B's traffic token: always, but not on envd's port, in the same header.
//! * The token of a runtime: with `enable-auth`, unless a JWT is asked for or `enable-jwt-auth` is on, in
//!   `x-access-token`; in the OpenSandbox dialect in `OpenSandbox-Secure-Access`.
//!
//! A signed URL of E2B's files carries no header. envd checks its signature, so the runtime's token is not
//! asked for there.

use sandgate_auth::TAG;
use sandgate_routes::{Route, Secret, TokenKind};

use crate::decide::Stop;
use crate::door::{Door, TrafficJwt};
use crate::{Address, Dialect, FilterConfig, Headers, Part, Refusal, Wait};

/// The header with the access token.
pub const ACCESS_TOKEN: &str = "x-access-token";
/// The header with the access token in the OpenSandbox dialect, and with the token of a sandbox that its
/// owner has closed, in every dialect. It is for the gateway: no sandbox gets it.
pub const SECURE_ACCESS: &str = "opensandbox-secure-access";

/// The port of envd, the server in E2B's sandboxes that checks its own token.
const ENVD: u16 = 49983;

/// Checks all that the sandbox asks for. Whether it is closed with a token of OpenSandbox's secure access.
pub(crate) fn check<H: Headers + ?Sized, D: Door>(
    address: &Address,
    route: &Route,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Result<bool, Stop> {
    // The sandbox reads a token too, and may take another of several than the gateway has compared.
    if [ACCESS_TOKEN, SECURE_ACCESS].into_iter().any(|name| headers.repeats(name)) {
        return Err(repeated(address));
    }
    let mut asks = true;
    let wants_jwt = route.require_traffic_auth();
    if wants_jwt {
        traffic_jwt(address, route, headers, config, door)?;
    } else if let Some(token) = route.traffic_token()
        && address.port() != ENVD
    {
        let header = config.traffic_header();
        if headers.repeats(header) {
            return Err(repeated(address));
        }
        if !headers.with(header, |sent| sent.is_some_and(|sent| token.matches(sent.trim_ascii()))) {
            return Err(Refusal::TrafficToken.into());
        }
    } else {
        asks = false;
    }
    match route.token() {
        Some(token) if token.kind() == TokenKind::SecureAccess => {
            secure_access(token, address, route, headers, door)?;
            return Ok(true);
        }
        Some(token) if config.enable_auth() && !config.enable_jwt_auth() && !wants_jwt => {
            let header = token_header(address.dialect());
            let is_good =
                headers.with(header, |sent| sent.is_some_and(|sent| token.matches(sent.trim_ascii())));
            if !is_good && !is_signed_file(address, headers) {
                return Err(Refusal::Unauthorized { header }.into());
            }
            asks = true;
        }
        _ => {}
    }
    if config.require_token() && !asks {
        return Err(Refusal::TokenRequired.into());
    }
    Ok(false)
}

/// With or without a switch: a sandbox that wants verified traffic must not get any that is not.
fn traffic_jwt<H: Headers + ?Sized, D: Door>(
    address: &Address,
    route: &Route,
    headers: &H,
    config: &FilterConfig,
    door: &D,
) -> Result<(), Stop> {
    let header = config.traffic_header();
    if headers.repeats(header) {
        return Err(repeated(address));
    }
    match headers.with(header, |sent| door.traffic_jwt(sent.unwrap_or_default().trim_ascii(), route)) {
        TrafficJwt::Good => Ok(()),
        TrafficJwt::Bad => Err(Refusal::Forbidden.into()),
        TrafficJwt::UnknownKey => Err(Stop::Wait(Wait::NewerKeys)),
        TrafficJwt::NotReady => Err(Refusal::JwtVerifierNotReady.into()),
        TrafficJwt::Busy => Err(Refusal::AuthBusy.into()),
    }
}

/// The header alone decides where it is sent, even an empty one. A signed route does not rescue a wrong
/// token.
fn secure_access<H: Headers + ?Sized, D: Door>(
    token: &Secret,
    address: &Address,
    route: &Route,
    headers: &H,
    door: &D,
) -> Result<(), Stop> {
    let refused = || Err(Refusal::Unauthorized { header: SECURE_ACCESS }.into());
    match headers.with(SECURE_ACCESS, |sent| sent.map(|sent| token.matches(sent.trim_ascii()))) {
        Some(true) => Ok(()),
        Some(false) => refused(),
        None if address.signature().is_some() => signed_route(address, route, door),
        None => refused(),
    }
}

/// Where a source has failed too often, or all have, a tag that was good before is good still, and no other
/// is even compared: the answer must not tell whether a guess was right.
#[cold]
fn signed_route<D: Door>(address: &Address, route: &Route, door: &D) -> Result<(), Stop> {
    let Some(signature) = address.signature() else {
        return Err(Refusal::Unauthorized { header: SECURE_ACCESS }.into());
    };
    let (tag, expires): (&[u8; TAG], &[u8]) = (signature.tag(), signature.expires_text());
    let Some(keys) = door.keys(|keys| keys.signed.clone()) else {
        return Err(Refusal::RouteKeysMissing.into());
    };
    if signature.expires() < door.unix() {
        return Err(Refusal::SignatureExpired.into());
    }
    let sandbox = route.identity();
    let known = (sandbox, address.port(), expires, tag);
    if !door.known_tags(|tags| tags.has(known))
        && let Some(wait) = door.failures().wait(sandbox, door.source(), door.uptime())
    {
        let seconds = u16::try_from(wait.as_secs()).unwrap_or(u16::MAX).saturating_add(1);
        return Err(Refusal::TooManyFailures { seconds }.into());
    }
    // What was signed is the ID of the address: an object that was found by its name has another one. A host
    // means it in lower case.
    let is_good = |id: &[u8]| keys.verifies(tag, id, address.port(), expires);
    if address.with_folded_id(|id| Some(is_good(id))).unwrap_or_else(|| is_good(address.id_bytes())) {
        door.known_tags(|tags| tags.add(known));
        return Ok(());
    }
    door.failures().count(sandbox, door.source(), door.uptime());
    Err(Refusal::Unauthorized { header: SECURE_ACCESS }.into())
}

/// Whether the request is for a file of envd by a signed URL: envd checks the signature.
#[cold]
fn is_signed_file<H: Headers + ?Sized>(address: &Address, headers: &H) -> bool {
    address.port() == ENVD
        && headers.with(":method", |method| matches!(method, Some(b"GET" | b"POST")))
        && headers.with(":path", |path| {
            let path = path.unwrap_or_default();
            let rewritten = address.rewrite(path, false);
            file_signature(rewritten.as_deref().unwrap_or(path))
                .is_some_and(|signature| !signature.is_empty())
        })
}

fn file_signature(path: &[u8]) -> Option<&[u8]> {
    let query = path.strip_prefix(b"/files?")?;
    query.split(|byte| *byte == b'&').find_map(|pair| pair.strip_prefix(b"signature="))
}

fn repeated(address: &Address) -> Stop {
    Refusal::Malformed { form: address.form(), part: Part::Repeated }.into()
}

/// One header a dialect and no second chance: a wrong token in the right header is never outvoted by another
/// header.
fn token_header(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Kruise | Dialect::AgentSandbox | Dialect::SandboxEnv => ACCESS_TOKEN,
        Dialect::OpenSandbox => SECURE_ACCESS,
    }
}
