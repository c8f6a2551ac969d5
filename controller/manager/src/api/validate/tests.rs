use super::names::{is_qualified, is_reserved};
use super::*;

#[test]
fn durations_are_as_go_writes_them() {
    for (text, seconds) in [("30m", 1800.0), ("1h30m", 5400.0), ("1.5h", 5400.0), ("200ms", 0.2), ("0s", 0.0)]
    {
        assert_eq!(go_duration(text).map(|duration| duration.as_secs_f64()), Some(seconds), "{text}");
    }
    for text in
        ["", "5", "h", "-1h", "1d", "1h ", " 1h", "1h-5m", "é", "1e9h", "1..2h", "99999999999999999999h"]
    {
        assert_eq!(go_duration(text), None, "{text}");
    }
}

#[test]
fn keys_are_kubernetes_names() {
    for fine in ["a", "user-id", "a_b.c", "A1", "example.com/a", "security.agents.kruise.io/agent-name"] {
        assert!(is_qualified(fine) && !is_reserved(fine), "{fine}");
    }
    let long = "a".repeat(64);
    for wrong in ["", "-a", "a-", "a b", "a/b/c", "/a", "a/", "Example.com/a", "é", "..", &long] {
        assert!(!is_qualified(wrong), "{wrong}");
    }
    for owned in ["agents.kruise.io/x", "kubernetes.io/x", "a.k8s.io/x", "sandgate.dev/x", "x.sandgate.dev/y"]
    {
        assert!(is_reserved(owned), "{owned}");
    }
    assert!(is_reserved("pod-template-hash") && is_reserved("sandbox.agents.kruise.io/x"));
    assert!(!is_reserved("notkubernetes.io/x"));
}
