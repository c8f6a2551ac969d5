mod config;
mod differential;
mod fields;

use sandgate_config::ConfigError;
use serde_json::{Value, json};

use crate::config::ProviderConfig;
use crate::provider::Provider;

fn build(config: &Value) -> Result<Box<dyn Provider>, ConfigError> {
    sandgate_config::parse::<ProviderConfig>(config.to_string().as_bytes())?.build()
}

/// A config with no more than it needs.
fn smallest() -> Value {
    json!({
        "kind": "generic",
        "name": "boxes",
        "resource": { "group": "example.com", "version": "v1", "kind": "Box", "plural": "boxes" },
        "ip": "status.ip",
        "states": [{ "when": [{ "path": "status.up", "equals": true }], "state": "running" }],
        "default-state": "creating",
    })
}

/// That config with one key set, or taken away by null.
fn with(pointer: &str, value: Value) -> Value {
    let mut config = smallest();
    let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
    let parent = config.pointer_mut(parent).expect("the parent is there");
    match parent {
        Value::Object(map) if value.is_null() => drop(map.remove(key)),
        Value::Object(map) => drop(map.insert(key.to_owned(), value)),
        parent => parent[key.parse::<usize>().expect("a place")] = value,
    }
    config
}
