use sandgate_objects::sandbox_env::resources::{Member, SandboxEnv, SandboxTemplate};
use serde_json::{Value, json};

use super::super::render::{RenderError, Rendered, render};
use super::world::*;

/// What an environment, a template and a member are rendered to.
struct Case {
    env: Value,
    template: Value,
    member: Value,
    has_secret: bool,
}

impl Case {
    fn new() -> Self {
        Self { env: env(&[]), template: template(), member: member("e-a", 4), has_secret: false }
    }

    fn render(&self) -> Result<Rendered, RenderError> {
        let (env, template, member): (SandboxEnv, SandboxTemplate, Member) =
            (read(&self.env), read(&self.template), read(&self.member));
        render(&env, &template, &member, self.has_secret)
    }

    /// The spec as JSON.
    fn spec(&self) -> Value {
        serde_json::to_value(self.render().unwrap().spec).unwrap()
    }
}

#[test]
fn a_pool_is_the_template_with_what_the_environment_says() {
    let mut case = Case::new();
    case.has_secret = true;
    case.env["spec"]["overrides"] = json!({
        "image": "own:1", "podCreationImagePolicy": "IdleImage", "defaultStartupTimeout": "2m",
        "defaultIdleTimeout": "0s", "gateway": {"enabled": true}, "updateStrategy": {"maxUnavailable": "10%"},
    });
    let rendered = case.render().unwrap();
    let mut expected = pods("own:1");
    expected["metadata"]["labels"]["agentbox.navix.sh/template-hash"] = json!(rendered.hash);
    expected["spec"]["imagePullSecrets"] = json!([{"name": "ips-e"}]);
    assert_eq!(
        case.spec(),
        json!({
            "replicas": 4, "templateName": "t", "idleImage": "idle:1", "template": expected,
            "podCreationImagePolicy": "IdleImage", "defaultStartupTimeout": "2m", "defaultIdleTimeout": "0s",
            "gateway": {"enabled": true}, "maxUnavailable": "10%",
        })
    );
    // The member's own goes before the environment's.
    case.member["config"]["updateStrategy"] = json!({"maxUnavailable": 3});
    assert_eq!(case.spec()["maxUnavailable"], 3);
}

#[test]
fn labels_and_annotations_come_from_all_and_the_members_go_last() {
    let mut case = Case::new();
    case.env["metadata"]["labels"]["unbilled"] = json!("x");
    case.member["config"]["labels"] = json!({"app": "mine"});
    case.member["config"]["annotations"] = json!({"note": "mine", "agentbox.navix.sh/template-name": "lie"});
    let Rendered { metadata, hash, .. } = case.render().unwrap();
    let metadata = serde_json::to_value(metadata).unwrap();
    assert_eq!(
        metadata,
        json!({
            "labels": {
                "scheduling.navix.sh/team": "red", "app": "mine", "agentbox.navix.sh/template-hash": hash,
            },
            "annotations": {
                "note": "mine", "agentbox.navix.sh/template-name": "t",
                "agentbox.navix.sh/template-version": "1",
            },
        })
    );
}

#[test]
fn the_resources_are_the_members_own_or_those_it_was_admitted_with_or_the_templates() {
    let own = json!({"limits": {"cpu": "8"}});
    let of = |case: &Case| case.spec()["template"]["spec"]["containers"][0]["resources"].clone();
    let mut case = Case::new();
    assert_eq!(of(&case)["limits"]["cpu"], "2");
    // A size from the catalog was looked up when the member was admitted.
    case.member["config"]["instanceType"] = json!("c4");
    case.member["spec"]["template"] = pods("main:1");
    case.member["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "4"}});
    assert_eq!(of(&case)["limits"]["cpu"], "4");
    case.member["config"]["inlineResources"] = own.clone();
    assert_eq!(of(&case), own);
}

#[test]
fn volume_claims_are_mounted_read_only_unless_said_otherwise_each_claim_once() {
    let mut case = Case::new();
    case.env["spec"]["overrides"] = json!({"volumes": [
        {"claimName": "data", "mountPath": "/data"},
        {"claimName": "data", "mountPath": "/home", "subPath": "home", "readOnly": false},
        {"claimName": "more", "mountPath": "/more"},
    ]});
    let pods = case.spec()["template"]["spec"].clone();
    assert_eq!(
        pods["volumes"],
        json!([
            {"name": "env-volume-0", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "env-volume-1", "persistentVolumeClaim": {"claimName": "more"}},
        ])
    );
    assert_eq!(
        pods["containers"][0]["volumeMounts"],
        json!([
            {"name": "env-volume-0", "mountPath": "/data", "readOnly": true},
            {"name": "env-volume-0", "mountPath": "/home", "readOnly": false, "subPath": "home"},
            {"name": "env-volume-1", "mountPath": "/more", "readOnly": true},
        ])
    );
}

#[test]
fn what_cannot_be_rendered_is_refused_with_its_reason() {
    let volume = |claim: &str, path: &str| json!({"claimName": claim, "mountPath": path});
    let volumes = |volumes: &[Value]| json!({"volumes": volumes});
    let cases: [(&str, &str, Value); 10] = [
        ("member", "/name", json!("")),
        ("template", "/spec/template", json!({"spec": {"containers": []}})),
        ("template", "/spec/template", json!({"spec": {"containers": ["no object"]}})),
        ("template", "/spec/idleImage", json!("")),
        ("template", "/spec/idleImage", json!("main:1")),
        ("env", "/spec/overrides", volumes(&vec![volume("c", "/p"); 9])),
        ("env", "/spec/overrides", volumes(&[volume("", "/p")])),
        ("env", "/spec/overrides", volumes(&[volume("c", "p")])),
        ("env", "/spec/overrides", volumes(&[volume("c", "/p"), volume("d", "/p/")])),
        ("env", "/spec/overrides", json!({"image": "idle:1"})),
    ];
    let mut said = std::collections::BTreeSet::new();
    for (of, pointer, value) in cases {
        let mut case = Case::new();
        let object = match of {
            "env" => &mut case.env,
            "template" => &mut case.template,
            _ => &mut case.member,
        };
        let (at, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(at).unwrap()[field] = value.clone();
        said.insert(case.render().expect_err(&format!("{pointer} {value}")).to_string());
    }
    assert_eq!(said.len(), 9, "{said:?}");
    // A pod that waits with its own image needs no other.
    let mut case = Case::new();
    case.template["spec"]["idleImage"] = json!(null);
    case.env["spec"]["overrides"] = json!({"podCreationImagePolicy": "PoolDefaultImage"});
    assert!(case.render().is_ok());
}
