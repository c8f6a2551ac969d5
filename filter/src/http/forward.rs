//! From a request to its host: address, decision, host, limits.
//!
//! A sandbox whose address is one of the gateway's own would send a request in a circle, or to the admin
//! pages. Those addresses come from the config (`own-addresses`), from the receiver of pushes, and from the
//! connection that the request came in on. They are compared when a request's host is missing, so that a
//! request to a known host pays nothing; with ORIGINAL_DST nothing is known of hosts, and they are compared
//! for every request. What they cannot show, such as a Service in front of the gateway, is found one hop
//! later by the headers that every request to a sandbox carries.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use envoy_proxy_dynamic_modules_rust_sdk::abi::envoy_dynamic_module_type_attribute_id as AttributeId;
use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyHttpFilter, envoy_log_error};
use sandgate_auth::bearer_token;
use sandgate_request::{
    AUTHORIZATION, Address, Decision, Door as _, Headers as _, Health, Pass, Recognition, Refusal, Stop,
    Trouble, Unaddressed, Upstream, Wait, choose_reading, decide, has_refused_method, health_check,
    recognise,
};
use sandgate_routes::{Pinned, Route};

use super::door::{RequestDoor, Ticket};
use super::patience;
use super::upstream::{self, SANDBOX_UID};
use super::{Filter, RequestHeaders};
use crate::cluster::{self, Client, Endpoint, Exceeded, Found, Host, Opener, Pick, Socket, Waker, Want};

