//! From a request to its host: address, route, host, limits.

use std::sync::{Arc, Once};
use std::time::Instant;

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyHttpFilter, envoy_log_error};
use sandgate_request::{
    Address, Decision, Headers as _, Recognition, Refusal, Trouble, Unaddressed, Upstream, decide, recognise,
};
use sandgate_routes::Route;

use super::{Filter, RequestHeaders};
use crate::cluster::{self, Exceeded, Found, Host, Key, Pick, Socket, Waker, Want};

/// Where ORIGINAL_DST looks first for the address to connect to.
const ORIGINAL_DST: &[u8] = b"envoy.network.transport_socket.original_dst_address";
const SANDBOX_UID: &str = "x-sandbox-uid";
/// Set on routed requests when `clear-route-cache` is on, so that Envoy's routes can match on it.
const ROUTED: (&str, &[u8]) = ("x-sandgate-route", b"sandbox");
/// Headers that mean something to Envoy or to us and are never a client's to send.
const INTERNAL: [&str; 2] = ["x-envoy-original-dst-host", ROUTED.0];

/// What became of a request.
pub(super) enum Outcome {
    /// It goes on.
    GoOn,
    /// It has its answer.
    Answered,
    /// It waits for its host.
    Held,
}

impl Filter {
    /// Decides about the request, as the table and the hosts are now. Run again for a request that was held.
    pub(super) fn route<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF) -> Outcome {
        let shared = &*self.shared;
        // Envoy has chosen a route before this hook: if by a header that is the client's, it must choose again.
        let misled = shared.config.clear_route_cache() && envoy.get_request_header_value(ROUTED.0).is_some();
        for name in INTERNAL {
            // Nearly nobody sends one, and looking is cheaper than removing.
            if envoy.get_request_header_value(name).is_some() {
                envoy.remove_request_header(name);
            }
        }
        #[cfg(feature = "failpoints")]
        assert!(
            envoy.get_request_header_value("x-sandgate-failpoint").is_none(),
            "failpoint: panic in the request hook"
        );
        let address = match self.address.get() {
            Some(address) => address,
            None => match recognise(&RequestHeaders(envoy), &shared.config) {
                Recognition::Addressed(address) => self.address.get_or_init(|| address),
                Recognition::Unaddressed if shared.config.unaddressed() == Unaddressed::Pass => {
                    if misled {
                        envoy.clear_route_cache();
                    }
                    shared.stats.passed(envoy);
                    return Outcome::GoOn;
                }
                Recognition::Unaddressed => return self.answer(envoy, Refusal::Unaddressed, None),
                Recognition::Malformed { form, part } => {
                    return self.answer(envoy, Refusal::Malformed { form, part }, None);
                }
            },
        };
        let reader = &shared.gateway.reader;
        let ready = reader.is_ready();
        let table = reader.pin();
        let route = match decide(address, &table, ready, &RequestHeaders(envoy), &shared.config) {
            Decision::Forward(route) => route,
            Decision::Refuse(refusal) => return self.answer(envoy, refusal, Some(address)),
        };
        if shared.config.clear_route_cache() {
            envoy.set_request_header(ROUTED.0, ROUTED.1);
            envoy.clear_route_cache();
        }
        match shared.config.upstream() {
            Upstream::Cluster => self.to_host(envoy, address, route),
            Upstream::OriginalDst => self.to_address(envoy, address, route),
        }
    }

    /// By Sandgate's own cluster.
    fn to_host<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, address: &Address, route: &Route) -> Outcome {
        // A running route has an address: `decide` refuses one without.
        let Some(ip) = route.ip() else { return self.answer(envoy, Refusal::Panic, Some(address)) };
        let key = Key::new(ip, address.port());
        let found = match envoy.get_cluster_name() {
            Some(name) => cluster::find(name.as_slice(), key, route.identity()),
            None => Found::NoCluster,
        };
        match found {
            Found::Host { host, pick, alone } => self.admit(envoy, address, route, (host, pick), alone),
            Found::Missing(of) => self.hold(envoy, route, key, &of),
            Found::NoCluster => {
                // Once is enough: the counter has the number.
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    envoy_log_error!("sandgate: Envoy's route leads to a cluster that is not Sandgate's");
                });
                self.answer(envoy, Refusal::Upstream(Trouble::NoCluster), Some(address))
            }
        }
    }

    /// Counts the request in and leaves its token for the load balancer.
    fn admit<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        address: &Address,
        route: &Route,
        (host, pick): (Arc<Host>, Pick),
        alone: bool,
    ) -> Outcome {
        let config = &self.shared.config;
        let limits = (config.requests_per_sandbox(), config.connections_per_sandbox());
        if let Err(exceeded) = host.usage().enter(alone, limits.0, limits.1) {
            let trouble = match exceeded {
                Exceeded::Requests => Trouble::TooManyRequests,
                Exceeded::Connections => Trouble::TooManyConnections,
            };
            return self.answer(envoy, Refusal::Upstream(trouble), Some(address));
        }
        let token = cluster::enter(host, pick, alone, Box::new(envoy.new_scheduler()));
        self.stream.set(Some(token));
        if !envoy.set_filter_state_bytes(cluster::TARGET, &token.to_bytes()) {
            envoy_log_error!("sandgate: Envoy did not take the request's target");
            return self.answer(envoy, Refusal::Panic, Some(address));
        }
        self.go_on(envoy, address, route)
    }

    /// Holds the request until its host is there.
    fn hold<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        route: &Route,
        key: Key,
        cluster: &cluster::Shared,
    ) -> Outcome {
        let since = self.waiting_since.get().unwrap_or_else(Instant::now);
        self.waiting_since.set(Some(since));
        self.held.set(true);
        let object = route.key();
        let rule = cluster.config().tls(object.provider(), key.port());
        let socket = rule.map_or_else(Socket::default, |rule| Socket {
            tls: Some(rule.socket().to_owned()),
            server_name: rule.server_name(
                route.id(),
                object.namespace(),
                object.name(),
                route.uid().as_str(),
            ),
        });
        cluster.want(Want {
            key,
            identity: route.identity(),
            id: route.id().into(),
            socket,
            since,
            waker: Waker::new(Box::new(envoy.new_scheduler())),
        });
        self.shared.stats.held(envoy);
        Outcome::Held
    }

    /// By a cluster of Envoy's type ORIGINAL_DST.
    fn to_address<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, address: &Address, route: &Route) -> Outcome {
        let upstream = route.authority(address.port());
        if !envoy.set_filter_state_typed(ORIGINAL_DST, upstream.as_bytes()) {
            envoy_log_error!("sandgate: Envoy did not take the upstream address");
            return self.answer(envoy, Refusal::Panic, Some(address));
        }
        self.go_on(envoy, address, route)
    }

    fn go_on<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, address: &Address, route: &Route) -> Outcome {
        if address.rewrites_path() {
            rewrite_path(envoy, address);
        }
        // Asked before the first change, so that Envoy's headers are read once.
        let sent =
            [cluster::SANDBOX_ID, SANDBOX_UID].map(|name| envoy.get_request_header_value(name).is_some());
        put(envoy, cluster::SANDBOX_ID, route.id_bytes(), sent[0]);
        put(envoy, SANDBOX_UID, route.uid().as_bytes(), sent[1]);
        self.shared.stats.forwarded(envoy);
        Outcome::GoOn
    }
}

/// Sets a header. Where the client has sent none there is nothing to replace, and adding costs Envoy less.
fn put<EHF: EnvoyHttpFilter>(envoy: &mut EHF, name: &str, value: &[u8], sent: bool) {
    if sent {
        envoy.set_request_header(name, value);
    } else {
        envoy.add_request_header(name, value);
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
