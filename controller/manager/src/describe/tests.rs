use sandgate_cache::testing::{TestCache, claimed, paused, pausing, running, set};
use sandgate_objects::openkruise::resources::{SandboxFacts, SandboxSet, SandboxTemplate};
use serde_json::{Value, json};

use super::{Size, describe, describe_template, says, shown, template_name};
use crate::ShownState;
use crate::ShownState::{Paused, Running};

fn with(mut sandbox: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    sandbox.pointer_mut(parent).unwrap()[field] = value;
    sandbox
}

#[test]
fn an_owner_sees_what_lives_and_is_made() {
    let test = TestCache::new();
    let base = || claimed("one", "ada", "id1");
    let phase = |phase: &str| with(base(), "/status/phase", phase.into());
    let cases: [(&str, Value, Option<ShownState>); 13] = [
        ("it runs", base(), Some(Running)),
        ("it is not ready", with(base(), "/status/conditions", json!([])), Some(Running)),
        ("it is about to pause", pausing(base()), Some(Paused)),
        ("it is paused", paused(base()), Some(Paused)),
        ("it is about to resume", with(paused(base()), "/spec/paused", false.into()), Some(Running)),
        ("it resumes", phase("Resuming"), Some(Running)),
        ("it is being made", phase("Pending"), None),
        ("it is new", phase(""), None),
        ("it failed", phase("Failed"), None),
        ("it ended", phase("Succeeded"), None),
        ("its time is over", with(base(), "/spec/shutdownTime", "2025-12-31T23:59:59Z".into()), None),
        (
            "it is being deleted",
            with(base(), "/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into()),
            None,
        ),
        ("nobody has it", running("one"), None),
    ];
    for (what, sandbox, expected) in cases {
        let seen = test.answer::<SandboxFacts>(&sandbox);
        assert_eq!(shown(&seen, test.now()), expected, "{what}");
    }
    let mut kept = base();
    kept["metadata"]["labels"]["agents.kruise.io/reserved-failed-sandbox"] = "true".into();
    assert_eq!(shown(&test.answer::<SandboxFacts>(&kept), test.now()), None);
}

#[test]
fn a_sandbox_is_described_with_the_users_own_words_only() {
    let test = TestCache::new();
    let mut pool = set("base", 1);
    let labels = json!({"app": "web"});
    pool["spec"]["template"] = json!({"metadata": {"labels": labels}, "spec": {"containers": []}});
    test.show::<SandboxSet>(&pool);
    let mut sandbox = claimed("one", "ada", "id1");
    let labels = sandbox["metadata"]["labels"].as_object_mut().unwrap();
    for (key, value) in [("app", "web"), ("team", "red"), ("agents.kruise.io/sandbox-pool", "base")] {
        labels.insert(key.to_owned(), value.into());
    }
    let annotations = sandbox["metadata"]["annotations"].as_object_mut().unwrap();
    for (key, value) in [
        ("user", "ada"),
        ("security.agents.kruise.io/agent-name", "a1"),
        ("sandgate.dev/create", "x"),
        ("agents.kruise.io/claim-timestamp", "2026-01-01T01:00:00+01:00"),
        ("agents.kruise.io/runtime-access-token", "secret"),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
    sandbox["spec"] = json!({
        "pauseTime": "2026-01-01T00:05:00Z", "shutdownTime": "2026-01-02T00:00:00Z",
        "autoPausePolicy": {"resume": {"onIngressTraffic": {}}},
        "template": {"spec": {"containers": [
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}},
            {"resources": {"requests": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "1Gi"}}},
        ]}},
    });
    let seen = test.show::<SandboxFacts>(&sandbox);
    let described = describe(&test, &seen, test.now());
    let expected = json!({"user": "ada", "team": "red", "security.agents.kruise.io/agent-name": "a1"});
    assert_eq!(json!(described.metadata), expected);
    assert_eq!((described.id.as_str(), described.resource.as_str()), ("id1", "default/one"));
    assert_eq!((described.template.as_str(), described.state), ("base", Running));
    assert_eq!((described.cpu_millis, described.memory_mb, described.disk_mb), (1500, 1280, 1024));
    assert_eq!(described.started, test.now());
    assert_eq!(described.ends, Some("2026-01-01T00:05:00Z".parse().unwrap()));
    assert!(described.auto_pause && described.auto_resume && described.allow_internet_access);
    assert_eq!(described.access_token.unwrap().reveal(), "secret");
    for (key, value, said) in [
        ("user", "ada", true),
        ("user", "eve", false),
        ("team", "red", true),
        ("app", "web", false),
        ("agents.kruise.io/owner", "ada", false),
    ] {
        let wanted = [(key.to_owned(), value.to_owned())].into();
        assert_eq!(says(&test, &seen, &wanted), said, "{key}: exactly what is shown is found");
    }
}

