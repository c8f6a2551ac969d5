//! The bootstrap extension: one for the process, from Envoy's start to its end.
//!
//! Everything here runs on Envoy's main thread. `new_config` checks the settings and makes the gateway,
//! also in `--mode validate`; nothing is started before `on_server_initialized`, which validation never
//! reaches. Envoy holds its listeners closed until `signal_init_complete`, sent when the first list of every
//! source is in the table, or when the config's patience ends. The gateway's thread reaches the main thread only through the scheduler.

mod pushes;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use envoy_proxy_dynamic_modules_rust_sdk::{
    BootstrapExtension, BootstrapExtensionConfig, CompletionCallback, EnvoyBootstrapExtension,
    EnvoyBootstrapExtensionConfig, EnvoyBootstrapExtensionConfigScheduler, EnvoyGaugeId, envoy_log_error,
    envoy_log_info, envoy_log_warn,
};
use sandgate_routes::State;
use sandgate_watch::{KubernetesStatusReader, ScopeStatus, Settings};

use crate::admin;
use crate::gateway::Gateway;
use pushes::PushMetrics;

/// The server is up: publish the admin pages.
const STARTED: u64 = 0;
/// The table or a source changed: bring the gauges up to date, and open the listeners once ready.
const CHANGED: u64 = 1;

type Scheduler = Arc<dyn EnvoyBootstrapExtensionConfigScheduler>;

/// Creates the extension's config. A config that cannot be served is explained in Envoy's log and refused.
pub(crate) fn new_config(
    envoy: &mut dyn EnvoyBootstrapExtensionConfig,
    _name: &str,
    config: &[u8],
) -> Option<Box<dyn BootstrapExtensionConfig>> {
    let settings = match Settings::parse(config) {
        Ok(settings) => settings,
        Err(error) => {
            envoy_log_error!("sandgate: bootstrap config: {error}");
            return None;
        }
    };
    let defined = Gauges::define(envoy, settings.kubernetes().is_some(), settings.refresh().is_some());
    let gauges = match defined {
        Ok(gauges) => gauges,
        Err(name) => {
            envoy_log_error!("sandgate: cannot define the metric {name}");
            return None;
        }
    };
    match Gateway::install(&settings) {
        Ok(gateway) => Some(Box::new(Config {
            gateway,
            gauges,
            scheduler: Arc::from(envoy.new_scheduler()),
            open: AtomicBool::new(false),
        })),
        Err(message) => {
            envoy_log_error!("sandgate: bootstrap config: {message}");
            None
        }
    }
}

struct Config {
    gateway: &'static Gateway,
    gauges: Gauges,
    scheduler: Scheduler,
    /// Whether Envoy has been told that it may open its listeners: to be said once.
    open: AtomicBool,
}

impl BootstrapExtensionConfig for Config {
    fn new_bootstrap_extension(&self, _: &mut dyn EnvoyBootstrapExtension) -> Box<dyn BootstrapExtension> {
        Box::new(Extension { gateway: self.gateway, scheduler: Arc::clone(&self.scheduler) })
    }

    fn on_scheduled(&self, envoy: &mut dyn EnvoyBootstrapExtensionConfig, event: u64) {
        if event == STARTED {
            for (path, help) in
                [(admin::ROUTES, "sandgate: the route table"), (admin::STATUS, "sandgate: its state")]
            {
                if !envoy.register_admin_handler(path, help, false, false) {
                    envoy_log_info!("sandgate: the admin page {path} is not served: Envoy has no admin port");
                }
            }
        }
        self.gauges.set(envoy, self.gateway);
        if self.gateway.may_open() && !self.open.swap(true, Ordering::Relaxed) {
            if !self.gateway.reader.is_ready() {
                envoy_log_warn!(
                    "sandgate: the listeners open before every first list is in: requests to sandboxes get 503 until then"
                );
            }
            envoy.signal_init_complete();
        }
    }

    fn on_admin_request(
        &self,
        _: &mut dyn EnvoyBootstrapExtensionConfig,
        method: &str,
        path: &str,
        _body: &[u8],
    ) -> (u32, String) {
        admin::respond(self.gateway, method, path)
    }
}

