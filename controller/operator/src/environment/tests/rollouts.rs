use sandgate_objects::sandbox_env::resources::{Member, SandboxEnv, SandboxTemplate};
use serde_json::{Value, json};

use super::super::rollout::{Followed, follow, follows};
use super::world::*;

const HASH: &str = "agentbox.navix.sh/template-hash";

fn followed(env: &Value, template: &Value, member: &Member) -> Option<Followed> {
    let (env, template): (SandboxEnv, SandboxTemplate) = (read(env), read(template));
    follow(&env, &template, member, Some(false)).unwrap()
}

/// A member that is up to date.
fn up_to_date() -> Member {
    let first = followed(&env(&[]), &template(), &read(&member("e-a", 4))).unwrap();
    assert_eq!(first.rolls_to.as_ref(), first.member.metadata.labels.get(HASH));
    first.member
}

fn pods_of(member: &Member) -> Value {
    member.spec.template.as_ref().unwrap().parse().unwrap()
}

#[test]
fn a_member_that_is_up_to_date_stays_as_it_is() {
    assert_eq!(followed(&env(&[]), &template(), &up_to_date()), None);
}

#[test]
fn what_an_admission_has_written_survives_and_what_the_template_lost_goes() {
    let mut old = template();
    old["spec"]["template"]["spec"]["affinity"] = json!({"x": 1});
    let mut member = followed(&env(&[]), &old, &up_to_date()).unwrap().member;
    let before = pods_of(&member);
    assert_eq!(before["spec"]["affinity"], json!({"x": 1}));
    // A scheduler's plugin has its marks on the pods and on the pool.
    let mut pods = before.clone();
    pods["metadata"]["labels"]["scheduler"] = json!("queue-1");
    pods["metadata"]["annotations"] = json!({"scheduler": "yes"});
    member.spec.template = Some(sandgate_objects::sandbox_env::resources::PodTemplate::new(&pods));
    member.metadata.labels.insert("pool-mark".to_owned(), "x".to_owned());
    assert_eq!(followed(&env(&[]), &old, &member), None, "the marks alone roll nothing");
    let mut new = template();
    new["spec"]["version"] = json!("2");
    new["spec"]["template"]["metadata"]["labels"]["of"] = json!("template 2");
    let Followed { member: after, rolls_to } = followed(&env(&[]), &new, &member).unwrap();
    let pods = pods_of(&after);
    assert_eq!(pods["spec"]["affinity"], json!(null));
    assert_eq!(pods["metadata"]["labels"]["scheduler"], "queue-1");
    assert_eq!(pods["metadata"]["annotations"]["scheduler"], "yes");
    assert_eq!(pods["metadata"]["labels"]["of"], "template 2", "the new goes before the old");
    let hash = rolls_to.unwrap();
    assert_eq!((&after.metadata.labels[HASH], &pods["metadata"]["labels"][HASH]), (&hash, &json!(hash)));
    assert_ne!(before["metadata"]["labels"][HASH], json!(hash));
    assert_eq!(after.metadata.labels["pool-mark"], "x");
    assert_eq!(after.metadata.annotations["agentbox.navix.sh/template-version"], "2");
    assert_eq!(after.spec.replicas, 4);
    assert_eq!(followed(&env(&[]), &new, &after), None);
}

