//! One plain counter for each outcome: a labelled counter costs twenty times as much on the request path.

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyCounterId, EnvoyHttpFilter, EnvoyHttpFilterConfig};
use sandgate_request::{Refusal, Trouble};

use crate::UndefinedMetric;

#[derive(Clone)]
pub(super) struct Stats {
    forwarded: EnvoyCounterId,
    passed: EnvoyCounterId,
    held: EnvoyCounterId,
    refused: [EnvoyCounterId; REFUSED.len()],
}

/// Counter names of refusals, by [`slot`].
const REFUSED: [&str; 44] = [
    "rq_malformed",
    "rq_unaddressed",
    "rq_not_ready",
    "rq_not_found",
    "rq_ambiguous",
    "rq_not_running",
    "rq_unauthorized",
    "rq_jwt_verifier_not_ready",
    "rq_internal_error",
    "rq_sandbox_gone",
    "rq_port_closed",
    "rq_connect_timeout",
    "rq_connect_failed",
    "rq_too_many_ports",
    "rq_too_many_requests",
    "rq_too_many_connections",
    "rq_wait_timeout",
    "rq_no_sandbox_cluster",
    "rq_bad_status",
    "rq_routing_loop",
    "rq_client_too_many_requests",
    "rq_client_too_many_connections",
    "rq_client_too_many_ports",
    "rq_too_many_hosts",
    "rq_too_many_held",
    "rq_conflicting_address",
    "rq_ambiguous_address",
    "rq_method_not_allowed",
    "rq_port_not_allowed",
    "rq_forbidden",
    "rq_traffic_token_invalid",
    "rq_signature_expired",
    "rq_route_keys_missing",
    "rq_too_many_failures",
    "rq_caller_unauthorized",
    "rq_caller_forbidden",
    "rq_token_review_failed",
    "rq_auth_busy",
    "rq_token_required",
    "rq_pod_ip_mismatch",
    "rq_rate_limited",
    "rq_response_timeout",
    "rq_request_too_large",
    "rq_headers_too_large",
];

fn slot(refusal: Refusal) -> usize {
    match refusal {
        Refusal::Malformed { .. } => 0,
        Refusal::Unaddressed => 1,
        Refusal::NotReady => 2,
        Refusal::Unknown => 3,
        Refusal::Ambiguous => 4,
        Refusal::NotRunning(_) => 5,
        Refusal::Unauthorized { .. } => 6,
        Refusal::JwtVerifierNotReady => 7,
        Refusal::Panic => 8,
        Refusal::Conflicting { .. } => 25,
        Refusal::TwoReadings => 26,
        Refusal::Method => 27,
        Refusal::PortNotAllowed => 28,
        Refusal::Forbidden => 29,
        Refusal::TrafficToken => 30,
        Refusal::SignatureExpired => 31,
        Refusal::RouteKeysMissing => 32,
        Refusal::TooManyFailures { .. } => 33,
        Refusal::CallerUnknown => 34,
        Refusal::CallerForbidden => 35,
        Refusal::ReviewFailed => 36,
        Refusal::AuthBusy => 37,
        Refusal::TokenRequired => 38,
        Refusal::OtherPodIp => 39,
        Refusal::RateLimited { .. } => 40,
        Refusal::RequestTooLarge { .. } => 42,
        Refusal::HeadersTooLarge { .. } => 43,
        Refusal::Upstream(trouble) => match trouble {
            Trouble::Gone => 9,
            Trouble::PortClosed => 10,
            Trouble::ConnectTimeout => 11,
            Trouble::ConnectFailed => 12,
            Trouble::TooManyPorts => 13,
            Trouble::TooManyRequests => 14,
            Trouble::TooManyConnections => 15,
            Trouble::NotAddedInTime => 16,
            Trouble::NoCluster => 17,
            Trouble::BadStatus => 18,
            Trouble::Loop => 19,
            Trouble::ClientTooManyRequests => 20,
            Trouble::ClientTooManyConnections => 21,
            Trouble::ClientTooManyPorts => 22,
            Trouble::TooManyHosts => 23,
            Trouble::TooManyHeld => 24,
            Trouble::ResponseTimeout => 41,
        },
    }
}

impl Stats {
    pub(super) fn define<EC: EnvoyHttpFilterConfig>(envoy: &mut EC) -> Result<Self, UndefinedMetric> {
        let mut counter = |name| envoy.define_counter(name).map_err(|_| UndefinedMetric(name));
        let mut refused = [EnvoyCounterId(0); REFUSED.len()];
        for (id, name) in refused.iter_mut().zip(REFUSED) {
            *id = counter(name)?;
        }
        Ok(Self {
            forwarded: counter("rq_forwarded")?,
            passed: counter("rq_passed")?,
            held: counter("rq_held")?,
            refused,
        })
    }

    pub(super) fn forwarded<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) {
        bump(envoy, self.forwarded);
    }

    pub(super) fn passed<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) {
        bump(envoy, self.passed);
    }

    pub(super) fn held<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) {
        bump(envoy, self.held);
    }

    pub(super) fn refused<EHF: EnvoyHttpFilter>(&self, envoy: &EHF, refusal: Refusal) {
        bump(envoy, self.refused[slot(refusal)]);
    }
}

fn bump<EHF: EnvoyHttpFilter>(envoy: &EHF, counter: EnvoyCounterId) {
    // The only failure is an unknown id, and ids come from `define`.
    let _ = envoy.increment_counter(counter, 1);
}
