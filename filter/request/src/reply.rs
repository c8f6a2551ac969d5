//! The answer to a request that is not forwarded.
//!
//! Programs get JSON with the keys `code`, `reason`, `sandbox`, `state` and `message`, and beside them
//! `sandboxId` and `port` as E2B's own proxy has them; a browser that navigates gets a small page that says
//! the same, and a gRPC client a status with the message. The only client bytes in either are a valid ID and
//! a port. Tokens are not even at hand here.
//!
//! E2B's SDK reads the words of a 502: `was not found` means to it that the sandbox is not running any more,
//! and `port is not open` that it runs and has to be waited for. The messages below have these words where
//! they are true.

mod page;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use page::Escaped;
use sandgate_routes::State;
use serde::Serialize;

use crate::{Address, Form, Headers, Refusal};

/// How a reply is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// For programs.
    Json,
    /// For a person in front of a browser.
    Html,
    /// For a gRPC client: Envoy makes a response of trailers only from the reply, with the body as
    /// `grpc-message`.
    Grpc,
}

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u32,
    /// The response code detail for the access log.
    pub details: &'static str,
    /// The type of the body, also among [`Reply::headers`].
    pub content_type: &'static str,
    /// The body.
    pub body: String,
    media: Media,
    retry_after: Option<Cow<'static, str>>,
    asks_for_bearer: bool,
    grpc_status: &'static str,
}

impl Reply {
    /// The response headers, lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let always = [
            ("content-type", self.content_type),
            // Every one of these answers can be another a moment later.
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ];
        let policy = (self.media == Media::Html).then_some((
            "content-security-policy",
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ));
        let retry = self.retry_after.as_deref().map(|seconds| ("retry-after", seconds));
        let challenge = self.asks_for_bearer.then_some(("www-authenticate", "Bearer"));
        // What a 405 has to have.
        let allow = (self.status == 405).then_some(("allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
        // Without it Envoy tells a gRPC client that all went well.
        let grpc = (self.media == Media::Grpc).then_some(("grpc-status", self.grpc_status));
        always.into_iter().chain(policy).chain(retry).chain(challenge).chain(allow).chain(grpc)
    }
}

/// What the client would rather read.
///
/// HTML if the method is GET or HEAD and a browser is navigating: `sec-fetch-mode` is `navigate`, or, from a
/// client that sends no `sec-fetch-mode`, `-dest` or `-site` at all, the first media type in `accept` is
/// `text/html`. gRPC if the method is another and Envoy takes the request for gRPC. Else JSON.
pub fn preferred_media<H: Headers + ?Sized>(headers: &H) -> Media {
    let reads = headers.with(":method", |method| matches!(method, Some(b"GET" | b"HEAD")));
    if !reads {
        return if headers.with("content-type", is_grpc) { Media::Grpc } else { Media::Json };
    }
    let navigates =
        headers.with("sec-fetch-mode", |mode| mode.map(|mode| mode.eq_ignore_ascii_case(b"navigate")));
    let html = navigates.unwrap_or_else(|| {
        let silent = |name| headers.with(name, |value| value.is_none());
        silent("sec-fetch-dest") && silent("sec-fetch-site") && headers.with("accept", accepts_html_first)
    });
    if html { Media::Html } else { Media::Json }
}

/// As Envoy judges: `application/grpc`, alone or followed by `+` and a codec.
fn is_grpc(content_type: Option<&[u8]>) -> bool {
    content_type
        .and_then(|content_type| content_type.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+')))
}

fn accepts_html_first(accept: Option<&[u8]>) -> bool {
    accept
        .and_then(|accept| accept.split(|byte| matches!(byte, b',' | b';')).next())
        .is_some_and(|first| first.trim_ascii().eq_ignore_ascii_case(b"text/html"))
}

#[derive(Serialize)]
struct Body<'a> {
    code: u16,
    reason: &'static str,
    sandbox: Option<&'a str>,
    #[serde(rename = "sandboxId")]
    sandbox_id: Option<&'a str>,
    port: Option<u16>,
    state: Option<&'static str>,
    message: &'a str,
}

