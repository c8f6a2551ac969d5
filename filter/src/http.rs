//! The HTTP filter: one request on one worker.
//!
//! `on_request_headers` is the whole of it. It reads the address, looks the sandbox up in the shared table
//! (lock-free, nothing allocated), and either names the upstream for the ORIGINAL_DST cluster or answers on
//! the spot. Bodies, responses and upgrades never pass through the module.
//!
//! The upstream travels as typed filter state, which no client can set; `x-envoy-original-dst-host` and the
//! module's own header are removed from every request before anything else, addressed or not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use envoy_proxy_dynamic_modules_rust_sdk::abi::envoy_dynamic_module_type_on_http_filter_request_headers_status as HeadersStatus;
use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyHttpFilter, EnvoyHttpFilterConfig, HttpFilter, HttpFilterConfig, envoy_log_error,
};
use sandgate_request::{
    Address, Decision, FilterConfig, Headers, Recognition, Refusal, Unaddressed, decide, preferred_media,
    recognise, reply,
};
use sandgate_routes::Route;

use crate::gateway::{self, Gateway};

mod stats;

use stats::Stats;

/// Where ORIGINAL_DST looks first for the address to connect to.
const UPSTREAM_ADDRESS: &[u8] = b"envoy.network.transport_socket.original_dst_address";
/// Set on routed requests when `clear-route-cache` is on, so that Envoy's routes can match on it.
const ROUTED: (&str, &[u8]) = ("x-sandgate-route", b"sandbox");
/// Headers that mean something to Envoy or to us and are never a client's to send.
const INTERNAL: [&str; 2] = ["x-envoy-original-dst-host", ROUTED.0];

/// Creates the filter's config. A config that cannot be served is explained in Envoy's log and refused.
pub(crate) fn new_config<EC: EnvoyHttpFilterConfig, EHF: EnvoyHttpFilter>(
    envoy: &mut EC,
    _name: &str,
    config: &[u8],
) -> Option<Box<dyn HttpFilterConfig<EHF>>> {
    let Some(gateway) = gateway::current() else {
        envoy_log_error!(
            "sandgate: the HTTP filter needs the bootstrap extension envoy.bootstrap.dynamic_modules with \
             extension_name sandgate: it holds the route table"
        );
        return None;
    };
    let config = match FilterConfig::parse(config) {
        Ok(config) => config,
        Err(error) => {
            envoy_log_error!("sandgate: {error}");
            return None;
        }
    };
    let stats = match Stats::define(envoy) {
        Ok(stats) => stats,
        Err(name) => {
            envoy_log_error!("sandgate: cannot define the counter {name}");
            return None;
        }
    };
    Some(Box::new(SharedConfig(Arc::new(Shared { gateway, config, stats }))))
}

struct SharedConfig(Arc<Shared>);

/// What all requests of one filter config share.
struct Shared {
    gateway: &'static Gateway,
    config: FilterConfig,
    stats: Stats,
}

impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for SharedConfig {
    fn new_http_filter(&self, _: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
        Box::new(Filter(Arc::clone(&self.0)))
    }
}

struct Filter(Arc<Shared>);

impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Filter {
    fn on_request_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> HeadersStatus {
        // A panic that left the hook would end the whole proxy; this request alone fails, closed.
        match catch_unwind(AssertUnwindSafe(|| self.0.route(envoy))) {
            Ok(status) => status,
            Err(_) => {
                self.0.gateway.panics.fetch_add(1, Ordering::Relaxed);
                self.0.refuse(envoy, Refusal::Panic, None)
            }
        }
    }
}

impl Shared {
    fn route<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF) -> HeadersStatus {
        // Envoy has chosen a route before this hook: if by a header that is the client's, it must choose again.
        let misled = self.config.clear_route_cache() && envoy.get_request_header_value(ROUTED.0).is_some();
        for name in INTERNAL {
            envoy.remove_request_header(name);
        }
        #[cfg(feature = "failpoints")]
        assert!(
            envoy.get_request_header_value("x-sandgate-failpoint").is_none(),
            "failpoint: panic in the request hook"
        );
        let address = match recognise(&RequestHeaders(envoy), &self.config) {
            Recognition::Addressed(address) => address,
            Recognition::Unaddressed if self.config.unaddressed() == Unaddressed::Pass => {
                if misled {
                    envoy.clear_route_cache();
                }
                self.stats.passed(envoy);
                return HeadersStatus::Continue;
            }
            Recognition::Unaddressed => return self.refuse(envoy, Refusal::Unaddressed, None),
            Recognition::Malformed { form, part } => {
                return self.refuse(envoy, Refusal::Malformed { form, part }, None);
            }
        };
        let reader = &self.gateway.reader;
        let ready = reader.is_ready();
        let table = reader.pin();
        match decide(&address, &table, ready, &RequestHeaders(envoy), &self.config) {
            Decision::Forward(route) => self.forward(envoy, &address, route),
            Decision::Refuse(refusal) => self.refuse(envoy, refusal, Some(&address)),
        }
    }

    fn forward<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        address: &Address,
        route: &Route,
    ) -> HeadersStatus {
        let upstream = route.authority(address.port());
        if !envoy.set_filter_state_typed(UPSTREAM_ADDRESS, upstream.as_bytes()) {
            envoy_log_error!("sandgate: Envoy did not take the upstream address");
            return self.refuse(envoy, Refusal::Panic, Some(address));
        }
        if address.rewrites_path() {
            rewrite_path(envoy, address);
        }
        envoy.set_request_header("x-sandbox-id", route.id().as_bytes());
        envoy.set_request_header("x-sandbox-uid", route.uid().as_bytes());
        if self.config.clear_route_cache() {
            envoy.set_request_header(ROUTED.0, ROUTED.1);
            envoy.clear_route_cache();
        }
        self.stats.forwarded(envoy);
        HeadersStatus::Continue
    }

    fn refuse<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        refusal: Refusal,
        address: Option<&Address>,
    ) -> HeadersStatus {
        self.stats.refused(envoy, refusal);
        let reply = reply(refusal, address, preferred_media(&RequestHeaders(envoy)));
        let headers: Vec<(&str, &[u8])> =
            reply.headers().map(|(name, value)| (name, value.as_bytes())).collect();
        envoy.send_response(reply.status, &headers, Some(reply.body.as_bytes()), Some(reply.details));
        HeadersStatus::StopIteration
    }
}

/// Envoy's headers are borrowed from it, and setting one ends the borrow: the new path is copied first.
fn rewrite_path<EHF: EnvoyHttpFilter>(envoy: &mut EHF, address: &Address) {
    let rewritten = RequestHeaders(envoy)
        .with(":path", |path| path.and_then(|path| address.rewrite(path)).map(|path| path.into_owned()));
    if let Some(path) = rewritten {
        envoy.set_request_header(":path", &path);
    }
}

/// The request's headers, as the address and the decision read them.
struct RequestHeaders<'a, EHF>(&'a EHF);

impl<EHF: EnvoyHttpFilter> Headers for RequestHeaders<'_, EHF> {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let value = self.0.get_request_header_value(name);
        f(value.as_ref().map(|value| value.as_slice()))
    }
}
