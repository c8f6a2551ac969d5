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

/// As many as the API takes: no rule has more peers than the cluster takes, and what is allowed stays first.
#[test]
fn long_lists_are_several_rules() {
    let addresses: Vec<_> = (0..100).map(|number| format!("10.0.0.{number}")).collect();
    let all: Vec<_> = addresses.iter().map(String::as_str).collect();
    let made = rules(&network(&all, &all[..21]));
    let sizes =
        made.iter().map(|rule| (rule["action"].as_str().unwrap(), rule["to"].as_array().unwrap().len()));
    let expected = [[("allow", 20); 5].as_slice(), &[("reject", 20), ("reject", 1)]].concat();
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    let peers: Vec<_> = made[..5].iter().flat_map(|rule| rule["to"].as_array().unwrap()).collect();
    assert_eq!((peers[0], peers[99]), (&json!({"cidr": "10.0.0.0/32"}), &json!({"cidr": "10.0.0.99/32"})));
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
