//! Everything the module has to say goes to Envoy's log, under its `dynamic_modules` logger.
//!
//! Two sources: `tracing` events of the crates that know nothing of Envoy, and panics of the module's own
//! threads. Such a panic is reported by its place only: its message may quote the bytes of a request. Panics
//! in hooks do not come here: the SDK catches, counts and logs them, and passes the others on to this hook.

use std::fmt::{self, Write as _};
use std::sync::Once;

use envoy_proxy_dynamic_modules_rust_sdk::{
    envoy_log_debug, envoy_log_error, envoy_log_info, envoy_log_trace, envoy_log_warn,
};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Connects `tracing` and the panic hook to Envoy's log, once a process. The SDK puts its own panic hook
/// around this one, after the module's init.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| match info.location() {
            Some(place) => envoy_log_error!("sandgate: a thread: panic at {}:{}", place.file(), place.line()),
            None => envoy_log_error!("sandgate: a thread: panic"),
        }));
        // Fails only where a subscriber is set already: then that one has the events.
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(EnvoyLog));
    });
}

struct EnvoyLog;

impl<S: Subscriber> Layer<S> for EnvoyLog {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        // The Kubernetes client quotes what it was sent, and what credential plugins wrote. What is worth
        // saying about a request of ours, the watch says itself.
        if event.metadata().target().starts_with("kube") {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, fields } = line;
        match *event.metadata().level() {
            Level::ERROR => envoy_log_error!("sandgate: {message}{fields}"),
            Level::WARN => envoy_log_warn!("sandgate: {message}{fields}"),
            Level::INFO => envoy_log_info!("sandgate: {message}{fields}"),
            // Other crates (file watching, the runtime) are chatty at these levels.
            Level::DEBUG if ours(event) => envoy_log_debug!("sandgate: {message}{fields}"),
            Level::TRACE if ours(event) => envoy_log_trace!("sandgate: {message}{fields}"),
            _ => {}
        }
    }
}

fn ours(event: &Event<'_>) -> bool {
    event.metadata().target().starts_with("sandgate")
}

/// One event as text: the message, then ` key=value` for each field.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = if field.name() == "message" {
            write!(self.message, "{value:?}")
        } else {
            write!(self.fields, " {}={value:?}", field.name())
        };
    }
}