#[test]
fn a_pool_of_anothers_revision_keeps_it_while_its_content_means_the_same() {
    let mut member = up_to_date();
    let mut pods = pods_of(&member);
    pods["metadata"]["labels"][HASH] = json!("0badcafe");
    pods["metadata"]["creationTimestamp"] = json!(null);
    pods["spec"]["containers"][0]["resources"]["limits"]["cpu"] = json!("2000m");
    member.spec.template = Some(sandgate_objects::sandbox_env::resources::PodTemplate::new(&pods));
    member.metadata.labels.insert(HASH.to_owned(), "0badcafe".to_owned());
    assert_eq!(followed(&env(&[]), &template(), &member), None);
    let mut sidecar = template();
    let containers = sidecar["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "sidecar", "image": "s:1"}));
    assert!(followed(&env(&[]), &sidecar, &member).unwrap().rolls_to.is_some());
}

#[test]
fn what_pods_are_not_made_of_is_written_and_rolls_nothing() {
    let member = up_to_date();
    let mut env = env(&[]);
    env["spec"]["overrides"] = json!({
        "defaultIdleTimeout": "1h", "defaultStartupTimeout": "2m", "image": "main:2",
        "updateStrategy": {"maxUnavailable": 2},
    });
    let mut renamed = template();
    renamed["metadata"]["name"] = json!("t2");
    let Followed { member: after, rolls_to } = followed(&env, &renamed, &member).unwrap();
    assert_eq!(rolls_to, None);
    let spec = serde_json::to_value(&after.spec).unwrap();
    assert_eq!((&spec["defaultIdleTimeout"], &spec["defaultStartupTimeout"]), (&json!("1h"), &json!("2m")));
    assert_eq!((&spec["maxUnavailable"], &spec["templateName"]), (&json!(2), &json!("t2")));
    // Pods wait with the idle image: the one that a claim puts in is no part of the revision.
    assert_eq!(pods_of(&after)["spec"]["containers"][0]["image"], "main:2");
    assert_eq!(after.metadata, member.metadata);
    assert_eq!(followed(&env, &renamed, &after), None);
}

#[test]
fn where_it_is_not_known_whether_the_pull_secret_exists_nothing_rolls() {
    let (env, template): (SandboxEnv, SandboxTemplate) = (read(&env(&[])), read(&template()));
    for has in [true, false] {
        let first = follow(&env, &template, &read(&member("e-a", 4)), Some(has)).unwrap().unwrap();
        assert_eq!(follow(&env, &template, &first.member, None).unwrap(), None, "{has}");
        assert!(follow(&env, &template, &first.member, Some(!has)).unwrap().is_some());
    }
}

#[test]
fn the_member_decides_whether_it_follows_then_the_environment_and_then_it_does() {
    for (own, of_env, expected) in [
        (None, None, true),
        (None, Some(false), false),
        (Some(true), Some(false), true),
        (Some(false), Some(true), false),
    ] {
        let mut member = member("e-a", 1);
        member["config"]["updateStrategy"] = json!({"autoUpdate": own});
        let overrides = read(&json!({"updateStrategy": {"autoUpdate": of_env}}));
        assert_eq!(follows(&read(&member), Some(&overrides)), expected, "{own:?} {of_env:?}");
    }
    assert!(follows(&read(&member("e-a", 1)), None));
}

#[tokio::test]
async fn a_change_of_the_template_rolls_the_pools_that_follow_and_no_other() {
    let world = World::of(&[member("e-a", 2), frozen("e-b", 2)]);
    world.settle().await;
    let before = ["e-a", "e-b"].map(|name| world.pool(name));
    world.reasons();
    world.server.change_in("", TEMPLATES, "t", |template| {
        template["spec"]["version"] = json!("2");
        template["spec"]["idleImage"] = json!("idle:2");
    });
    world.settle().await;
    let after = ["e-a", "e-b"].map(|name| world.pool(name));
    assert_eq!(after[0]["spec"]["idleImage"], "idle:2");
    assert_ne!(after[0]["metadata"]["labels"][HASH], before[0]["metadata"]["labels"][HASH]);
    assert_eq!(after[0]["metadata"]["annotations"]["agentbox.navix.sh/template-version"], "2");
    assert_eq!(after[1], before[1]);
    assert_eq!(world.reasons(), ["TemplateRollout"]);
}

#[tokio::test]
async fn a_template_that_is_missing_or_cannot_be_rendered_leaves_the_others_alone_and_is_told_once() {
    let world = World::of(&[member("e-a", 2)]);
    world.settle().await;
    let before = world.pool("e-a");
    world.reasons();
    world.server.change_in("", TEMPLATES, "t", |template| template["spec"]["idleImage"] = json!("main:1"));
    for _ in 0..3 {
        world.advance(400);
        world.settle().await;
    }
    assert_eq!(world.pool("e-a"), before);
    assert_eq!(world.reasons(), ["MemberNotReady"]);
    world.server.remove_in("", TEMPLATES, "t");
    world.settle().await;
    assert_eq!((world.pool("e-a"), world.reasons()), (before, vec!["MemberNotReady"]));
}