/// Words a refusal. `address` is what the request addressed, where it addressed something.
pub fn reply(refusal: Refusal, address: Option<&Address>, media: Media) -> Reply {
    let dialect = match refusal {
        Refusal::Malformed { form, .. } => Some(form.dialect()),
        _ => address.map(Address::dialect),
    };
    let status = refusal.status(dialect);
    let details = refusal.details();
    let (title, message) = match (refusal, address.map(Address::form)) {
        (Refusal::TwoReadings, Some(Form::AgentSandboxHeader)) => two_sandboxes_in_a_header(),
        _ => words(refusal, address.map(Address::port)),
    };
    let body = Body {
        code: status,
        reason: details,
        sandbox: address.map(Address::id),
        sandbox_id: address.map(Address::id),
        port: address.map(Address::port),
        state: match refusal {
            Refusal::NotRunning(state) => Some(state.as_str()),
            _ => None,
        },
        message: &message,
    };
    let (content_type, body) = match media {
        // Strings and numbers always serialize, so the fallback is never sent.
        Media::Json => ("application/json", serde_json::to_string(&body).unwrap_or_default()),
        Media::Html => ("text/html; charset=utf-8", page::render(title, &body)),
        Media::Grpc => ("application/grpc", message),
    };
    Reply {
        status: status.into(),
        details,
        content_type,
        body,
        media,
        retry_after: retry_after(refusal, status),
        asks_for_bearer: refusal == Refusal::CallerUnknown,
        grpc_status: grpc_status(refusal),
    }
}

/// The gRPC status that says most nearly the same.
fn grpc_status(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Malformed { .. } | Refusal::Conflicting { .. } | Refusal::TwoReadings => "3",
        Refusal::Unknown => "5",
        Refusal::PortNotAllowed
        | Refusal::Forbidden
        | Refusal::TrafficToken
        | Refusal::CallerForbidden
        | Refusal::TokenRequired => "7",
        Refusal::TooManyFailures { .. }
        | Refusal::RateLimited { .. }
        | Refusal::RequestTooLarge { .. }
        | Refusal::HeadersTooLarge { .. } => "8",
        Refusal::Ambiguous => "9",
        Refusal::Unaddressed | Refusal::Method => "12",
        Refusal::Panic => "13",
        Refusal::NotReady
        | Refusal::NotRunning(_)
        | Refusal::JwtVerifierNotReady
        | Refusal::RouteKeysMissing
        | Refusal::ReviewFailed
        | Refusal::AuthBusy
        | Refusal::OtherPodIp => "14",
        Refusal::Unauthorized { .. } | Refusal::SignatureExpired | Refusal::CallerUnknown => "16",
        Refusal::Upstream(trouble) => trouble.codes().2,
    }
}

/// Seconds, where waiting is what helps.
fn retry_after(refusal: Refusal, status: u16) -> Option<Cow<'static, str>> {
    match refusal {
        Refusal::NotReady | Refusal::AuthBusy | Refusal::ReviewFailed => Some("1".into()),
        Refusal::NotRunning(State::Creating) if status == 503 => Some("1".into()),
        Refusal::TooManyFailures { seconds } => Some(seconds.to_string().into()),
        Refusal::RateLimited { seconds } => Some(seconds.to_string().into()),
        Refusal::Upstream(trouble) => trouble.codes().3.map(Cow::from),
        _ => None,
    }
}

fn two_sandboxes_in_a_header() -> (&'static str, String) {
    (
        "The header names two sandboxes",
        "X-Sandbox-ID can be read as a name and as a sandbox ID, and both readings name a sandbox that exists. \
         Send X-Sandbox-Namespace if it is a name, or put the ID into the path; the gateway's operator can switch \
         one of the two forms off."
            .to_owned(),
    )
}

