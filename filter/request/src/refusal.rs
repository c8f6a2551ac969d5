//! Why a request is not forwarded, or does not reach its sandbox, and the codes of each answer.
//!
//! Every refusal has its own response code detail, so that an access log tells the sandbox's failures from
//! the gateway's.

use sandgate_routes::State;

use crate::{Dialect, Form, Part};

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
    /// The access token is missing or wrong. This header should have it.
    Unauthorized {
        /// The name of the header.
        header: &'static str,
    },
    /// The sandbox wants a traffic JWT and nobody here can verify one.
    JwtVerifierNotReady,
    /// The traffic JWT is missing, not good, or for another sandbox.
    Forbidden,
    /// E2B's traffic token is missing or wrong.
    TrafficToken,
    /// The time of the signed route is over.
    SignatureExpired,
    /// The sandbox can be reached by a signed route and the gateway has no keys for any.
    RouteKeysMissing,
    /// Too many signed routes of this client, or of all clients, were wrong.
    TooManyFailures {
        /// After so many seconds another one is looked at.
        seconds: u16,
    },
    /// Who asks has to be known and is not.
    CallerUnknown,
    /// Who asks is known and may not reach this sandbox.
    CallerForbidden,
    /// The API server did not say whose token it is.
    ReviewFailed,
    /// As many tokens as the gateway looks at for now are being looked at.
    AuthBusy,
    /// The sandbox asks for nothing, and the config refuses those.
    TokenRequired,
    /// The sandbox has another address than the client believes.
    OtherPodIp,
    /// The address is not valid.
    Malformed {
        /// The form whose shape was found.
        form: Form,
        /// The part that is wrong.
        part: Part,
    },
    /// Two forms of address in one request name different sandboxes or ports.
    Conflicting {
        /// The form that would be the address.
        taken: Form,
        /// The form that says otherwise.
        other: Form,
    },
    /// The host or the header can be read in two ways and each of them names a sandbox that exists.
    TwoReadings,
    /// The method is CONNECT or TRACE, which are about the gateway and never about a sandbox.
    Method,
    /// The config keeps this port closed.
    PortNotAllowed,
    /// The request's body is larger than the config allows.
    RequestTooLarge {
        /// The most bytes that it may have.
        limit: u64,
    },
    /// The request's headers are larger than the config allows.
    HeadersTooLarge {
        /// The most bytes that they may have.
        limit: u32,
    },
    /// The request addresses no sandbox and the config refuses those.
    Unaddressed,
    /// The sandbox gets as many requests a second as it may.
    RateLimited {
        /// When it takes another one.
        seconds: u32,
    },
    /// The sandbox was not reached, or not to the end.
    Upstream(Trouble),
    /// The gateway failed.
    Panic,
}

impl Refusal {
    /// The HTTP status, by the dialect of the address. Without one it is OpenKruise's.
    pub fn status(self, dialect: Option<Dialect>) -> u16 {
        let opensandbox = dialect == Some(Dialect::OpenSandbox);
        let tells_unknown = opensandbox || dialect == Some(Dialect::SandboxEnv);
        match self {
            Self::NotReady
            | Self::JwtVerifierNotReady
            | Self::RouteKeysMissing
            | Self::ReviewFailed
            | Self::AuthBusy => 503,
            Self::Unknown | Self::NotRunning(State::Dead) if tells_unknown => 404,
            Self::NotRunning(_) if opensandbox => 503,
            Self::Unknown | Self::Ambiguous | Self::NotRunning(_) | Self::OtherPodIp => 502,
            Self::Unauthorized { .. } | Self::SignatureExpired | Self::CallerUnknown => 401,
            Self::TooManyFailures { .. } => 429,
            Self::Malformed { .. } | Self::Conflicting { .. } | Self::TwoReadings => 400,
            Self::PortNotAllowed
            | Self::Forbidden
            | Self::TrafficToken
            | Self::CallerForbidden
            | Self::TokenRequired => 403,
            Self::Method => 405,
            Self::RequestTooLarge { .. } => 413,
            Self::HeadersTooLarge { .. } => 431,
            Self::Unaddressed => 404,
            Self::RateLimited { .. } => 429,
            Self::Upstream(trouble) => trouble.codes().0,
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
            Self::Unauthorized { .. } => "unauthorized",
            Self::JwtVerifierNotReady => "jwt_verifier_not_ready",
            Self::Forbidden => "forbidden",
            Self::TrafficToken => "traffic_token_invalid",
            Self::SignatureExpired => "signature_expired",
            Self::RouteKeysMissing => "route_keys_missing",
            Self::TooManyFailures { .. } => "too_many_failures",
            Self::CallerUnknown => "caller_unauthorized",
            Self::CallerForbidden => "caller_forbidden",
            Self::ReviewFailed => "token_review_failed",
            Self::AuthBusy => "auth_busy",
            Self::TokenRequired => "token_required",
            Self::OtherPodIp => "pod_ip_mismatch",
            Self::Malformed { part, .. } => part.details(),
            Self::Conflicting { .. } => "conflicting_address",
            Self::TwoReadings => "ambiguous_address",
            Self::Method => "method_not_allowed",
            Self::PortNotAllowed => "port_not_allowed",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::HeadersTooLarge { .. } => "headers_too_large",
            Self::Unaddressed => "not_addressed",
            Self::RateLimited { .. } => "sandbox_rate_limited",
            Self::Upstream(trouble) => trouble.codes().1,
            Self::Panic => "sandgate_panic",
        }
    }
}

