//! The header `X-Sandbox-ID`, which two projects read in two ways.
//!
//! To SIG agent-sandbox it is the name of an object, beside `X-Sandbox-Namespace` and `X-Sandbox-Port`, both
//! of which have defaults. To scitix Agent-Sandbox (the dialect `sandbox-env`) it is a lookup ID; it has no
//! namespaces and no default port. So a request that sends a namespace, or no port, has the first reading
//! alone, and none where that dialect is off. Of two good ones the table decides, as of the two readings of a
//! host ([`host`](super::host)).

use sandgate_routes::is_valid_id;

use super::host::NoReading;
use super::{Absence, Attempt, offer, sent_port};
use crate::address::AskedPort;
use crate::{Address, FilterConfig, Form, Headers, Part};

pub(crate) const SANDBOX_ID: &str = "x-sandbox-id";
const SANDBOX_NAMESPACE: &str = "x-sandbox-namespace";
const SANDBOX_POD_IP: &str = "x-sandbox-pod-ip";
pub(crate) const SANDBOX_PORT: &str = "x-sandbox-port";

/// The readings of one `X-Sandbox-ID`.
#[derive(Debug)]
pub(crate) struct IdReadings<'a> {
    id: &'a [u8],
    /// As [`Form::AgentSandboxHeader`].
    agent_sandbox: Result<Address, NoReading>,
    /// As [`Form::SandboxEnvHeader`]: the port. The ID is the header's value.
    sandbox_env: Result<u16, NoReading>,
}

impl<'a> IdReadings<'a> {
    /// Reads the header and those beside it, and calls `f` with what they say.
    ///
    /// `X-Sandbox-ID` makes the shape of the first form, even if empty, and with `X-Sandbox-Port` that of the
    /// second. An empty namespace or port is not sent, so the defaults hold.
    /// `X-Sandbox-Pod-IP` must not be sent twice and is no part of the address: the table says where a
    /// sandbox is. Nor is `X-Sandbox-UID`; the decision compares both with the route that was found.
    pub(crate) fn read<H: Headers + ?Sized, R>(
        headers: &H,
        config: &FilterConfig,
        f: impl FnOnce(IdReadings<'_>) -> R,
    ) -> R {
        if !config.agent_sandbox.enabled && !config.sandbox_env.headers {
            return f(IdReadings::neither(config, NoReading::Absent(Absence::Off)));
        }
        headers.with(SANDBOX_ID, |id| {
            let Some(id) = id else {
                return f(IdReadings::neither(config, NoReading::Absent(Absence::NoHeader)));
            };
            let repeated = NoReading::Malformed(Part::Repeated);
            let pod_ips = config.agent_sandbox.enabled && headers.repeats(SANDBOX_POD_IP);
            if headers.repeats(SANDBOX_ID) || pod_ips {
                let mut readings = IdReadings::neither(config, repeated);
                if config.sandbox_env.headers && headers.with(SANDBOX_PORT, is_empty) {
                    readings.sandbox_env = Err(NoReading::Absent(Absence::NoPort));
                }
                return f(readings);
            }
            headers.with(SANDBOX_NAMESPACE, |namespace| {
                if namespace.is_some() && headers.repeats(SANDBOX_NAMESPACE) {
                    let mut readings = IdReadings::neither(config, repeated);
                    if config.sandbox_env.headers {
                        readings.sandbox_env = Err(NoReading::Absent(Absence::HasNamespace));
                    }
                    return f(readings);
                }
                let namespace = namespace.filter(|namespace| !namespace.is_empty());
                f(IdReadings::of(id, namespace, sent_port(headers, SANDBOX_PORT), config))
            })
        })
    }

    /// The same for each dialect that is on.
    fn neither(config: &FilterConfig, why: NoReading) -> Self {
        let unless_off = |on| if on { why } else { NoReading::Absent(Absence::Off) };
        Self {
            id: &[],
            agent_sandbox: Err(unless_off(config.agent_sandbox.enabled)),
            sandbox_env: Err(unless_off(config.sandbox_env.headers)),
        }
    }

    fn of(
        id: &'a [u8],
        namespace: Option<&[u8]>,
        port: Result<Option<u16>, Part>,
        config: &FilterConfig,
    ) -> Self {
        let dialect = &config.agent_sandbox;
        let agent_sandbox = if dialect.enabled {
            let namespace = namespace.unwrap_or(dialect.default_namespace.as_bytes());
            let default = AskedPort { number: dialect.default_port, is_default: true };
            let port = port.map(|port| port.map_or(default, AskedPort::from));
            Address::composed(namespace, id, port).map_err(NoReading::Malformed)
        } else {
            Err(NoReading::Absent(Absence::Off))
        };
        let sandbox_env = match port {
            _ if !config.sandbox_env.headers => Err(NoReading::Absent(Absence::Off)),
            _ if namespace.is_some() => Err(NoReading::Absent(Absence::HasNamespace)),
            Ok(None) => Err(NoReading::Absent(Absence::NoPort)),
            _ if !is_valid_id(id) => Err(NoReading::Malformed(Part::Id)),
            Ok(Some(port)) => Ok(port),
            Err(part) => Err(NoReading::Malformed(part)),
        };
        Self { id, agent_sandbox, sandbox_env }
    }

    /// Takes what the header addresses, or compares it with the address that was taken before: that one
    /// chooses the reading which it agrees with. Says in which form.
    pub(crate) fn attempt(self, taken: &mut Option<Address>) -> (Form, Attempt) {
        let Self { id, agent_sandbox, sandbox_env } = self;
        match (agent_sandbox, sandbox_env) {
            (Ok(address), sandbox_env) => {
                let attempt = match taken {
                    None => {
                        let two = sandbox_env.is_ok();
                        *taken = Some(if two { address.or_as_sandbox_env() } else { address });
                        Attempt::Addressed
                    }
                    Some(earlier) if earlier.agrees_with(&address) => Attempt::Addressed,
                    Some(earlier)
                        if sandbox_env
                            .is_ok_and(|port| earlier.names(Form::SandboxEnvHeader, id, port.into())) =>
                    {
                        Attempt::Addressed
                    }
                    Some(earlier) => Attempt::Conflicting(earlier.form()),
                };
                (Form::AgentSandboxHeader, attempt)
            }
            (Err(_), Ok(port)) => {
                (Form::SandboxEnvHeader, offer(taken, Form::SandboxEnvHeader, id, Ok(port.into()), 0, None))
            }
            (Err(NoReading::Malformed(part)), Err(_)) => (Form::AgentSandboxHeader, Attempt::Malformed(part)),
            (Err(_), Err(NoReading::Malformed(part))) => (Form::SandboxEnvHeader, Attempt::Malformed(part)),
            (Err(NoReading::Absent(Absence::Off)), Err(NoReading::Absent(absence))) => {
                (Form::SandboxEnvHeader, Attempt::Absent(absence))
            }
            (Err(NoReading::Absent(absence)), Err(_)) => (Form::AgentSandboxHeader, Attempt::Absent(absence)),
        }
    }

    /// Each reading as an address, for [`explain`](crate::explain()).
    pub(crate) fn addresses(self) -> [Result<Address, NoReading>; 2] {
        let Self { id, agent_sandbox, sandbox_env } = self;
        let as_address = |port: u16| Address::of_valid(id, Form::SandboxEnvHeader, port.into(), 0);
        [agent_sandbox, sandbox_env.map(as_address)]
    }
}

fn is_empty(value: Option<&[u8]>) -> bool {
    value.is_none_or(<[u8]>::is_empty)
}
