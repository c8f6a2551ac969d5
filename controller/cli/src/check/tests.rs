use std::fs;
use std::sync::Arc;
use std::time::SystemTime;

use sandgate_routes::State;
use sandgate_watch::{Provider as _, Resource, Trouble};
use serde_json::json;
use tempfile::TempDir;

use super::report::{Line, Report};
use super::settings::{Subject, subject};
use super::tally::{Counted, Tally};
use super::{hints, title};
use crate::args::Check;
use crate::terminal::several;

fn args() -> Check {
    Check {
        config: None,
        kubeconfig: None,
        context: None,
        providers: Vec::new(),
        namespaces: Vec::new(),
        timeout: 15,
        json: false,
    }
}

fn texts(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn report() -> Report {
    let mut report = Report::new(false);
    report.add(Line::ok("API server", "v1.36.3 at https://127.0.0.1:6443"));
    report.section("openkruise: sandboxes.agents.kruise.io/v1alpha1 in all namespaces");
    report.add(
        Line::fail("right to watch", "missing in all namespaces").hint("kubectl apply -f a.yaml\nkubectl b"),
    );
    report.add(Line::warn("sandboxes", "none").data(json!({ "running": 0 })));
    report.add(
        Line::fail("unreadable", "1 object:").details([String::from("team/a: status.podIP: \u{1b}[2Jx")]),
    );
    report
}

#[test]
fn every_line_has_a_mark_a_name_a_text_and_its_hint_below() {
    let mut report = report();
    report.finish();
    let expected = "\
ok    API server      v1.36.3 at https://127.0.0.1:6443

openkruise: sandboxes.agents.kruise.io/v1alpha1 in all namespaces
fail  right to watch  missing in all namespaces
                      hint: kubectl apply -f a.yaml
                            kubectl b
warn  sandboxes       none
fail  unreadable      1 object:
                      - team/a: status.podIP:  [2Jx

2 failures, 1 warning.
";
    assert_eq!(report.text(), expected);
    assert_eq!(report.exit_code(), 1);
}

#[test]
fn the_same_for_programs() {
    let json = report().to_json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["checks"][0]["mark"], "ok");
    assert!(json["checks"][0].get("about").is_none(), "{json}");
    let watch = &json["checks"][1];
    assert_eq!((&watch["name"], &watch["mark"]), (&json!("right to watch"), &json!("fail")));
    assert!(watch["about"].as_str().unwrap().starts_with("openkruise: "), "{json}");
    assert_eq!(watch["hint"], "kubectl apply -f a.yaml\nkubectl b");
    assert_eq!(json["checks"][2]["data"], json!({ "running": 0 }));
    assert_eq!(json["checks"][3]["details"].as_array().unwrap().len(), 1);
}

#[test]
fn only_a_failure_makes_the_exit_code_one() {
    for (line, code, last) in [
        (Line::ok("list", ""), 0, "All good."),
        (Line::skip("definition", ""), 0, "All good."),
        (Line::warn("sandboxes", "none"), 0, "Good, with 1 warning."),
        (Line::fail("list", ""), 1, "1 failure."),
    ] {
        let mut report = Report::new(false);
        report.add(line);
        report.finish();
        assert_eq!(report.exit_code(), code);
        assert!(report.text().trim_end().ends_with(last), "{}", report.text());
    }
    assert_eq!((several(1, "object"), several(0, "object")), ("1 object".to_owned(), "0 objects".to_owned()));
}

fn sandboxes() -> Resource {
    Resource {
        group: "agents.kruise.io".to_owned(),
        version: "v1alpha1".to_owned(),
        kind: "Sandbox".to_owned(),
        plural: "sandboxes".to_owned(),
    }
}

#[test]
fn a_missing_right_names_the_file_to_apply_and_the_binding_for_whoever_asks() {
    let account = "system:serviceaccount:sandgate-system:sandgate";
    let hint = |provider, namespace, user| hints::right(provider, &sandboxes(), namespace, user);
    assert_eq!(hint("openkruise", None, account), "kubectl apply -f envoy/deploy/rbac/openkruise.yaml");
    let other = hint("openkruise", None, "Jane O'Hara");
    assert!(other.ends_with(r"--clusterrole=sandgate-openkruise --user='Jane O'\''Hara'"), "{other}");
    let here = hint("agent-sandbox", Some("team-a"), account);
    assert!(here.contains("envoy/deploy/rbac/agent-sandbox.yaml"), "{here}");
    assert!(here.contains("create rolebinding sandgate-agent-sandbox -n team-a"), "{here}");
    assert!(here.ends_with("--serviceaccount=sandgate-system:sandgate"), "{here}");
    let generic = hint("mine", None, account);
    assert!(generic.contains("apiGroups: [\"agents.kruise.io\"] and resources: [sandboxes]"), "{generic}");
}

#[test]
fn the_files_that_hints_name_exist() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    for provider in ["openkruise", "agent-sandbox", "opensandbox", "sandbox-env"] {
        let hint =
            hints::right(provider, &sandboxes(), None, "system:serviceaccount:sandgate-system:sandgate");
        let file = hint.rsplit(' ').next().unwrap();
        let text = fs::read_to_string(format!("{root}{file}")).unwrap_or_else(|e| panic!("{file}: {e}"));
        assert!(text.contains(&format!("name: sandgate-{provider}\n")), "{file}");
        assert!(text.contains("name: sandgate\n    namespace: sandgate-system\n"), "{file}");
    }
}

