//! The HTTP filter: one request on one worker.
//!
//! `on_request_headers` reads the address, looks the sandbox up in the shared table (lock-free, nothing
//! allocated), and either answers on the spot or lets the request through to the sandbox's host; see
//! [`cluster`] for what a host is. A request whose host is not there yet is held; when the
//! filter is told of it, everything is decided again. Of a request's body the module sees only how large it
//! is, and only where the config limits it: see [`sizes`].
//!
//! A route can have a config of its own, merged over the filter's: see [`route_config`].
//!
//! On the way back the filter puts the reason in the place of answers that Envoy gives itself because the
//! sandbox could not be reached, and takes out of a sandbox's answer what is not a sandbox's to say: see
//! [`response`]. A request that ends with its sandbox is answered here as well, in `on_scheduled`.
//!
//! `x-envoy-original-dst-host` and the module's own header are removed from every request before anything
//! else, addressed or not. Where the request goes travels as filter state, which no client can set.

use std::cell::{Cell, OnceCell};
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_attribute_id as AttributeId,
    envoy_dynamic_module_type_http_filter_stream_reset_reason as ResetReason,
    envoy_dynamic_module_type_on_http_filter_local_reply_status as LocalReplyStatus,
    envoy_dynamic_module_type_on_http_filter_request_body_status as BodyStatus,
    envoy_dynamic_module_type_on_http_filter_request_headers_status as HeadersStatus,
    envoy_dynamic_module_type_on_http_filter_response_headers_status as ResponseHeadersStatus,
};
use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyBuffer, EnvoyHttpFilter, EnvoyHttpFilterConfig, HttpFilter, HttpFilterConfig, envoy_log_error,
    report_panic,
};
use sandgate_request::{Address, FilterConfig, Headers, Refusal, Trouble, Wait, preferred_media, reply};

use sandgate_watch::Gateway;

use crate::bootstrap;
use crate::cluster::{self, Token, Wakeup};

mod door;
mod forward;
mod patience;
mod required;
mod response;
mod route_config;
mod secrets;
mod sizes;
mod stats;
mod upstream;

use forward::Outcome;
use response::Judgement;
pub(crate) use route_config::new_route_config;
use secrets::Secrets;
use stats::Stats;

/// Creates the filter's config. A config that cannot be served is explained in Envoy's log and refused.
pub(crate) fn new_config<EC: EnvoyHttpFilterConfig, EHF: EnvoyHttpFilter>(
    envoy: &mut EC,
    _name: &str,
    config: &[u8],
) -> Option<Box<dyn HttpFilterConfig<EHF>>> {
    let Some(gateway) = bootstrap::gateway() else {
        envoy_log_error!(
            "sandgate: the HTTP filter needs the bootstrap extension envoy.bootstrap.dynamic_modules with \
             extension_name sandgate: it holds the route table"
        );
        return None;
    };
    let source = config;
    let config = match FilterConfig::parse(source) {
        Ok(config) => config,
        Err(error) => {
            envoy_log_error!("sandgate: filter config: {error}");
            return None;
        }
    };
    if let Err(error) = required::check(&config, gateway) {
        envoy_log_error!("sandgate: filter config: {error}");
        return None;
    }
    let stats = match Stats::define(envoy) {
        Ok(stats) => stats,
        Err(error) => {
            envoy_log_error!("sandgate: {error}");
            return None;
        }
    };
    let secrets = match Secrets::subscribe(envoy, config.secrets()) {
        Ok(secrets) => Arc::new(secrets),
        Err(error) => {
            envoy_log_error!("sandgate: filter config: {error}");
            return None;
        }
    };
    let limits = limits(&config);
    let rate = config.rate_per_sandbox().map(cluster::Rate::new);
    let shared = Shared { gateway, source: source.into(), config, limits, rate, stats, secrets };
    Some(Box::new(SharedConfig(Arc::new(shared))))
}

fn limits(config: &FilterConfig) -> cluster::Limits {
    cluster::Limits::new(
        config.requests_per_sandbox(),
        config.connections_per_sandbox(),
        config.percent_per_client(),
    )
}

