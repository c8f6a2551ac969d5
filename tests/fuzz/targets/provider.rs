//! A custom resource as each built-in provider reads it: no input panics, equal bytes mean equal things, the
//! table accepts what is read, and an error names a path.
#![no_main]

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use sandgate_fuzz::assert_valid;
use sandgate_watch::{Provider, ProviderConfig};

static PROVIDERS: LazyLock<[Box<dyn Provider>; 3]> =
    LazyLock::new(|| ["openkruise", "agent-sandbox", "opensandbox"].map(built_in));

fn built_in(kind: &str) -> Box<dyn Provider> {
    let config: ProviderConfig =
        serde_json::from_value(serde_json::json!({ "kind": kind })).expect("a config of one key");
    config.build().expect("a built-in provider")
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
