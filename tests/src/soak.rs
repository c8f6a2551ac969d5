//! A soak: one gateway under everything that happens to a gateway, at modest rates, for as long as is asked
//! for.
//!
//! Sandboxes live and die in a cluster, by push and in the routes file; the watch is cut; clients are slow,
//! stop or leave. Nothing of this may add up: [`Soak::sample`] reads memory, descriptors and counts,
//! [`verdict()`] tells growth from noise, and when the churn has ended ([`Soak::end`]) every count has to
//! return to where it was ([`Soak::settled`]).
//!
//! Waiting is by rounds, not by time: a client that stops is one of a few that are kept, and goes when the
//! next comes.

mod churn;
mod clients;
mod columns;
mod http2;
mod lives;
pub mod operator;
mod record;
mod sample;
mod sources;
mod strangers;
mod verdict;
mod world;

use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

pub use columns::COLUMNS;
pub use record::{Span, verdict, watch};
pub use sample::{Column, Sample};
pub use verdict::{Judged, Trend, judge, table, trend};

use crate::kubernetes::{ApiServer, Kind, Wire};
use crate::{Authority, DEADLINE, Gateway, Place, Sandbox, eventually};
use world::{Places, World};

/// How many tenants make sandboxes in the cluster, one sandbox each at a time.
const TENANTS: u32 = 4;
/// What everybody who takes part does, by the names it is counted under.
const KINDS: [&str; 16] = [
    "created",
    "deleted",
    "pushed",
    "reloaded",
    "watch broken",
    "answered",
    "refused",
    "half a body",
    "stopped to read",
    "left waiting",
    "left reading",
    "WebSocket",
    "gRPC",
    "HTTP/2 left reading",
    "stranger",
    "stranger refused",
];
/// The name in the certificate of the gateway's push port.
const PUSH_NAME: &str = "gateway.soak.test";

/// How a soak runs.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// What all rates are multiplied with. At 1 everything together takes a quarter of a core or so.
    pub speed: f64,
    /// How long a deleted route is remembered: how soon the number of tombstones is level.
    pub tombstone_lifetime: Duration,
    /// How long a host may be unused.
    pub idle: Duration,
}

/// A gateway with its load. Dropping it ends everything.
pub struct Soak {
    // In this order: those who use something go before it.
    actors: JoinSet<()>,
    world: Arc<World>,
    gateway: Gateway,
    load: Load,
    begun: Instant,
    replaced: u32,
    _server: Sandbox,
}

impl Soak {
    /// Starts the gateway, an API server behind a wire that breaks, and one server for the addresses of all
    /// sandboxes. Nothing happens yet.
    pub async fn start(load: Load) -> Self {
        // Bound to everything, since 127/8 has no name: every address of it is a sandbox.
        let everywhere = Place::shared(Ipv4Addr::UNSPECIFIED.into());
        let server = Sandbox::start_at("soak", everywhere, &[0]).await;
        let api = ApiServer::shared().await;
        let namespace = api.namespace("soak").await;
        let wire = Wire::to(&api).await;

        let builder = Gateway::builder();
        let folder = builder.folder().to_owned();
        let authority = Authority::new(&folder);
        let (certificate, key) = authority.client(PUSH_NAME);
        let shared_key = folder.join("push.key");
        fs::write(&shared_key, "the-soak's-key-of-at-least-thirty-two-bytes").expect("write the key");
        let watched = [Kind::OpenKruise, Kind::AgentSandbox];
        let providers = watched.map(|kind| json!({ "kind": kind.provider(), "namespaces": [namespace] }));
        let kubeconfig = wire.kubeconfig(wire.admin_token());
        let gateway = builder
            .refresh(json!({
                "provider": Kind::OpenKruise.provider(),
                "tls": { "certificate": certificate, "key": key },
                // Shorter than the tombstones live.
                "hmac": { "keys": [{ "id": "main", "file": shared_key }], "window-seconds": 2 },
            }))
            .setting("kubernetes", json!({ "kubeconfig": kubeconfig, "providers": providers }))
            .setting("tombstone-lifetime-seconds", load.tombstone_lifetime.as_secs())
            .cluster("idle-seconds", load.idle.as_secs())
            .cds()
            .start()
            .await;
        let places = Places {
            gateway: gateway.address(),
            refresh: gateway.refresh_address().await,
            port: server.port(),
            authority: authority.file(),
            shared_key,
            mount: gateway.routes_file().parent().expect("a file has a folder").to_owned(),
            api,
            namespace,
            wire,
        };
        let mut soak = Self {
            actors: JoinSet::new(),
            world: Arc::new(World::new(places, load.speed)),
            gateway,
            load,
            begun: Instant::now(),
            replaced: 0,
            _server: server,
        };
        soak.first_requests().await;
        soak
    }