/// Where ORIGINAL_DST looks first for the address to connect to.
const ORIGINAL_DST: &[u8] = b"envoy.network.transport_socket.original_dst_address";
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
        // Envoy has chosen a route before this hook: if by a header that is the client's, it must choose
        // again.
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
        let reader = shared.gateway.reader();
        let address = match self.address.get() {
            Some(address) => address,
            None => match recognise(&RequestHeaders(envoy), &shared.config) {
                Recognition::Addressed(mut address) => {
                    if address.has_two_readings() {
                        let chosen = choose_reading(
                            &mut address,
                            &reader.pin(),
                            &RequestHeaders(envoy),
                            &shared.config,
                            &self.door(envoy),
                        );
                        match chosen {
                            Ok(()) => {}
                            Err(Stop::Wait(wait)) => return self.wait(envoy, wait, &address),
                            Err(Stop::Refuse(refusal)) => return self.answer(envoy, refusal, Some(&address)),
                        }
                    }
                    let address = self.address.get_or_init(|| address);
                    if let Err(refusal) = self.check_sizes(envoy) {
                        return self.answer(envoy, refusal, Some(address));
                    }
                    address
                }
                Recognition::Unaddressed
                    if let Some(health) = health_check(&RequestHeaders(envoy), &shared.config) =>
                {
                    return self.answer_health(envoy, health == Health::Live || reader.is_ready());
                }
                Recognition::Unaddressed if shared.config.unaddressed() == Unaddressed::Pass => {
                    if misled {
                        envoy.clear_route_cache();
                    }
                    shared.stats.passed(envoy);
                    return Outcome::GoOn;
                }
                Recognition::Unaddressed if has_refused_method(&RequestHeaders(envoy)) => {
                    return self.answer(envoy, Refusal::Method, None);
                }
                Recognition::Unaddressed => return self.answer(envoy, Refusal::Unaddressed, None),
                Recognition::Malformed { form, part } => {
                    return self.misaddressed(envoy, Refusal::Malformed { form, part });
                }
                Recognition::Conflicting { taken, other } => {
                    return self.misaddressed(envoy, Refusal::Conflicting { taken, other });
                }
            },
        };
        // A change is read, and a bad one told, whether or not this request asks for a key.
        if !shared.secrets.is_empty() {
            shared.secrets.keys(envoy);
        }
        let ready = reader.is_ready();
        let table = reader.pin();
        if has_passed(envoy, &table) {
            return self.answer(envoy, Refusal::Upstream(Trouble::Loop), Some(address));
        }
        let door = self.door(envoy);
        let pass = match decide(address, &table, ready, &RequestHeaders(envoy), &shared.config, &door) {
            Decision::Forward(pass) => pass,
            Decision::Wait(wait) => return self.wait(envoy, wait, address),
            Decision::Refuse(refusal) => return self.answer(envoy, refusal, Some(address)),
        };
        if shared.config.clear_route_cache() {
            envoy.set_request_header(ROUTED.0, ROUTED.1);
            envoy.clear_route_cache();
        }
        match shared.config.upstream() {
            Upstream::Cluster => self.to_host(envoy, address, pass),
            Upstream::OriginalDst => self.to_address(envoy, address, pass),
        }
    }

    /// Answers a health check, which is no request to a sandbox and counts as none.
    fn answer_health<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, good: bool) -> Outcome {
        self.answered.set(true);
        let headers: [(&str, &[u8]); 2] = [("content-type", b"text/plain"), ("cache-control", b"no-store")];
        let (status, body): (u32, &[u8]) = if good { (200, b"OK") } else { (503, b"not ready") };
        envoy.send_response(status, &headers, Some(body), Some("health_check"));
        Outcome::Answered
    }

    fn door<'a, EHF: EnvoyHttpFilter>(&'a self, envoy: &'a EHF) -> RequestDoor<'a, EHF> {
        RequestDoor { gateway: self.shared.gateway, secrets: &self.shared.secrets, envoy }
    }

    /// Holds the request until what it waits for has been asked for. If that did not help, it is refused: so
    /// it waits once for each thing.
    fn wait<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, wait: Wait, address: &Address) -> Outcome {
        let refusal = match wait {
            Wait::NewerKeys => Refusal::Forbidden,
            Wait::Review => Refusal::ReviewFailed,
        };
        if self.waited_for.replace(Some(wait)) == Some(wait) {
            return self.answer(envoy, refusal, Some(address));
        }
        let Some(keyring) = self.shared.gateway.keyring() else {
            return self.answer(envoy, refusal, Some(address));
        };
        let wake = Ticket::new(envoy.new_scheduler()).wake();
        let is_asked = match wait {
            Wait::NewerKeys => keyring.newer_keys(wake),
            Wait::Review => RequestHeaders(envoy).with(AUTHORIZATION, |value| {
                let token = value.and_then(bearer_token).unwrap_or_default();
                keyring.review(token, self.door(envoy).source(), wake)
            }),
        };
        if !is_asked {
            return self.answer(envoy, Refusal::AuthBusy, Some(address));
        }
        self.held.set(true);
        self.shared.stats.held(envoy);
        Outcome::Held
    }

    /// Refuses an address that is wrong. What a gateway adds to a request can make it so, and then it is a
    /// circle.
    fn misaddressed<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, refusal: Refusal) -> Outcome {
        let looped = has_passed(envoy, &self.shared.gateway.reader().pin());
        self.answer(envoy, if looped { Refusal::Upstream(Trouble::Loop) } else { refusal }, None)
    }

    /// By Sandgate's own cluster.
    fn to_host<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, address: &Address, pass: Pass<'_>) -> Outcome {
        let route = pass.route;
        // A running route has an address: `decide` refuses one without.
        let Some(ip) = route.ip() else { return self.answer(envoy, Refusal::Panic, Some(address)) };
        let endpoint = Endpoint::new(ip, address.port());
        let found = match envoy.get_cluster_name() {
            Some(name) => cluster::find(name.as_slice(), endpoint, route.identity()),
            None => Found::NoCluster,
        };
        if let Err(seconds) = self.pace(&found, route) {
            return self.answer(envoy, Refusal::RateLimited { seconds }, Some(address));
        }
        match found {
            Found::Host { host, pick, alone } => self.admit(envoy, address, pass, (host, pick), alone),
            Found::Missing(_) if self.is_own(envoy, endpoint.ip(), endpoint.port()) => {
                self.answer(envoy, Refusal::Upstream(Trouble::Loop), Some(address))
            }
            Found::Missing(of) => self.hold(envoy, route, endpoint, &of),
            Found::NoCluster => {
                // Once is enough: the counter has the number.
                static LOGGED: Once = Once::new();
                LOGGED.call_once(|| {
                    envoy_log_error!("sandgate: Envoy's route leads to a cluster that is not Sandgate's");
                });
                self.answer(envoy, Refusal::Upstream(Trouble::NoCluster), Some(address))
            }
        }
    }

    /// Takes the request out of what its sandbox gets in a second, or says in how many seconds there is one.
    /// One that was held has been taken before.
    fn pace(&self, found: &Found, route: &Route) -> Result<(), u32> {
        let Some(rate) = self.shared.rate.filter(|_| !self.paced.replace(true)) else {
            return Ok(());
        };
        match found {
            Found::Host { host, .. } => host.usage().take(rate),
            Found::Missing(of) => of.usages().of(route.identity(), route.id()).take(rate),
            Found::NoCluster => Ok(()),
        }
    }

    /// Counts the request in and leaves its token for the load balancer.
    fn admit<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        address: &Address,
        pass: Pass<'_>,
        (host, pick): (Arc<Host>, Pick),
        alone: bool,
    ) -> Outcome {
        let entered = match host.usage().enter(alone, &self.shared.limits, || client(envoy)) {
            Ok(entered) => entered,
            Err(exceeded) => {
                let trouble = match exceeded {
                    Exceeded::Requests => Trouble::TooManyRequests,
                    Exceeded::Connections => Trouble::TooManyConnections,
                    Exceeded::ClientRequests => Trouble::ClientTooManyRequests,
                    Exceeded::ClientConnections => Trouble::ClientTooManyConnections,
                };
                return self.answer(envoy, Refusal::Upstream(trouble), Some(address));
            }
        };
        let token = cluster::enter(host, pick, entered, Box::new(envoy.new_scheduler()));
        self.stream.set(Some(token));
        let window = self.shared.config.connect_window(address.dialect());
        if window > 0 {
            cluster::try_until(token, Instant::now() + Duration::from_millis(window.into()));
        }
        if !envoy.set_filter_state_bytes(cluster::TARGET, &token.to_bytes()) {
            envoy_log_error!("sandgate: Envoy did not take the request's target");
            return self.answer(envoy, Refusal::Panic, Some(address));
        }
        self.go_on(envoy, address, pass)
    }

    /// Holds the request until its host is there.
    fn hold<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        route: &Route,
        endpoint: Endpoint,
        cluster: &cluster::Shared,
    ) -> Outcome {
        let Some(held) = cluster.hold() else {
            return self.answer(envoy, Refusal::Upstream(Trouble::TooManyHeld), self.address.get());
        };
        let since = self.waiting_since.get().unwrap_or_else(Instant::now);
        self.waiting_since.set(Some(since));
        self.held.set(true);
        let object = route.key();
        let rule = cluster.config().tls(object.provider(), endpoint.port());
        let socket = rule.map_or_else(Socket::default, |rule| Socket {
            tls: Some(rule.socket().to_owned()),
            server_name: rule.server_name(
                route.id(),
                object.namespace(),
                object.name(),
                route.uid().as_str(),
            ),
        });
        let percent = self.shared.config.percent_per_client();
        let client = if percent < 100 { client(envoy) } else { None };
        let opener = client.map(|client| Opener { client, percent });
        cluster.want(Want {
            endpoint,
            identity: route.identity(),
            id: route.id().into(),
            socket,
            opener,
            since,
            waker: Waker::new(Box::new(envoy.new_scheduler()), held),
        });
        self.shared.stats.held(envoy);
        Outcome::Held
    }

    /// Whether the sandbox's address is one of the gateway's own.
    fn is_own<EHF: EnvoyHttpFilter>(&self, envoy: &EHF, ip: IpAddr, port: u16) -> bool {
        let gateway = self.shared.gateway;
        let here = envoy.get_attribute_string(AttributeId::DestinationAddress);
        let here = here.and_then(|text| std::str::from_utf8(text.as_slice()).ok()?.parse().ok());
        leads_to(SocketAddr::new(ip, port), gateway.own_addresses().chain(here))
    }

    /// By a cluster of Envoy's type ORIGINAL_DST.
    fn to_address<EHF: EnvoyHttpFilter>(
        &self,
        envoy: &mut EHF,
        address: &Address,
        pass: Pass<'_>,
    ) -> Outcome {
        let route = pass.route;
        if route.ip().is_some_and(|ip| self.is_own(envoy, ip, address.port())) {
            return self.answer(envoy, Refusal::Upstream(Trouble::Loop), Some(address));
        }
        let upstream = route.authority(address.port());
        if !envoy.set_filter_state_typed(ORIGINAL_DST, upstream.as_bytes()) {
            envoy_log_error!("sandgate: Envoy did not take the upstream address");
            return self.answer(envoy, Refusal::Panic, Some(address));
        }
        cluster::note_uncounted();
        self.go_on(envoy, address, pass)
    }

    fn go_on<EHF: EnvoyHttpFilter>(&self, envoy: &mut EHF, address: &Address, pass: Pass<'_>) -> Outcome {
        let config = &self.shared.config;
        // Read before the first change, so that Envoy's headers are read once.
        let patience = patience::patience(envoy, address, config);
        upstream::prepare(envoy, address, pass, config);
        patience::tell_router(envoy, patience, config.connect_window(address.dialect()) > 0);
        self.shared.stats.forwarded(envoy);
        Outcome::GoOn
    }
}

