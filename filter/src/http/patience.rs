//! How long Envoy's router is to wait on behalf of a request, and how often it is to try.
//!
//! The module says so in headers of the request, which the router reads and takes out again. A client's own
//! are dropped at the edge.

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyBuffer, EnvoyHttpFilter};
use sandgate_request::{Address, Dialect, FilterConfig, Patience};

#[cfg(test)]
mod tests;

/// How long a client of agent-sandbox waits, in seconds.
const TIMEOUT: &str = "x-sandbox-timeout";

/// What is waited for on behalf of the request. Of an upgrade nothing: it has no end.
pub(super) fn patience<EHF: EnvoyHttpFilter>(
    envoy: &EHF,
    address: &Address,
    config: &FilterConfig,
) -> Patience {
    let asked = (address.dialect() == Dialect::AgentSandbox)
        .then(|| envoy.get_request_header_value(TIMEOUT))
        .flatten();
    let patience = config.patience(address.dialect(), asked.as_ref().map(EnvoyBuffer::as_slice));
    // Envoy takes this header from every request that is no upgrade.
    if patience != Patience::default() && envoy.get_request_header_value("upgrade").is_some() {
        return Patience::default();
    }
    patience
}

/// Tells Envoy's router, which takes these headers out again, how long to wait, and to go on trying where the
/// load balancer says when it is enough.
pub(super) fn tell_router<EHF: EnvoyHttpFilter>(envoy: &mut EHF, patience: Patience, goes_on: bool) {
    if let Some(time) = patience.request {
        envoy.set_request_header("x-envoy-upstream-rq-timeout-ms", Decimal::of(time).as_bytes());
    }
    if let Some(time) = patience.response_headers {
        // Envoy's time for one try ends where the answer begins.
        envoy.set_request_header("x-envoy-upstream-rq-per-try-timeout-ms", Decimal::of(time).as_bytes());
    }
    if goes_on {
        envoy.set_request_header("x-envoy-retry-on", b"connect-failure");
        envoy.set_request_header("x-envoy-max-retries", b"1000000");
    }
}

/// A number in decimal, without an allocation.
struct Decimal {
    digits: [u8; 10],
    first: usize,
}

impl Decimal {
    fn of(mut number: u32) -> Self {
        let mut decimal = Self { digits: [b'0'; 10], first: 10 };
        for (place, digit) in decimal.digits.iter_mut().enumerate().rev() {
            *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
            decimal.first = place;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        decimal
    }

    fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.first..).unwrap_or_default()
    }
}