/// A title, and what happened and what to do.
fn words(refusal: Refusal, port: Option<u16>) -> (&'static str, String) {
    let fixed = |title, message: &str| (title, message.to_owned());
    match refusal {
        Refusal::NotReady => fixed(
            "The gateway is starting",
            "This gateway has not read its first complete list of sandboxes yet, so it serves none. \
             Try again in a moment.",
        ),
        Refusal::Unknown => fixed(
            "No such sandbox",
            "The sandbox was not found: this gateway knows no sandbox by this address. Check the ID, the namespace \
             and the UID; a sandbox made a moment ago may still be on its way here.",
        ),
        Refusal::Ambiguous => fixed(
            "Several sandboxes have this ID",
            "More than one sandbox claims this ID, and it cannot be told which is meant, so none is served. \
             Delete or rename all but one; that one is then served again.",
        ),
        Refusal::NotRunning(state) => match state {
            State::Creating | State::Running => fixed(
                "The sandbox is being created",
                "The sandbox exists but is not up yet. Try again in a moment.",
            ),
            State::Available => fixed(
                "The sandbox is not claimed",
                "The sandbox waits in a pool and belongs to nobody yet. Claim it, then try again.",
            ),
            State::Paused => fixed(
                "The sandbox is paused",
                "The sandbox was not found among those that run: it is paused. Resume it, then try again.",
            ),
            State::Unknown => fixed(
                "The sandbox is in an unknown state",
                "The sandbox is in a state that this gateway does not know, so it is not served.",
            ),
            State::Dead => fixed(
                "The sandbox has ended",
                "The sandbox was not found among those that run: it has ended. Create a new one.",
            ),
        },
        Refusal::Unauthorized { header } => (
            "Access token needed",
            format!(
                "The access token is missing or wrong. Send the token of this sandbox in the header {header}."
            ),
        ),
        Refusal::JwtVerifierNotReady => fixed(
            "Traffic token cannot be verified",
            "This sandbox takes only traffic with a verified token, and this gateway has no verifier. \
             Ask its operator to set one up.",
        ),
        Refusal::Forbidden => fixed(
            "Traffic token needed",
            "The traffic token is missing, not good any more, or for another sandbox. Ask for a new one where \
             you made the sandbox.",
        ),
        Refusal::TrafficToken => fixed(
            "Traffic token needed",
            "The traffic token is missing or wrong. Send the token that came with this sandbox when it was made.",
        ),
        Refusal::SignatureExpired => fixed(
            "The link has expired",
            "The time for which this address was signed is over. Ask for a new one.",
        ),
        Refusal::RouteKeysMissing => fixed(
            "Signed addresses cannot be verified",
            "This sandbox takes signed addresses, and this gateway has no keys to verify them. Ask its operator \
             to set them up, or send the sandbox's token.",
        ),
        Refusal::TooManyFailures { .. } => fixed(
            "Too many wrong signatures",
            "Too many addresses of this sandbox with a wrong signature were asked for. Try again later.",
        ),
        Refusal::CallerUnknown => fixed(
            "Who are you?",
            "This gateway wants to know who asks. Send a good token in the header Authorization, as Bearer.",
        ),
        Refusal::CallerForbidden => fixed("Not yours", "Your token is good, but not for this sandbox."),
        Refusal::ReviewFailed => fixed(
            "Your token cannot be checked now",
            "The cluster did not say whose token this is. Try again in a moment.",
        ),
        Refusal::AuthBusy => fixed(
            "The gateway is busy",
            "This gateway is checking as many tokens as it may. Try again in a moment.",
        ),
        Refusal::TokenRequired => fixed(
            "The sandbox is open",
            "This gateway serves only sandboxes that ask for a token, and this one asks for none.",
        ),
        Refusal::OtherPodIp => fixed(
            "The sandbox has moved",
            "The sandbox has another address than X-Sandbox-Pod-IP says. Read its address again, or leave the \
             header out.",
        ),
        Refusal::Malformed { form, part } => (
            "The address is not valid",
            format!(
                "The request was read as {} ({}), but it has no valid {}. {}",
                form.as_str(),
                form.pattern(),
                part.as_str(),
                part.expectation()
            ),
        ),
        Refusal::Conflicting { taken, other } => (
            "Two addresses in one request",
            format!(
                "The request names one sandbox or port as {} ({}) and another as {} ({}). Name one only.",
                taken.as_str(),
                taken.pattern(),
                other.as_str(),
                other.pattern()
            ),
        ),
        Refusal::TwoReadings => fixed(
            "The host names two sandboxes",
            "The host can be read with the port in front or at the end, and both readings name a sandbox that exists. \
             Name the sandbox in a header; the gateway's operator can switch one of the host forms off.",
        ),
        Refusal::Method => fixed(
            "The method is not allowed",
            "CONNECT and TRACE are not sent to sandboxes. Use another method.",
        ),
        Refusal::RequestTooLarge { limit } => (
            "The request is too large",
            format!(
                "This gateway's config does not let requests of more than {limit} bytes through. Send less at a time."
            ),
        ),
        Refusal::HeadersTooLarge { limit } => (
            "The headers are too large",
            format!(
                "This gateway's config does not let requests through whose headers have more than {limit} bytes. \
                 Cookies are often the largest of them."
            ),
        ),
        Refusal::PortNotAllowed => (
            "The port is not allowed",
            format!(
                "This gateway's config does not let requests through to {}. Use another port, or ask its operator.",
                port.map_or_else(|| "this port".to_owned(), |port| format!("port {port}"))
            ),
        ),
        Refusal::RateLimited { seconds } => (
            "Too many requests",
            format!(
                "This sandbox gets as many requests a second as this gateway allows. Try again in {}.",
                if seconds == 1 { "a second".to_owned() } else { format!("{seconds} seconds") }
            ),
        ),
        Refusal::Unaddressed => fixed(
            "Not addressed to a sandbox",
            "Nothing in the host, the headers or the path of this request names a sandbox, and this gateway serves \
             nothing else. Check the address.",
        ),
        Refusal::Upstream(trouble) => trouble.words(port),
        Refusal::Panic => fixed(
            "The gateway failed",
            "The gateway failed on this request; it did not reach the sandbox. This is a defect: \
             please tell the gateway's operator.",
        ),
    }
}
