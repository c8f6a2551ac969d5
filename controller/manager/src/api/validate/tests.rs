use super::names::{is_qualified, is_reserved};

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
