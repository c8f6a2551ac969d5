//! Parts of the objects that are kept as JSON text.

use crate::whole::json::json_objects;

json_objects! {
    /// Requests and limits of a container.
    ResourceRequirements at "config.inlineResources";
    /// A readiness probe of a runtime.
    ProbeSpec at "runtimes.readinessProbe";
    /// What a runtime is configured with, which only the runtime understands.
    RuntimeConfig at "runtimes.config";
    /// A network policy of an environment. Sandgate keeps it and does not act on it.
    NetworkPolicy at "spec.overrides.networkPolicy";
}
