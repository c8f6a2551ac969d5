//! The bootstrap extension: one for the process, from Envoy's start to its end.
//!
//! It makes the one [`gateway`] of the process. Listeners and clusters come and go with their configs; all of
//! them read this gateway's table.
//!
//! Everything here runs on Envoy's main thread. `new_config` checks the settings, reads the files with keys
//! and makes the gateway, also in `--mode validate`; nothing is started before `on_server_initialized`, which
//! validation never reaches. Envoy holds its listeners closed until `signal_init_complete`, sent when the
//! first list of every source is in the table, or when the config's patience ends. The gateway's threads
//! reach the main thread only through the scheduler.
//!
//! The main thread does not depend on them: a timer of Envoy's looks after the threads every second and
//! brings the metrics up to date, so that ages grow and `thread_up` falls when a thread is dead.

mod metrics;
mod reporter;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use envoy_proxy_dynamic_modules_rust_sdk::{
    BootstrapExtension, BootstrapExtensionConfig, CompletionCallback, EnvoyBootstrapExtension,
    EnvoyBootstrapExtensionConfig, EnvoyBootstrapExtensionConfigScheduler, EnvoyBootstrapExtensionTimer,
    envoy_log_error, envoy_log_info, envoy_log_warn,
};
use parking_lot::Mutex;
use sandgate_watch::{Gateway, KeyringError, Settings};

use crate::{admin, cluster};
use metrics::Metrics;
use reporter::Reporter;

/// How often the threads are looked after and the metrics brought up to date, if nothing happens.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The server is up: publish the admin pages.
const STARTED: u64 = 0;
/// The table or a source changed: bring the gauges up to date, and open the listeners once ready.
const CHANGED: u64 = 1;

type Scheduler = Arc<dyn EnvoyBootstrapExtensionConfigScheduler>;
/// The timer, from the server's start to its shutdown. Only the main thread touches it.
type Timer = Arc<Mutex<Option<Box<dyn EnvoyBootstrapExtensionTimer>>>>;

static GATEWAY: OnceLock<Gateway> = OnceLock::new();

/// Why there is no gateway.
#[derive(Debug, thiserror::Error)]
enum InstallError {
    /// The bootstrap extension was configured a second time. Trying again does not help: a process has one
    /// gateway.
    #[error("the extension is configured twice in this process: once is enough")]
    Twice,
    /// A file with keys cannot be used.
    #[error("auth: {0}")]
    Keys(#[from] KeyringError),
}

/// The gateway, once the bootstrap extension has made it.
pub(crate) fn gateway() -> Option<&'static Gateway> {
    GATEWAY.get()
}

/// Makes the gateway of this process.
fn install(settings: &Settings) -> Result<&'static Gateway, InstallError> {
    let gateway = Gateway::with_activity(settings, cluster::activity())?;
    let mut made = false;
    let installed = GATEWAY.get_or_init(|| {
        made = true;
        gateway
    });
    if made { Ok(installed) } else { Err(InstallError::Twice) }
}

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
    let defined = Metrics::define(envoy, &settings);
    let metrics = match defined {
        Ok(metrics) => metrics,
        Err(error) => {
            envoy_log_error!("sandgate: {error}");
            return None;
        }
    };
    match install(&settings) {
        Ok(gateway) => Some(Box::new(Config {
            gateway,
            metrics,
            scheduler: Arc::from(envoy.new_scheduler()),
            timer: Timer::default(),
            jobs: admin::Jobs::default(),
            open: AtomicBool::new(false),
            reporter: Arc::new(Reporter::of_this_process()),
        })),
        Err(error) => {
            envoy_log_error!("sandgate: bootstrap config: {error}");
            None
        }
    }
}

struct Config {
    gateway: &'static Gateway,
    metrics: Metrics,
    scheduler: Scheduler,
    timer: Timer,
    /// Admin pages that take long.
    jobs: admin::Jobs,
    /// Whether Envoy has been told that it may open its listeners: to be said once.
    open: AtomicBool,
    reporter: Arc<Reporter>,
}