struct SharedConfig(Arc<Shared>);

/// What all requests of one filter config share, or those of one route with a config of its own.
struct Shared {
    gateway: &'static Gateway,
    /// The filter's config as Envoy passed it: those of routes are merged over it.
    source: Box<[u8]>,
    config: FilterConfig,
    limits: cluster::Limits,
    rate: Option<cluster::Rate>,
    stats: Stats,
    secrets: Arc<Secrets>,
}

/// What a request has of it: the filter's, or that of its route once it is known.
struct Chosen {
    filter: Arc<Shared>,
    route: OnceCell<Arc<Shared>>,
}

impl Deref for Chosen {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        self.route.get().unwrap_or(&self.filter)
    }
}

impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for SharedConfig {
    fn new_http_filter(&self, _: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
        Box::new(Filter {
            shared: Chosen { filter: Arc::clone(&self.0), route: OnceCell::new() },
            address: OnceCell::new(),
            stream: Cell::new(None),
            waiting_since: Cell::new(None),
            paced: Cell::new(false),
            held: Cell::new(false),
            waited_for: Cell::new(None),
            answered: Cell::new(false),
            local: Cell::new(false),
            trouble: Cell::new(None),
            room: Cell::new(None),
        })
    }
}

struct Filter {
    shared: Chosen,
    /// What the request addresses, as the client wrote it: the request is changed on its way, and its headers
    /// may then read as another address.
    address: OnceCell<Address>,
    /// The request's entry among those in flight, from when it is let through until it is over.
    stream: Cell<Option<Token>>,
    /// When the request was first held.
    waiting_since: Cell<Option<Instant>>,
    /// Whether it was taken out of what its sandbox gets in a second.
    paced: Cell<bool>,
    /// Whether it is held now.
    held: Cell<bool>,
    /// For what it has waited to be decided.
    waited_for: Cell<Option<Wait>>,
    /// Whether the client has got the beginning of an answer, or is about to.
    answered: Cell<bool>,
    /// Whether the answer is Envoy's own, or that of another filter.
    local: Cell<bool>,
    /// Why Envoy could not reach the sandbox, between its learning so and its answer.
    trouble: Cell<Option<Trouble>>,
    /// How much larger the request's body may get; `None` if it is not counted.
    room: Cell<Option<u64>>,
}

impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Filter {
    fn on_request_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> HeadersStatus {
        let outcome = if self.shared.choose(envoy) {
            self.decide(envoy)
        } else {
            self.answer(envoy, Refusal::Panic, None)
        };
        match outcome {
            Outcome::GoOn => HeadersStatus::Continue,
            Outcome::Answered => HeadersStatus::StopIteration,
            Outcome::Held => HeadersStatus::StopAllIterationAndWatermark,
        }
    }

    fn on_request_body(&self, envoy: &mut EHF, _end_of_stream: bool) -> BodyStatus {
        if self.count_body(envoy) { BodyStatus::Continue } else { BodyStatus::StopIterationNoBuffer }
    }

    fn on_scheduled(&self, envoy: &mut EHF, event: u64) {
        if event == cluster::END {
            self.end(envoy);
        } else if let Some(wakeup) = Wakeup::from_event(event)
            && self.held.replace(false)
        {
            self.woken(envoy, wakeup);
        }
    }

    fn on_local_reply(
        &self,
        envoy: &mut EHF,
        status: u32,
        details: EnvoyBuffer<'_>,
        _reset_imminent: bool,
    ) -> LocalReplyStatus {
        self.local.set(true);
        if !self.answered.get()
            && let Some(token) = self.stream.get()
        {
            let last_failure = || envoy.get_attribute_string(AttributeId::UpstreamTransportFailureReason);
            let gave_up = cluster::has_given_up(token);
            self.trouble.set(response::classify(status, details.as_slice(), gave_up, last_failure));
        }
        LocalReplyStatus::Continue
    }

    fn on_response_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> ResponseHeadersStatus {
        self.answered.set(true);
        self.note_upgrade(envoy);
        let trouble = match self.trouble.take() {
            Some(trouble) => trouble,
            // Not a sandbox's answer.
            None if self.local.get() || self.address.get().is_none() => {
                return ResponseHeadersStatus::Continue;
            }
            None => match response::judge(envoy) {
                Judgement::Pass => return ResponseHeadersStatus::Continue,
                Judgement::Clean => {
                    response::clean(envoy);
                    return ResponseHeadersStatus::Continue;
                }
                Judgement::BadStatus => Trouble::BadStatus,
            },
        };
        if trouble == Trouble::PortClosed
            && let Some(token) = self.stream.get()
        {
            cluster::refuse(token);
        }
        // The answer has not left yet: ours takes its place.
        self.refuse(envoy, Refusal::Upstream(trouble));
        ResponseHeadersStatus::StopIteration
    }

    fn on_stream_complete(&self, _: &mut EHF) {
        self.leave();
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Filter {
    fn decide<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF) -> Outcome {
        // A panic that left the hook would end the whole proxy; this request alone fails, closed.
        match catch_unwind(AssertUnwindSafe(|| self.route(envoy))) {
            Ok(outcome) => outcome,
            Err(payload) => {
                report_panic("sandgate: a request", payload);
                self.shared.gateway.announce();
                self.answer(envoy, Refusal::Panic, None)
            }
        }
    }

    /// A request that was held is told why it was woken.
    fn woken<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, wakeup: Wakeup) {
        match wakeup {
            Wakeup::DecideAgain => {
                if let Outcome::GoOn = self.decide(envoy) {
                    envoy.continue_decoding();
                }
            }
            Wakeup::OverTheCap => self.refuse(envoy, Refusal::Upstream(Trouble::TooManyPorts)),
            Wakeup::TooLate => self.refuse(envoy, Refusal::Upstream(Trouble::NotAddedInTime)),
            Wakeup::OverTheShare => self.refuse(envoy, Refusal::Upstream(Trouble::ClientTooManyPorts)),
            Wakeup::NoRoom => self.refuse(envoy, Refusal::Upstream(Trouble::TooManyHosts)),
        }
    }

    /// The sandbox is gone, and its requests end with it.
    fn end<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF) {
        if self.stream.get().is_none() {
            return;
        }
        self.cut(envoy, Refusal::Upstream(Trouble::Gone));
    }

    /// Ends a request that is under way: with an answer, or without one if the client has the beginning of
    /// another.
    fn cut<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, refusal: Refusal) {
        if self.answered.replace(true) {
            self.shared.stats.refused(envoy, refusal);
            envoy.reset_stream(ResetReason::LocalReset, refusal.details());
        } else {
            self.refuse(envoy, refusal);
        }
    }

    fn leave(&self) {
        if let Some(token) = self.stream.take() {
            cluster::leave(token);
        }
    }

    /// Answers a request whose address has been read before.
    fn refuse<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, refusal: Refusal) {
        self.answer(envoy, refusal, self.address.get());
    }

    fn answer<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        refusal: Refusal,
        address: Option<&Address>,
    ) -> Outcome {
        self.answered.set(true);
        self.shared.stats.refused(envoy, refusal);
        let reply = reply(refusal, address, preferred_media(&RequestHeaders(envoy)));
        let headers: Vec<(&str, &[u8])> =
            reply.headers().map(|(name, value)| (name, value.as_bytes())).collect();
        envoy.send_response(reply.status, &headers, Some(reply.body.as_bytes()), Some(reply.details));
        Outcome::Answered
    }
}

/// The request's headers, as the address and the decision read them.
struct RequestHeaders<'a, EHF>(&'a EHF);

impl<EHF: EnvoyHttpFilter> Headers for RequestHeaders<'_, EHF> {
    fn with<R>(&self, name: &str, f: impl FnOnce(Option<&[u8]>) -> R) -> R {
        let value = self.0.get_request_header_value(name);
        f(value.as_ref().map(|value| value.as_slice()))
    }

    fn repeats(&self, name: &str) -> bool {
        self.0.is_request_header_repeated(name)
    }
}