/// Why a request that was admitted did not reach its sandbox, or did not finish there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The sandbox ended, paused or moved while the request was under way.
    Gone,
    /// Nothing listens on the port.
    PortClosed,
    /// The connection was not made in time.
    ConnectTimeout,
    /// The connection failed in another way: no route to it, or TLS was refused.
    ConnectFailed,
    /// The sandbox has connections to as many ports as it may, all of them in use.
    TooManyPorts,
    /// As many requests as the sandbox may have are in flight.
    TooManyRequests,
    /// As many connections as the sandbox may have are in use.
    TooManyConnections,
    /// Envoy did not take the sandbox's address in time.
    NotAddedInTime,
    /// Envoy's route points at a cluster that is not Sandgate's.
    NoCluster,
    /// The sandbox answered with a status outside 200 to 599, or switched protocols without being asked.
    BadStatus,
    /// The request has passed a gateway before, or the sandbox's address is the gateway's own.
    Loop,
    /// One client has as many requests to the sandbox in flight as one may have.
    ClientTooManyRequests,
    /// One client has as many connections to the sandbox in use as one may have.
    ClientTooManyConnections,
    /// One client holds as many ports of the sandbox as one may have.
    ClientTooManyPorts,
    /// The gateway has as many hosts as it may, all of them in use.
    TooManyHosts,
    /// As many requests as the gateway may hold wait for their hosts.
    TooManyHeld,
    /// The sandbox did not answer in time.
    ResponseTimeout,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Gone,
        Self::PortClosed,
        Self::ConnectTimeout,
        Self::ConnectFailed,
        Self::TooManyPorts,
        Self::TooManyRequests,
        Self::TooManyConnections,
        Self::NotAddedInTime,
        Self::NoCluster,
        Self::BadStatus,
        Self::Loop,
        Self::ClientTooManyRequests,
        Self::ClientTooManyConnections,
        Self::ClientTooManyPorts,
        Self::TooManyHosts,
        Self::TooManyHeld,
        Self::ResponseTimeout,
    ];

    /// The HTTP status, the response code detail, the gRPC status that is nearest in meaning, and the seconds
    /// of `retry-after` where waiting helps. They are the same in every dialect.
    pub(crate) fn codes(self) -> (u16, &'static str, &'static str, Option<&'static str>) {
        match self {
            Self::Gone => (503, "sandbox_gone", "14", None),
            Self::PortClosed => (502, "sandbox_port_closed", "14", None),
            Self::ConnectTimeout => (504, "sandbox_connect_timeout", "4", None),
            Self::ConnectFailed => (502, "sandbox_connect_failed", "14", None),
            Self::TooManyPorts => (429, "sandbox_too_many_ports", "8", Some("1")),
            Self::TooManyRequests => (429, "sandbox_too_many_requests", "8", Some("1")),
            Self::TooManyConnections => (429, "sandbox_too_many_connections", "8", Some("1")),
            Self::NotAddedInTime => (503, "sandbox_wait_timeout", "14", Some("1")),
            Self::NoCluster => (500, "no_sandbox_cluster", "13", None),
            Self::BadStatus => (502, "sandbox_bad_status", "13", None),
            Self::Loop => (508, "routing_loop", "13", None),
            Self::ClientTooManyRequests => (429, "client_too_many_requests", "8", Some("1")),
            Self::ClientTooManyConnections => (429, "client_too_many_connections", "8", Some("1")),
            Self::ClientTooManyPorts => (429, "client_too_many_ports", "8", Some("1")),
            Self::TooManyHosts => (503, "gateway_too_many_hosts", "14", Some("1")),
            Self::TooManyHeld => (503, "gateway_too_many_held", "14", Some("1")),
            Self::ResponseTimeout => (504, "sandbox_response_timeout", "4", None),
        }
    }

    /// A title, and what happened and what to do. `port` is the one that was asked for.
    pub(crate) fn words(self, port: Option<u16>) -> (&'static str, String) {
        let port = port.map_or_else(|| "the port asked for".to_owned(), |port| format!("port {port}"));
        let (title, message) = match self {
            Self::Gone => (
                "The sandbox has gone",
                "The sandbox was deleted, paused or moved while this request was under way.",
            ),
            Self::PortClosed => (
                "The port is closed",
                "The sandbox is running but port is not open: nothing in it listens on {port}. Start the server, \
                 then try again.",
            ),
            Self::ConnectTimeout => (
                "The sandbox does not answer",
                "The sandbox is running, but a connection to {port} was not made in time.",
            ),
            Self::ConnectFailed => (
                "The sandbox cannot be reached",
                "The sandbox is running, but a connection to {port} could not be made.",
            ),
            Self::TooManyPorts => (
                "Too many ports",
                "This gateway has as many ports of this sandbox in use as it allows. Try again in a moment.",
            ),
            Self::TooManyRequests => (
                "Too many requests",
                "As many requests to this sandbox as this gateway allows are under way. Try again in a moment.",
            ),
            Self::TooManyConnections => (
                "Too many connections",
                "As many connections to this sandbox as this gateway allows are in use. Try again in a moment.",
            ),
            Self::ClientTooManyRequests => (
                "Too many requests",
                "As many requests of this client to this sandbox as this gateway allows are under way. Try again in a moment.",
            ),
            Self::ClientTooManyConnections => (
                "Too many connections",
                "As many connections of this client to this sandbox as this gateway allows are in use. Try again in a moment.",
            ),
            Self::ClientTooManyPorts => (
                "Too many ports",
                "This client has as many ports of this sandbox in use as this gateway allows. Try again in a moment.",
            ),
            Self::TooManyHosts => (
                "The gateway is full",
                "This gateway speaks to as many sandboxes as it may. Try again in a moment.",
            ),
            Self::TooManyHeld => (
                "The gateway is busy",
                "As many requests as this gateway may hold wait for their sandboxes. Try again in a moment.",
            ),
            Self::ResponseTimeout => (
                "The sandbox did not answer in time",
                "The sandbox has got the request, and its answer from {port} did not come, or did not end, in the \
                 time that the request was given.",
            ),
            Self::NotAddedInTime => (
                "The gateway is busy",
                "The gateway did not get ready to speak to this sandbox in time. Try again in a moment.",
            ),
            Self::NoCluster => (
                "The gateway is set up wrongly",
                "The gateway's route leads to a cluster that is not Sandgate's, so the request went nowhere. \
                 Please tell the gateway's operator.",
            ),
            Self::BadStatus => (
                "The sandbox's answer is not valid",
                "The server on {port} answered with a status outside 200 to 599, or switched protocols without \
                 having been asked to.",
            ),
            Self::Loop => (
                "The request goes in a circle",
                "This request has passed this gateway before, or the sandbox's address is the gateway's own. It was \
                 not sent on.",
            ),
        };
        (title, message.replace("{port}", &port))
    }
}
