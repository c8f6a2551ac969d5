//! The configs of routes.
//!
//! Envoy's main thread makes one for each `typed_per_filter_config` of a route, a virtual host or a route
//! table, without saying which filter it is for. It is merged over a filter's config when a request first
//! meets the two. What came of it is kept in the route's config, so it is found without a lock and ends with
//! the route.
//!
//! The config of the route that Envoy chose first counts. Choosing another one (`clear-route-cache`) changes
//! where the request goes, and not what is demanded of it.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyHttpFilter, envoy_log_error};
use sandgate_request::RouteConfig;

use super::{Chosen, Shared, limits, required};
use crate::cluster;

/// How many configs of routes there are. With none, requests do not ask for theirs.
static CONFIGS: AtomicUsize = AtomicUsize::new(0);

/// Creates the config of a route. One that is bad is explained in Envoy's log and refused.
pub(crate) fn new_route_config(_name: &str, config: &[u8]) -> Option<Box<dyn Any + Send + Sync>> {
    match RouteConfig::parse(config) {
        Ok(config) => Some(Box::new(OfRoute::new(config))),
        Err(error) => {
            envoy_log_error!("sandgate: config of a route: {error}");
            None
        }
    }
}

/// A route's config, and what came of merging it.
struct OfRoute {
    config: RouteConfig,
    merged: ArcSwap<Vec<Merged>>,
}

/// The route's config over one filter's.
#[derive(Clone)]
struct Merged {
    /// Keeps the address, so that no other filter's config can be taken for it.
    filter: Weak<Shared>,
    /// `None` if the two do not go together.
    shared: Option<Arc<Shared>>,
}

impl OfRoute {
    fn new(config: RouteConfig) -> Self {
        CONFIGS.fetch_add(1, Ordering::Relaxed);
        Self { config, merged: ArcSwap::default() }
    }

    fn over(&self, filter: &Arc<Shared>) -> Option<Arc<Shared>> {
        let found = |merged: &[Merged]| {
            let this = merged.iter().find(|merged| std::ptr::eq(merged.filter.as_ptr(), Arc::as_ptr(filter)));
            this.map(|merged| merged.shared.clone())
        };
        found(&self.merged.load()).unwrap_or_else(|| self.merge(filter))
    }

    /// The first request of a worker that meets the two. Two workers at once do the same work twice.
    #[cold]
    fn merge(&self, filter: &Arc<Shared>) -> Option<Arc<Shared>> {
        let refused = |error: &dyn std::error::Error| {
            envoy_log_error!("sandgate: config of a route, over that of the filter: {error}");
        };
        let shared = match self.config.over(&filter.source) {
            Ok(config) => match required::check(&config, filter.gateway) {
                Ok(()) => Some(Arc::new(filter.with(config))),
                Err(error) => {
                    refused(&error);
                    None
                }
            },
            Err(error) => {
                refused(&error);
                None
            }
        };
        let merged = Merged { filter: Arc::downgrade(filter), shared: shared.clone() };
        self.merged.rcu(|before| {
            // Filters that are gone leave here.
            let kept = before.iter().filter(|other| {
                other.filter.strong_count() > 0 && !Weak::ptr_eq(&other.filter, &merged.filter)
            });
            kept.chain([&merged]).cloned().collect::<Vec<_>>()
        });
        shared
    }
}

impl Drop for OfRoute {
    fn drop(&mut self) {
        CONFIGS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// What the requests share that have this config in place of the filter's.
    fn with(&self, config: sandgate_request::FilterConfig) -> Self {
        Self {
            gateway: self.gateway,
            source: Box::default(),
            limits: limits(&config),
            rate: config.rate_per_sandbox().map(cluster::Rate::new),
            config,
            stats: self.stats.clone(),
            secrets: Arc::clone(&self.secrets),
        }
    }
}

impl Chosen {
    /// Chooses by the request's route. Returns whether there is a config for the request: without one it
    /// must not go on.
    #[inline]
    pub(super) fn choose<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) -> bool {
        // A route's config is counted before Envoy can show it to a worker.
        CONFIGS.load(Ordering::Relaxed) == 0 || self.ask(envoy)
    }

    fn ask<EHF: EnvoyHttpFilter>(&self, envoy: &EHF) -> bool {
        let config = envoy.get_most_specific_route_config();
        let Some(of_route) = config.as_ref().and_then(|config| config.downcast_ref::<OfRoute>()) else {
            return true;
        };
        of_route.over(&self.filter).is_some_and(|shared| {
            self.route.get_or_init(|| shared);
            true
        })
    }
}