/// What a claim has written down holds, whatever becomes of the set.
#[test]
fn what_the_user_gave_stays_his_own_when_the_set_changes_or_goes() {
    let test = TestCache::new();
    let template = |labels: Value| {
        let mut pool = set("base", 1);
        pool["spec"]["template"] = json!({"metadata": {"labels": labels}, "spec": {"containers": []}});
        pool
    };
    let pool = test.show::<SandboxSet>(&template(json!({"app": "web", "tier": "gold", "zone": "a"})));
    let mut sandbox = claimed("one", "ada", "id1");
    let labels = sandbox["metadata"]["labels"].as_object_mut().unwrap();
    // The user has said `tier` himself, with the template's value.
    for (key, value) in [("app", "web"), ("tier", "gold"), ("agents.kruise.io/sandbox-pool", "base")] {
        labels.insert(key.to_owned(), value.into());
    }
    let annotations = sandbox["metadata"]["annotations"].as_object_mut().unwrap();
    for (key, value) in [
        ("user", "ada"),
        ("zone", "b"),
        ("agents.kruise.io/updated-metadata-in-claim", r#"{"labels":["tier"],"annotations":["user"]}"#),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
    let seen = test.show::<SandboxFacts>(&sandbox);
    let is_right = |when: &str| {
        let shown = describe(&test, &seen, test.now()).metadata;
        assert_eq!(json!(shown), json!({"user": "ada", "tier": "gold"}), "{when}");
        for (key, value, said) in [("user", "ada", true), ("tier", "gold", true), ("app", "web", false)] {
            let wanted = [(key.to_owned(), value.to_owned())].into();
            assert_eq!(says(&test, &seen, &wanted), said, "{when}: {key}");
        }
    };
    is_right("the set is as it was");
    test.show::<SandboxSet>(&template(json!({"app": "other", "user": "ada"})));
    is_right("the set has changed");
    test.end(&pool);
    is_right("the set is gone");
    // One that nobody gave anything to has nothing of its own.
    sandbox["metadata"]["annotations"]["agents.kruise.io/updated-metadata-in-claim"] = "{}".into();
    sandbox["metadata"]["name"] = "two".into();
    let seen = test.show::<SandboxFacts>(&sandbox);
    assert!(describe(&test, &seen, test.now()).metadata.is_empty());
}

#[test]
fn the_template_of_a_sandbox_is_the_snapshot_that_its_label_cannot_name() {
    let test = TestCache::new();
    let mut sandbox = claimed("one", "ada", "id1");
    sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-template"] = "one-cp".into();
    for (from, template) in [("cp-1", "one-cp"), ("team/one:v1", "team/one:v1")] {
        sandbox["metadata"]["annotations"]["agents.kruise.io/restore-from"] = from.into();
        assert_eq!(template_name(&test.answer::<SandboxFacts>(&sandbox)), template);
    }
}

#[test]
fn a_template_that_is_named_gives_the_size() {
    let test = TestCache::new();
    let containers = json!([{"resources": {"limits": {"cpu": "2", "memory": "512Mi"}}}]);
    test.show::<SandboxTemplate>(
        &json!({"metadata": {"name": "big"}, "spec": {"template": {"spec": {"containers": containers}}}}),
    );
    let mut pool = set("base", 1);
    pool["spec"]["templateRef"] = json!({"name": "big"});
    let seen = test.show::<SandboxSet>(&pool);
    let template = describe_template(&test, &seen);
    assert_eq!((template.cpu_millis, template.memory_mb, template.available), (2000, 512, 0));
    assert_eq!(Size::of(None), Size::default());
}
