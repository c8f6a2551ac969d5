use sandgate_cache::testing::{TestCache, claimed};
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::json;

use super::{policy, rules, written};
use crate::Network;

fn network(allow: &[&str], deny: &[&str]) -> Network {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    Network { allow_out: texts(allow), deny_out: texts(deny) }
}

#[test]
fn what_is_allowed_comes_before_what_is_rejected() {
    let both = rules(&network(&["1.1.1.1", "10.0.0.0/8", "example.com", "fd00::1"], &["0.0.0.0/0"]));
    let allowed = json!([
        {"cidr": "1.1.1.1/32"}, {"cidr": "10.0.0.0/8"}, {"fqdn": "example.com"}, {"cidr": "fd00::1/128"},
    ]);
    let expected = [
        json!({"action": "allow", "to": allowed}),
        json!({"action": "reject", "to": [{"cidr": "0.0.0.0/0"}]}),
    ];
    assert_eq!(both, expected);
    assert_eq!(rules(&network(&[], &["1.1.1.1"])).len(), 1);
    assert!(rules(&network(&[], &[])).is_empty());
}

#[test]
fn a_policy_is_the_sandboxs_own_and_ends_with_it() {
    let seen = TestCache::new().show::<SandboxFacts>(&claimed("one", "ada", "id1"));
    let made = policy(&seen, "id1", &network(&["1.1.1.1"], &[]));
    assert_eq!(made["metadata"]["name"], "sandgate-uid-one");
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "uid-one");
    assert_eq!(made["spec"]["selector"]["matchLabels"]["agents.kruise.io/sandbox-name"], "one");
    assert_eq!(written(&network(&[], &[])), None);
    assert_eq!(written(&network(&["a.b"], &[])).unwrap(), r#"{"allowOut":["a.b"],"denyOut":[]}"#);
}