#[test]
fn every_trouble_has_a_hint_of_its_own() {
    use Trouble::*;
    let all = [Config, Unreachable, Certificate, Credentials, Forbidden, Absent, Busy, Other]
        .map(hints::connection);
    for (at, hint) in all.iter().enumerate() {
        assert!(!hint.is_empty() && !all[..at].contains(hint), "{hint}");
    }
}

fn watched(subject: &Subject) -> Vec<String> {
    subject.settings.watched().iter().map(title).collect()
}

#[test]
fn with_no_config_all_kinds_are_looked_for_and_none_must_be_there() {
    let found = subject(&args()).unwrap();
    assert!(found.optional);
    assert_eq!(found.settings.watched().len(), 3);
    let found = subject(&Check { providers: texts(&["opensandbox", "opensandbox"]), ..args() }).unwrap();
    assert!(!found.optional);
    assert_eq!(
        watched(&found),
        ["opensandbox: batchsandboxes.sandbox.opensandbox.io/v1alpha1 in all namespaces"]
    );
    let found = subject(&Check { providers: texts(&["sandbox-env"]), ..args() }).unwrap();
    let selector = sandgate_objects::sandbox_env::SELECTOR;
    assert_eq!(watched(&found), [format!("sandbox-env: pods/v1 in all namespaces, with labels {selector}")]);
    let error = subject(&Check { providers: texts(&["open"]), ..args() }).unwrap_err();
    assert!(error.to_string().starts_with("--provider open: expected one of openkruise, "), "{error}");
}

#[test]
fn a_config_of_opensandbox_without_pod_ranges_is_refused_as_a_gateway_refuses_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gateway.yaml");
    let write = |more: &str| {
        let text = format!("gateway:\n  kubernetes:\n    providers: [{{ kind: opensandbox }}]\n{more}");
        fs::write(&file, text).unwrap();
    };
    let configured = Check { config: Some(file.clone()), ..args() };
    write("");
    let error = subject(&configured).unwrap_err().to_string();
    assert!(error.contains("kubernetes.providers[0]: ") && error.contains("`pod-ranges`"), "{error}");
    write("  pod-ranges: [10.244.0.0/16]\n");
    assert!(subject(&configured).unwrap().addresses.has_ranges());
    // With no config there is nothing to refuse: all kinds are looked at.
    assert!(!subject(&args()).unwrap().addresses.has_ranges());
}

