//! What can go wrong between the gateway and a sandbox that the table says is running.
//!
//! Every one of these is answered with its own detail, so that an access log tells the sandbox's failures
//! from the gateway's.

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
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 16] = [
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
    ];

    /// The HTTP status, the same in every dialect.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Gone | Self::NotAddedInTime | Self::TooManyHosts | Self::TooManyHeld => 503,
            Self::PortClosed | Self::ConnectFailed | Self::BadStatus => 502,
            Self::ConnectTimeout => 504,
            Self::TooManyPorts | Self::TooManyRequests | Self::TooManyConnections => 429,
            Self::ClientTooManyRequests | Self::ClientTooManyConnections | Self::ClientTooManyPorts => 429,
            Self::NoCluster => 500,
            Self::Loop => 508,
        }
    }

    pub(crate) fn details(self) -> &'static str {
        match self {
            Self::Gone => "sandbox_gone",
            Self::PortClosed => "sandbox_port_closed",
            Self::ConnectTimeout => "sandbox_connect_timeout",
            Self::ConnectFailed => "sandbox_connect_failed",
            Self::TooManyPorts => "sandbox_too_many_ports",
            Self::TooManyRequests => "sandbox_too_many_requests",
            Self::TooManyConnections => "sandbox_too_many_connections",
            Self::NotAddedInTime => "sandbox_wait_timeout",
            Self::NoCluster => "no_sandbox_cluster",
            Self::ClientTooManyRequests => "client_too_many_requests",
            Self::ClientTooManyConnections => "client_too_many_connections",
            Self::ClientTooManyPorts => "client_too_many_ports",
            Self::TooManyHosts => "gateway_too_many_hosts",
            Self::TooManyHeld => "gateway_too_many_held",
            Self::BadStatus => "sandbox_bad_status",
            Self::Loop => "routing_loop",
        }
    }

    /// The gRPC status that says most nearly the same.
    pub(crate) fn grpc_status(self) -> &'static str {
        match self {
            Self::ConnectTimeout => "4",
            Self::TooManyPorts | Self::TooManyRequests | Self::TooManyConnections => "8",
            Self::ClientTooManyRequests | Self::ClientTooManyConnections | Self::ClientTooManyPorts => "8",
            Self::TooManyHosts | Self::TooManyHeld => "14",
            Self::NoCluster | Self::BadStatus | Self::Loop => "13",
            Self::Gone | Self::PortClosed | Self::ConnectFailed | Self::NotAddedInTime => "14",
        }
    }

    /// Seconds, where waiting is what helps.
    pub(crate) fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::TooManyPorts
            | Self::TooManyRequests
            | Self::TooManyConnections
            | Self::ClientTooManyRequests
            | Self::ClientTooManyConnections
            | Self::ClientTooManyPorts
            | Self::NotAddedInTime
            | Self::TooManyHosts
            | Self::TooManyHeld => Some("1"),
            _ => None,
        }
    }

    /// A title, and what happened and what to do. `port` is the one that was asked for.
    pub(crate) fn words(self, port: Option<u16>) -> (&'static str, String) {
        let port = port.map_or_else(|| "the port asked for".to_owned(), |port| format!("port {port}"));
        match self {
            Self::Gone => (
                "The sandbox has gone",
                "The sandbox was deleted, paused or moved while this request was under way.".to_owned(),
            ),
            Self::PortClosed => (
                "The port is closed",
                format!(
                    "The sandbox is running but port is not open: nothing in it listens on {port}. Start the server, \
                     then try again."
                ),
            ),
            Self::ConnectTimeout => (
                "The sandbox does not answer",
                format!("The sandbox is running, but a connection to {port} was not made in time."),
            ),
            Self::ConnectFailed => (
                "The sandbox cannot be reached",
                format!("The sandbox is running, but a connection to {port} could not be made."),
            ),
            Self::TooManyPorts => (
                "Too many ports",
                "This gateway has as many ports of this sandbox in use as it allows. Try again in a moment.".to_owned(),
            ),
            Self::TooManyRequests => (
                "Too many requests",
                "As many requests to this sandbox as this gateway allows are under way. Try again in a moment.".to_owned(),
            ),
            Self::TooManyConnections => (
                "Too many connections",
                "As many connections to this sandbox as this gateway allows are in use. Try again in a moment.".to_owned(),
            ),
            Self::ClientTooManyRequests => (
                "Too many requests",
                "As many requests of this client to this sandbox as this gateway allows are under way. Try again in a moment.".to_owned(),
            ),
            Self::ClientTooManyConnections => (
                "Too many connections",
                "As many connections of this client to this sandbox as this gateway allows are in use. Try again in a moment.".to_owned(),
            ),
            Self::ClientTooManyPorts => (
                "Too many ports",
                "This client has as many ports of this sandbox in use as this gateway allows. Try again in a moment.".to_owned(),
            ),
            Self::TooManyHosts => (
                "The gateway is full",
                "This gateway speaks to as many sandboxes as it may. Try again in a moment.".to_owned(),
            ),
            Self::TooManyHeld => (
                "The gateway is busy",
                "As many requests as this gateway may hold wait for their sandboxes. Try again in a moment.".to_owned(),
            ),
            Self::NotAddedInTime => (
                "The gateway is busy",
                "The gateway did not get ready to speak to this sandbox in time. Try again in a moment.".to_owned(),
            ),
            Self::NoCluster => (
                "The gateway is set up wrongly",
                "The gateway's route leads to a cluster that is not Sandgate's, so the request went nowhere. \
                 Please tell the gateway's operator."
                    .to_owned(),
            ),
            Self::BadStatus => (
                "The sandbox's answer is not valid",
                format!(
                    "The server on {port} answered with a status outside 200 to 599, or switched protocols without \
                     having been asked to."
                ),
            ),
            Self::Loop => (
                "The request goes in a circle",
                "This request has passed this gateway before, or the sandbox's address is the gateway's own. It was \
                 not sent on."
                    .to_owned(),
            ),
        }
    }
}