impl BootstrapExtensionConfig for Config {
    fn new_bootstrap_extension(&self, _: &mut dyn EnvoyBootstrapExtension) -> Box<dyn BootstrapExtension> {
        Box::new(Extension {
            gateway: self.gateway,
            scheduler: Arc::clone(&self.scheduler),
            timer: Arc::clone(&self.timer),
            reporter: Arc::clone(&self.reporter),
        })
    }

    fn on_scheduled(&self, envoy: &mut dyn EnvoyBootstrapExtensionConfig, event: u64) {
        if event == STARTED {
            for (path, help) in admin::PAGES {
                if !envoy.register_admin_handler(path, help, false, false) {
                    envoy_log_info!("sandgate: the admin page {path} is not served: Envoy has no admin port");
                }
            }
            let timer = envoy.new_timer();
            self.arm(&*timer);
            *self.timer.lock() = Some(timer);
        }
        self.update(envoy);
    }

    fn on_timer_fired(
        &self,
        envoy: &mut dyn EnvoyBootstrapExtensionConfig,
        timer: &dyn EnvoyBootstrapExtensionTimer,
    ) {
        self.arm(timer);
        cluster::tick();
        self.gateway.supervise();
        self.update(envoy);
    }

    fn on_admin_request(
        &self,
        _: &mut dyn EnvoyBootstrapExtensionConfig,
        method: &str,
        path: &str,
        _body: &[u8],
    ) -> (u32, String) {
        admin::respond(self.gateway, &self.jobs, method, path)
    }
}

impl Config {
    fn arm(&self, timer: &dyn EnvoyBootstrapExtensionTimer) {
        // The listeners open on time.
        let wait = self.gateway.opens_in().filter(|left| !left.is_zero());
        timer.enable(wait.map_or(CHECK_INTERVAL, |left| left.min(CHECK_INTERVAL)));
    }

    /// Brings the metrics up to date, and lets Envoy open its listeners when they may be open.
    fn update(&self, envoy: &dyn EnvoyBootstrapExtensionConfig) {
        self.metrics.set(envoy, self.gateway, self.reporter.reports());
        if self.gateway.may_open() && !self.open.swap(true, Ordering::Relaxed) {
            if !self.gateway.reader().is_ready() {
                envoy_log_warn!(
                    "sandgate: the listeners open before every first list is in: requests to sandboxes get 503 until then"
                );
            }
            envoy.signal_init_complete();
            self.reporter.open();
        }
    }
}

struct Extension {
    gateway: &'static Gateway,
    scheduler: Scheduler,
    timer: Timer,
    reporter: Arc<Reporter>,
}

impl BootstrapExtension for Extension {
    fn on_server_initialized(&mut self, _: &mut dyn EnvoyBootstrapExtension) {
        let scheduler = Arc::clone(&self.scheduler);
        if let Err(error) = self.gateway.start(move || scheduler.commit(CHANGED)) {
            // It is tried again; until then nothing is ready and the listeners stay closed.
            envoy_log_error!("sandgate: cannot start the threads that keep the table yet: {error}");
        }
        self.scheduler.commit(STARTED);
    }

    /// In a graceful drain, and in a hot restart when the next Envoy has taken over.
    fn on_drain_started(&mut self, _: &mut dyn EnvoyBootstrapExtension) {
        envoy_log_info!("sandgate: Envoy drains: what is pushed is applied and not acknowledged");
        self.gateway.drain();
        self.reporter.drain();
        self.scheduler.commit(CHANGED);
    }

    fn on_shutdown(&mut self, _: &mut dyn EnvoyBootstrapExtension, completion: CompletionCallback) {
        drop(self.timer.lock().take());
        self.gateway.stop();
        completion.done();
    }
}