#[test]
fn a_config_is_checked_as_it_is_or_narrowed_by_the_command_line() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(
        &file,
        "gateway:\n  kubernetes:\n    context: one\n    providers:\n      - kind: openkruise\n        namespaces: [a, b]\n      - \
         kind: agent-sandbox\n        label-selector: x=y\n",
    )
    .unwrap();
    let base = || Check { config: Some(file.clone()), ..args() };
    let whole = subject(&base()).unwrap();
    assert!(!whole.optional);
    assert_eq!(
        watched(&whole),
        [
            "openkruise: sandboxes.agents.kruise.io/v1alpha1 in a, b",
            "agent-sandbox: sandboxes.agents.x-k8s.io/v1beta1 in all namespaces, with labels x=y",
        ]
    );
    assert_eq!(whole.settings.context(), Some("one"));

    let some = Check {
        namespaces: texts(&["b", "c"]),
        context: Some("two".to_owned()),
        kubeconfig: Some("k".into()),
        ..base()
    };
    let some = subject(&some).unwrap();
    assert_eq!(some.settings.watched()[0].namespaces, ["b"]);
    assert_eq!(some.settings.watched()[1].namespaces, ["b", "c"]);
    assert_eq!(some.settings.context(), Some("two"));
    assert_eq!(some.settings.kubeconfig().unwrap().to_str(), Some("k"));

    let one = subject(&Check { providers: texts(&["agent-sandbox"]), ..base() }).unwrap();
    assert_eq!(one.settings.watched().len(), 1);
    let none = Check { providers: texts(&["openkruise"]), namespaces: texts(&["c"]), ..base() };
    assert!(subject(&none).unwrap_err().to_string().contains("no provider of the config watches c"));
    let unknown = subject(&Check { providers: texts(&["opensandbox"]), ..base() }).unwrap_err();
    assert!(unknown.to_string().ends_with("but openkruise, agent-sandbox"), "{unknown}");
}

#[test]
fn a_config_without_a_cluster_is_a_mistake_unless_a_provider_is_named() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, "gateway: { routes-file: r.yaml }\n").unwrap();
    let error = subject(&Check { config: Some(file.clone()), ..args() }).unwrap_err();
    assert!(error.to_string().contains("no gateway.kubernetes section"), "{error}");
    let named = Check { config: Some(file), providers: texts(&["openkruise"]), ..args() };
    assert_eq!(subject(&named).unwrap().settings.watched().len(), 1);
}

#[test]
fn an_object_is_counted_once_in_its_last_state_and_an_unreadable_one_not_at_all() {
    let found = subject(&Check { providers: texts(&["openkruise"]), ..args() }).unwrap();
    let tally = Tally::default();
    let provider = Arc::clone(&found.settings.watched()[0].provider);
    let counted = Counted { provider, tally: tally.clone() };
    let see = |namespace: &str, phase: &str, version: u32| {
        let object = json!({
            "metadata": { "namespace": namespace, "name": "a", "uid": "u", "resourceVersion": version.to_string() },
            "status": { "phase": phase, "podInfo": { "podIP": "10.0.0.1" }, "conditions": [{ "type": "Ready", "status": "True" }] },
        });
        counted.project(object.to_string().as_bytes(), SystemTime::now()).unwrap();
    };
    see("one", "Running", 1);
    see("one", "Failed", 2);
    see("two", "Running", 3);
    assert!(counted.project(b"{}", SystemTime::now()).is_err());
    assert_eq!(tally.seen(), 2);
    assert_eq!(tally.by_state(None), [(State::Running, 1), (State::Dead, 1)]);
    assert_eq!(tally.by_state(Some("one")), [(State::Dead, 1)]);
    assert_eq!(tally.by_state(Some("three")), []);
}
