use sandgate_cache::Viewed as _;

use super::*;
use crate::claim::write::Mark;
use crate::{Caller, NewSandbox};

fn order() -> Order {
    let caller = Caller { owner: "me".into(), team: "t".into(), namespace: None, quota: Arc::new([]) };
    Order {
        caller,
        wanted: NewSandbox::default(),
        lock: "lock1".to_owned(),
        token: Some("token1".to_owned()),
        traffic_token: Some("traffic1".to_owned()),
        marker: Some(Mark { name: "hash".to_owned(), uid: "m-1".into() }),
    }
}

fn source(name: &str) -> Source {
    let set = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": "u", "resourceVersion": "1" },
        "spec": {
            "replicas": 1,
            "persistentContents": ["filesystem"],
            "template": {
                "metadata": {
                    "labels": { "app": "web", "agents.kruise.io/owner": "x" },
                    "annotations": { "agents.kruise.io/cleanup-enabled": "true", "agents.kruise.io/cleanup": "true" },
                },
                "spec": { "containers": [{ "name": "main" }] },
            },
        },
        "status": { "updateRevision": "r7" },
    });
    let set = Arc::new(SandboxSet::read(set.to_string().as_bytes()).unwrap());
    let contents = contents_of(&set, None).unwrap();
    Source::Set { set, contents }
}

#[test]
fn a_new_sandbox_is_nobodys_and_ends_soon() {
    let key = Key::new("ns", "base-x");
    let ends = "2026-11-18T10:03:00Z".parse().unwrap();
    let made = sandbox(&source("base"), &key, &order(), ends).unwrap();
    assert_eq!(
        made,
        json!({
            "apiVersion": "agents.kruise.io/v1alpha1",
            "kind": "Sandbox",
            "metadata": {
                "name": "base-x",
                "namespace": "ns",
                "labels": {
                    "app": "web",
                    "agents.kruise.io/sandbox-pool": "base",
                    "agents.kruise.io/sandbox-template": "base",
                    "agents.kruise.io/sandbox-claimed": "false",
                    "agents.kruise.io/template-hash": "r7",
                    "sandgate.dev/create": "hash",
                    "sandgate.dev/create-uid": "m-1",
                },
                "annotations": {
                    "agents.kruise.io/cleanup-enabled": "true",
                    "agents.kruise.io/lock": "lock1",
                    "agents.kruise.io/runtime-access-token": "token1",
                    "agents.kruise.io/sandbox-priority": "100",
                    "sandgate.dev/traffic-access-token": "traffic1",
                },
            },
            "spec": {
                "shutdownTime": "2026-11-18T10:03:00Z",
                "persistentContents": ["filesystem"],
                "template": {
                    "metadata": {
                        "labels": {
                            "app": "web",
                            "agents.kruise.io/owner": "me",
                            "agents.kruise.io/sandbox-name": "base-x",
                            "agents.kruise.io/allow-internet-access": "true",
                        },
                        "annotations": {
                            "agents.kruise.io/cleanup-enabled": "true",
                            "agents.kruise.io/cleanup": "true",
                        },
                    },
                    "spec": { "containers": [{ "name": "main" }] },
                },
            },
        })
    );
}

#[test]
fn a_template_gives_no_sandbox_a_traffic_token() {
    let Source::Set { set, mut contents } = source("base") else { panic!("a set") };
    let template =
        json!({ "metadata": { "annotations": { "sandgate.dev/traffic-access-token": "everybodys" } } });
    contents.template = Some(PodTemplate::new(&template));
    let order = Order { traffic_token: None, ..order() };
    let made = sandbox(&Source::Set { set, contents }, &Key::new("ns", "a"), &order, Timestamp::MIN).unwrap();
    assert_eq!(made["metadata"]["annotations"].get("sandgate.dev/traffic-access-token"), None);
}

#[test]
fn names_fit_into_a_label() {
    for (set, start) in [("base", "base-".to_owned()), (&"a".repeat(90), "a".repeat(52) + "-")] {
        let key = source(set).name(None, "0123456789");
        assert_eq!(&*key.name, format!("{start}0123456789"));
        assert!(key.name.len() <= MAX_NAME);
    }
    assert_eq!(name_of("Cp_1.x"), "cp-1-x");
    assert_eq!(name_of("___"), "clone");
}

#[test]
fn the_values_of_labels_are_known() {
    for (text, is) in
        [("cp-1", true), ("a.B_c", true), ("", false), ("-a", false), ("a-", false), ("a b", false)]
    {
        assert_eq!(is_label_value(text), is, "{text:?}");
    }
    assert!(!is_label_value(&"a".repeat(64)));
}

#[test]
fn what_is_no_name_is_no_part_of_a_path() {
    for (text, is) in [
        ("base", true),
        ("a.b-1", true),
        ("", false),
        ("..", false),
        ("a/b", false),
        ("a:b", false),
        ("A", false),
    ] {
        assert_eq!(is_object_name(text), is, "{text:?}");
    }
}

#[test]
fn a_set_whose_template_does_not_exist_makes_nothing() {
    let set = SandboxSet::new("base", Default::default());
    assert_eq!(contents_of(&set, None).unwrap_err().kind, ErrorKind::Conflict);
}