/// Whether the request has passed a gateway with this table. Every request that is let through carries the ID
/// and the UID of its sandbox. A client that sends the pair harms nobody but itself; so the header form of
/// sandbox-env, whose header is the one with the ID, cannot be sent with a UID.
fn has_passed<EHF: EnvoyHttpFilter>(envoy: &EHF, table: &Pinned<'_>) -> bool {
    let Some(uid) = envoy.get_request_header_value(SANDBOX_UID) else { return false };
    let Some(id) = envoy.get_request_header_value(cluster::SANDBOX_ID) else { return false };
    table.get_bytes(id.as_slice()).is_some_and(|route| route.uid().as_bytes() == uid.as_slice())
}

/// Whose the request is, as Envoy says; `None` where clients have no IP address.
fn client<EHF: EnvoyHttpFilter>(envoy: &EHF) -> Option<Client> {
    let address = envoy.get_attribute_string(AttributeId::SourceAddress)?;
    Client::at(address.as_slice())
}

/// Whether `target` leads to one of the gateway's own sockets. An unspecified address stands for every
/// address of this machine.
fn leads_to(target: SocketAddr, own: impl IntoIterator<Item = SocketAddr>) -> bool {
    let ip = target.ip().to_canonical();
    own.into_iter().any(|own| {
        let address = own.ip().to_canonical();
        own.port() == target.port() && (address == ip || (address.is_unspecified() && is_local(ip)))
    })
}

/// Whether this machine has the address. A socket can be bound to no other, and binding one sends nothing.
fn is_local(ip: IpAddr) -> bool {
    UdpSocket::bind((ip, 0)).is_ok()
}
