//! The parts of the manager, and what connects them.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::middleware;
use prometheus_client::registry::Registry;
use sandgate_cache::daemon::{Limits, Pages, Probes, Reserved, Server, identity, metrics_page};
use sandgate_cache::{Cache, Clock, Group, Random, Running, SecretFacts, SystemClock};
use sandgate_follow::Timing;
use sandgate_peering::{PushSettings, Pusher, ServerTls};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Readiness, RunError, Service, of_requests, tls};
use crate::metrics::count;
use crate::{
    ApiState, Args, EnvFeed, Gateways, KeyStore, Keys, LastUse, ManagedKeys, Manager, ManagerParts, Metrics,
    NoKeys, Runtime, Scraped, SystemSecrets, Wire, Writes, router,
};

/// How long reading the credentials may take, plugins included.
const CREDENTIALS: Duration = Duration::from_secs(30);
/// Between two tries to start the cache, each of which waits for the API server by itself.
const AGAIN: Duration = Duration::from_secs(1);
/// Connections of the API at a time.
const CONNECTIONS: usize = 10_000;
/// How long a connection of the API may be silent, also within the head of a request: longer than SDKs and
/// proxies keep theirs.
const SILENCE: Duration = Duration::from_secs(120);

pub(super) async fn assemble(args: &Args, timing: Timing) -> Result<Service, RunError> {
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let tls = tls.map(|(cert, key)| ServerTls::read(cert, key)).transpose()?.map(Arc::new);
    let (probe_port, probe_address) = reserve(args.probe_listen)?;
    let (api_port, address) = reserve(args.listen)?;
    let client = args.access().connect(CREDENTIALS).await?;
    let pusher = match args.peers()? {
        Some(peers) => Some(Pusher::start(PushSettings::default(), peers, &args.credentials()?)?),
        None => None,
    };

    let mut random = Random::new();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let store = KeyStore::new(Arc::clone(&clock), args.openkruise_keys());
    let told = store.clone();
    let mut cache = Cache::builder()
        .client(client.clone())
        .access(args.access())
        .timing(timing)
        .clock(clock)
        .selector(&args.selector)
        .system_namespace(&args.system_namespace)
        .on::<SecretFacts>(move |change| told.changed(change));
    if let Some(namespace) = &args.namespace {
        cache = cache.namespace(namespace);
    }
    let environments = args.environments().map(EnvFeed::new);
    if let Some(feed) = &environments {
        cache = feed.follow(cache);
    }
    let cache = cache.build()?;
    let writes = Writes::new(client, cache.clone(), Arc::new(metrics.clone()));
    let settings = args.settings();
    let manager = Manager::new(ManagerParts {
        cache: cache.clone(),
        writes: writes.clone(),
        gateways: Gateways::new(pusher.clone().map(|pusher| Arc::new(pusher) as _), settings.push_wait),
        runtime: Runtime::new(Arc::new(Wire::new()), settings.runtime_port),
        secrets: Arc::new(SystemSecrets::new()),
        random: Random::seeded(random.number()),
        settings,
        environments,
    });

    let [mut api, mut tasks, mut probe] = <[Group; 3]>::default();
    let ready = Arc::new(Readiness::default());
    let scraped = Scraped {
        cache: cache.clone(),
        keys: store.clone(),
        pushed: {
            let manager = manager.clone();
            Box::new(move || manager.pushed())
        },
        gateways: Box::new(move || pusher.as_ref().map(Pusher::metrics).unwrap_or_default()),
        waiting: {
            let manager = manager.clone();
            Box::new(move || manager.waiting())
        },
        envs: {
            let manager = manager.clone();
            Box::new(move || manager.env_counts())
        },
    };
    scraped.register(&mut registry);
    let probes = Probes {
        // A cluster that does not answer is no reason to restart this process, and a task that ends stops it.
        ailing: Box::new(Vec::new),
        missing: {
            let (ready, cache) = (Arc::clone(&ready), cache.clone());
            Box::new(move || ready.missing(&cache))
        },
    };
    let pages = Pages { probes: Some(probes), metrics: Some(Box::new(move || metrics_page(&registry))) };
    let server = listen(probe_port, probe_address)?;
    tracing::info!("/healthz, /readyz and /metrics are on http://{probe_address}");
    probe.spawn("the server of the probes", |stop| server.run(pages, stop));

    tracing::info!("{} lists what is in the cluster", identity("sandgate-manager", &mut random));
    let running = start(&cache).await;
    let swept = manager.clone();
    tasks.spawn("the sweep", async move |stop: CancellationToken| {
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = swept.keep_swept() => {}
        }
    });
    let keys: Arc<dyn Keys> = if args.insecure_no_auth {
        tracing::warn!("any key is accepted (--insecure-no-auth)");
        Arc::new(NoKeys)
    } else {
        let (known, unreadable) = store.counts();
        tracing::info!(known, unreadable, "API keys of the namespace {}", args.system_namespace);
        let last_use = LastUse::new(store.clone(), cache.clone(), writes.clone(), random);
        tasks.spawn("the last use of keys", |stop| last_use.run(stop));
        Arc::new(ManagedKeys::new(store, cache.clone(), writes, &args.system_namespace))
    };
    if let Some(tls) = &tls {
        let tls = Arc::clone(tls);
        tasks.spawn("the certificate", |stop| tls::follow(tls, stop));
    }
    let state = ApiState::new(Arc::new(manager.clone()), keys, args.api());
    let router = router(state).layer(middleware::from_fn_with_state(metrics, count));
    let farewell = Duration::from_secs(args.drain_timeout);
    let limits = Limits { connections: CONNECTIONS, silence: SILENCE, farewell: of_requests(farewell) };
    let server = listen(api_port, address)?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    tracing::info!("the API is on {scheme}://{address}");
    let secure = tls::secure(tls);
    api.spawn("the server of the API", |stop| server.serve(router, limits, secure, stop));
    ready.serving.store(true, Ordering::Release);
    Ok(Service {
        address,
        probes: probe_address,
        manager,
        cache,
        running,
        ready,
        delay: Duration::from_secs(args.drain_delay),
        farewell,
        api,
        tasks,
        probe,
    })
}

/// Starts the cache, as often as it takes. Whatever keeps it from starting may pass, and `/readyz` says it.
async fn start(cache: &Cache) -> Running {
    loop {
        match cache.start().await {
            Ok(running) => return running,
            Err(error) => tracing::warn!("not started yet: {error}"),
        }
        sleep(AGAIN).await;
    }
}

fn reserve(address: SocketAddr) -> Result<(Reserved, SocketAddr), RunError> {
    let reserved = Reserved::new(address).and_then(|port| Ok((port.address()?, port)));
    let (address, port) = reserved.map_err(|source| RunError::Listen { address, source })?;
    Ok((port, address))
}

fn listen(port: Reserved, address: SocketAddr) -> Result<Server, RunError> {
    port.listen().map_err(|source| RunError::Listen { address, source })
}
