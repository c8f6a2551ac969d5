//! A custom resource as each provider reads it: no input panics, equal bytes mean equal things, the
//! table accepts what is read, and an error names a path.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::assert_valid;
use sandgate_objects::{Provider, ProviderConfig};
use serde_json::{Value, json};

static PROVIDERS: LazyLock<Vec<Box<dyn Provider>>> = LazyLock::new(|| {
    let generic = json!({
        "kind": "generic", "name": "fuzz",
        "resource": { "group": "g.io", "version": "v1", "kind": "Box", "plural": "boxes" },
        "id": "metadata.labels[\"x/id\"]", "ip": ["status.podIP", "status.pods[0].ip"], "token": "spec.token",
        "dead-at": "spec.ends", "traffic-auth": { "path": "spec.closed", "equals": "true" },
        "states": [{ "state": "running", "when": [
            { "path": "status.conditions[?@.type=='Ready'].status", "equals": "True" }
        ] }],
        "default-state": "creating",
    });
    let built_in =
        ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"].map(|kind| json!({ "kind": kind }));
    built_in.into_iter().chain([generic]).map(provider).collect()
});

fn provider(config: Value) -> Box<dyn Provider> {
    let config: ProviderConfig = serde_json::from_value(config).expect("a config");
    config.build().expect("a provider")
}

fuzz_target!(|data: &[u8]| {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    for provider in &*PROVIDERS {
        match provider.project(data, now) {
            Ok(projection) => {
                let again = provider.project(data, now).expect("it was read before");
                assert_eq!(format!("{projection:?}"), format!("{again:?}"), "{}", provider.name());
                assert!(projection.dead_at.is_none_or(|at| at > now), "that time is over");
                assert!(!projection.is_nowhere || projection.observation.ip.is_none(), "{projection:?}");
                assert_valid([projection.observation]);
            }
            Err(error) => assert!(!error.path.is_empty() && !error.reason.is_empty(), "{error:?}"),
        }
    }
});
