//! The names of the sources do not overlap.

#![forbid(unsafe_code)]

use sandgate_watch::{PROVIDER, ProviderConfig};
use serde_json::json;

#[test]
fn a_generic_provider_cannot_have_the_name_of_the_routes_file() {
    let config = json!({
        "kind": "generic",
        "name": PROVIDER,
        "resource": { "group": "example.com", "version": "v1", "kind": "Box", "plural": "boxes" },
        "ip": "status.ip",
        "states": [{ "when": [{ "path": "status.up", "equals": true }], "state": "running" }],
        "default-state": "creating",
    });
    let config: ProviderConfig = serde_json::from_value(config).unwrap();
    let Err(error) = config.build() else { panic!("the name is accepted") };
    assert_eq!(error.to_string(), "name: the name of another source");
}
