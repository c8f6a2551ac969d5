//! The HTTP filter: one request on one worker.
//!
//! `on_request_headers` reads the address, looks the sandbox up in the shared table (lock-free, nothing
//! allocated), and either answers on the spot or lets the request through to the sandbox's host; see
//! [`cluster`] for what a host is. A request whose host is not there yet is held; when the
//! filter is told of it, everything is decided again. Bodies and upgrades never pass through the module.
//!
//! On the way back the filter puts the reason in the place of answers that Envoy gives itself because the
//! sandbox could not be reached, and takes out of a sandbox's answer what is not a sandbox's to say: see
//! [`response`]. A request that ends with its sandbox is answered here as well, in `on_scheduled`.
//!
//! `x-envoy-original-dst-host` and the module's own header are removed from every request before anything
//! else, addressed or not. Where the request goes travels as filter state, which no client can set.

use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use envoy_proxy_dynamic_modules_rust_sdk::abi::{
    envoy_dynamic_module_type_http_filter_stream_reset_reason as ResetReason,
    envoy_dynamic_module_type_on_http_filter_local_reply_status as LocalReplyStatus,
    envoy_dynamic_module_type_on_http_filter_request_headers_status as HeadersStatus,
    envoy_dynamic_module_type_on_http_filter_response_headers_status as ResponseHeadersStatus,
};
use envoy_proxy_dynamic_modules_rust_sdk::{
    EnvoyBuffer, EnvoyHttpFilter, EnvoyHttpFilterConfig, HttpFilter, HttpFilterConfig, envoy_log_error,
    report_panic,
};
use sandgate_request::{Address, FilterConfig, Headers, Refusal, Trouble, preferred_media, reply};

use sandgate_watch::Gateway;

use crate::bootstrap;
use crate::cluster::{self, Token, Wakeup};

mod forward;
mod response;
mod stats;

use forward::Outcome;
use response::Judgement;
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
    let config = match FilterConfig::parse(config) {
        Ok(config) => config,
        Err(error) => {
            envoy_log_error!("sandgate: filter config: {error}");
            return None;
        }
    };
    let stats = match Stats::define(envoy) {
        Ok(stats) => stats,
        Err(error) => {
            envoy_log_error!("sandgate: {error}");
            return None;
        }
    };
    let limits = cluster::Limits::new(
        config.requests_per_sandbox(),
        config.connections_per_sandbox(),
        config.percent_per_client(),
    );
    Some(Box::new(SharedConfig(Arc::new(Shared { gateway, config, limits, stats }))))
}

struct SharedConfig(Arc<Shared>);

/// What all requests of one filter config share.
struct Shared {
    gateway: &'static Gateway,
    config: FilterConfig,
    limits: cluster::Limits,
    stats: Stats,
}

impl<EHF: EnvoyHttpFilter> HttpFilterConfig<EHF> for SharedConfig {
    fn new_http_filter(&self, _: &mut EHF) -> Box<dyn HttpFilter<EHF>> {
        Box::new(Filter {
            shared: Arc::clone(&self.0),
            address: OnceCell::new(),
            stream: Cell::new(None),
            waiting_since: Cell::new(None),
            held: Cell::new(false),
            answered: Cell::new(false),
            local: Cell::new(false),
            trouble: Cell::new(None),
        })
    }
}

struct Filter {
    shared: Arc<Shared>,
    /// What the request addresses, as the client wrote it: the request is changed on its way, and its headers
    /// may then read as another address.
    address: OnceCell<Address>,
    /// The request's entry among those in flight, from when it is let through until it is over.
    stream: Cell<Option<Token>>,
    /// When the request was first held.
    waiting_since: Cell<Option<Instant>>,
    /// Whether it is held now.
    held: Cell<bool>,
    /// Whether the client has got the beginning of an answer, or is about to.
    answered: Cell<bool>,
    /// Whether the answer is Envoy's own, or that of another filter.
    local: Cell<bool>,
    /// Why Envoy could not reach the sandbox, between its learning so and its answer.
    trouble: Cell<Option<Trouble>>,
}

impl<EHF: EnvoyHttpFilter> HttpFilter<EHF> for Filter {
    fn on_request_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> HeadersStatus {
        match self.decide(envoy) {
            Outcome::GoOn => HeadersStatus::Continue,
            Outcome::Answered => HeadersStatus::StopIteration,
            Outcome::Held => HeadersStatus::StopAllIterationAndWatermark,
        }
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
        _: &mut EHF,
        _status: u32,
        details: EnvoyBuffer<'_>,
        _reset_imminent: bool,
    ) -> LocalReplyStatus {
        self.local.set(true);
        if !self.answered.get() && self.stream.get().is_some() {
            self.trouble.set(response::classify(details.as_slice()));
        }
        LocalReplyStatus::Continue
    }

    fn on_response_headers(&self, envoy: &mut EHF, _end_of_stream: bool) -> ResponseHeadersStatus {
        self.answered.set(true);
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
        if self.answered.replace(true) {
            self.shared.stats.refused(envoy, Refusal::Upstream(Trouble::Gone));
            envoy.reset_stream(ResetReason::LocalReset, Refusal::Upstream(Trouble::Gone).details());
        } else {
            self.refuse(envoy, Refusal::Upstream(Trouble::Gone));
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