struct Extension {
    gateway: &'static Gateway,
    scheduler: Scheduler,
}

impl BootstrapExtension for Extension {
    fn on_server_initialized(&mut self, _: &mut dyn EnvoyBootstrapExtension) {
        let scheduler = Arc::clone(&self.scheduler);
        if let Err(error) = self.gateway.start(move || scheduler.commit(CHANGED)) {
            // Not ready for ever: the listeners stay closed and the log says why.
            envoy_log_error!("sandgate: cannot start the thread that keeps the table: {error}");
        }
        self.scheduler.commit(STARTED);
    }

    fn on_shutdown(&mut self, _: &mut dyn EnvoyBootstrapExtension, completion: CompletionCallback) {
        self.gateway.stop();
        completion.done();
    }
}

struct Gauges {
    ready: EnvoyGaugeId,
    routes: EnvoyGaugeId,
    running: EnvoyGaugeId,
    tombstones: EnvoyGaugeId,
    file_error: EnvoyGaugeId,
    kubernetes: Option<KubernetesGauges>,
    pushes: Option<PushMetrics>,
}

/// Over all scopes. Only there where a cluster is watched.
struct KubernetesGauges {
    up: EnvoyGaugeId,
    objects: EnvoyGaugeId,
    unreadable: EnvoyGaugeId,
    contact_age: EnvoyGaugeId,
}

impl Gauges {
    /// Defines the gauges, or names the one that Envoy refused.
    fn define(
        envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        kubernetes: bool,
        pushes: bool,
    ) -> Result<Self, &'static str> {
        let pushes = if pushes { Some(PushMetrics::define(envoy)?) } else { None };
        let mut gauge = |name: &'static str| envoy.define_gauge(name).map_err(|_| name);
        Ok(Self {
            ready: gauge("ready")?,
            routes: gauge("routes")?,
            running: gauge("routes_running")?,
            tombstones: gauge("tombstones")?,
            file_error: gauge("routes_file_error")?,
            kubernetes: if kubernetes {
                Some(KubernetesGauges {
                    up: gauge("kubernetes_up")?,
                    objects: gauge("kubernetes_objects")?,
                    unreadable: gauge("kubernetes_unreadable")?,
                    contact_age: gauge("kubernetes_last_contact_age_seconds")?,
                })
            } else {
                None
            },
            pushes,
        })
    }

    fn set(&self, envoy: &dyn EnvoyBootstrapExtensionConfig, gateway: &Gateway) {
        let counts = gateway.reader.counts();
        for (gauge, value) in [
            (self.ready, u64::from(gateway.reader.is_ready())),
            (self.routes, counts.routes),
            (self.running, counts.in_state(State::Running)),
            (self.tombstones, counts.tombstones),
            (self.file_error, u64::from(gateway.file_status().is_some_and(|file| file.error.is_some()))),
        ] {
            // The only failure is an unknown id, and ids come from `define`.
            let _ = envoy.set_gauge(gauge, value);
        }
        if let (Some(gauges), Some(status)) = (&self.kubernetes, gateway.kubernetes_status()) {
            gauges.set(envoy, status);
        }
        if let (Some(metrics), Some(status)) = (&self.pushes, gateway.refresh_status()) {
            metrics.set(envoy, &status);
        }
    }
}

impl KubernetesGauges {
    fn set(&self, envoy: &dyn EnvoyBootstrapExtensionConfig, status: &KubernetesStatusReader) {
        let scopes = status.scopes();
        // The scope heard of longest ago; one never heard of is as old as the clock.
        let age = scopes.iter().map(|scope| scope.contact_age().as_secs()).max().unwrap_or_default();
        for (gauge, value) in [
            (self.up, u64::from(scopes.iter().all(ScopeStatus::is_up))),
            (self.objects, scopes.iter().map(|scope| scope.objects).sum()),
            (self.unreadable, scopes.iter().map(|scope| scope.unreadable).sum()),
            (self.contact_age, age),
        ] {
            let _ = envoy.set_gauge(gauge, value);
        }
    }
}
