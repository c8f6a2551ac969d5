//! What can go wrong between the gateway and a sandbox that the table says is running.
//!
//! Every one of these is answered with its own detail, so that an access log tells the sandbox's failures from the gateway's.

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
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Gone,
        Self::PortClosed,
        Self::ConnectTimeout,
        Self::ConnectFailed,
        Self::TooManyPorts,
        Self::TooManyRequests,
        Self::TooManyConnections,
        Self::NotAddedInTime,
        Self::NoCluster,
    ];

    /// The HTTP status, the same in every dialect.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Gone | Self::NotAddedInTime => 503,
            Self::PortClosed | Self::ConnectFailed => 502,
            Self::ConnectTimeout => 504,
            Self::TooManyPorts | Self::TooManyRequests | Self::TooManyConnections => 429,
            Self::NoCluster => 500,
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
        }
    }

    /// The gRPC status that says most nearly the same.
    pub(crate) fn grpc_status(self) -> &'static str {
        match self {
            Self::ConnectTimeout => "4",
            Self::TooManyPorts | Self::TooManyRequests | Self::TooManyConnections => "8",
            Self::NoCluster => "13",
            Self::Gone | Self::PortClosed | Self::ConnectFailed | Self::NotAddedInTime => "14",
        }
    }

    /// Seconds, where waiting is what helps.
    pub(crate) fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::TooManyPorts | Self::TooManyRequests | Self::TooManyConnections | Self::NotAddedInTime => {
                Some("1")
            }
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
                    "The sandbox is running, but nothing in it listens on {port}. Start the server, then try again."
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
        }
    }
}