    /// One life of everything, so that what Envoy makes at its first use is there: files, threads,
    /// connections.
    async fn first_requests(&mut self) {
        let world = &self.world;
        lives::one_pushed(world).await;
        clients::one_of_each(world).await;
        for scope in 0..2 {
            self.gateway
                .scope_where(scope, "the cluster is followed", |scope| scope["state"] == "watching")
                .await;
        }
    }

    /// Begins the churn.
    pub fn begin(&mut self) {
        let world = || Arc::clone(&self.world);
        let actors = &mut self.actors;
        for tenant in 0..TENANTS {
            let kind = if tenant % 2 == 0 { Kind::OpenKruise } else { Kind::AgentSandbox };
            actors.spawn(lives::in_the_cluster(world(), kind, tenant));
        }
        actors.spawn(lives::by_push(world()));
        actors.spawn(sources::file(world()));
        actors.spawn(sources::faults(world()));
        actors.spawn(clients::ask(world()));
        actors.spawn(clients::half_bodies(world()));
        actors.spawn(clients::stopped_readers(world()));
        actors.spawn(clients::leavers(world()));
        actors.spawn(clients::websockets(world()));
        actors.spawn(clients::refused(world()));
        actors.spawn(http2::ask(world()));
        actors.spawn(strangers::at_the_push_port(world()));
        self.begun = Instant::now();
    }

    /// Has Envoy replace the clusters, with their hosts, by others of the same names. Everybody goes on
    /// meanwhile.
    pub fn replace_clusters(&mut self) {
        self.replaced += 1;
        let timeout = format!("{}.{:03}s", 5, self.replaced % 1000);
        self.gateway.update_clusters(|cluster| cluster["connect_timeout"] = json!(timeout));
    }

    /// The gateway.
    pub fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// What the gateway uses and has now.
    pub async fn sample(&self) -> Sample {
        columns::sample(&self.gateway, self.begun.elapsed()).await
    }

    /// How often each thing was done so far, by its name.
    pub fn done(&self) -> Vec<(&'static str, u64)> {
        self.world.done()
    }

    /// Whether every kind of thing has been done so often.
    pub fn has_done(&self, least: u64) -> bool {
        self.world.has_done(&KINDS, least)
    }

    /// Answers and ends that nobody should see.
    pub fn unexpected(&self) -> Vec<String> {
        self.world.unexpected_so_far()
    }

    /// Ends the churn: sandboxes are deleted, the routes file is emptied, clients leave.
    ///
    /// # Panics
    /// When one who took part did.
    pub async fn end(&mut self) {
        self.world.stop();
        let all = async {
            while let Some(ended) = self.actors.join_next().await {
                ended.expect("nobody who took part in the churn panics");
            }
        };
        tokio::time::timeout(3 * DEADLINE, all).await.expect("everybody who takes part in the churn ends it");
    }

    /// Waits until every count is back where it was before the churn, at `start`.
    pub async fn settled(&self, start: &Sample) -> Sample {
        // Hosts, tombstones and the client's pool of connections to the API server have to grow old first.
        let patience = 4 * (self.load.tombstone_lifetime + self.load.idle) + Duration::from_secs(120);
        let mut left = Vec::new();
        let waited = tokio::time::timeout(patience, async {
            eventually("the counts return", patience * 2, async || {
                let now = self.sample().await;
                left = now.above(start);
                left.is_empty().then_some(now)
            })
            .await
        });
        match waited.await {
            Ok(now) => now,
            Err(_) => panic!("not back within {patience:?}: {}", left.join(", ")),
        }
    }
}
