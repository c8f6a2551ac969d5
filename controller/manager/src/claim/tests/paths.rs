//! What a create writes on each of its ways, and what becomes of one that fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sandgate_sim::model::{CHECKPOINTS, Place, SANDBOX_TEMPLATES};
use sandgate_sim::network::{Operation, UnderWay};
use serde_json::{Value, json};

use super::world::{Fate, NAMESPACE, World, from_stock, name, pod, run, wanted};
use crate::{Caller, ErrorKind, NewSandbox, Reserve};

#[test]
fn a_sandbox_of_the_pool_costs_one_write_and_is_initialised_and_announced() {
    run(async {
        let mut world = World::with(1, 3);
        let create = world.create(0, wanted());
        let mut writes = 0;
        let given = world.end_with(create, |_| {
            writes += 1;
            Fate::Done
        });
        let given = name(&given.await);
        assert_eq!(writes, 1);
        assert_eq!(world.claimed(), [given.as_str()]);
        let sandbox = world.sandbox(&given);
        assert_eq!(sandbox["metadata"]["annotations"]["agents.kruise.io/owner"], "owner-1");
        assert_eq!(sandbox["metadata"]["ownerReferences"], Value::Null);
        assert_eq!(sandbox["spec"]["shutdownTime"], "2026-11-18T10:05:00Z");
        assert_eq!(sandbox["spec"]["template"]["metadata"]["labels"]["app"], "web", "the rest stays");
        let steps = &world.replicas[0].steps;
        assert_eq!([steps.count("admit"), steps.count("init"), steps.count("announce")], [1, 1, 1]);
        assert_eq!(steps.count("release") + steps.count("withdraw"), 0);
    });
}

#[test]
fn an_empty_pool_makes_one_that_is_nobodys_until_it_is_ready() {
    run(async {
        let mut world = World::with(1, 0);
        world.controls = false;
        let create = world.create(0, wanted());
        world.rounds(5).await;
        assert_eq!((world.sandboxes(), world.claimed().len()), (1, 0));
        world.controls = true;
        let given = world.end(create).await;
        let sandbox = world.sandbox(&name(&given));
        assert!(name(&given).starts_with("base-"));
        assert_eq!(sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-claimed"], "true");
        assert_eq!(sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-pool"], "base");
        assert_eq!(sandbox["metadata"]["labels"]["agents.kruise.io/template-hash"], "r1");
        assert_eq!(sandbox["spec"]["shutdownTime"], "2026-11-18T10:05:00Z", "the time of the claim counts");
    });
}

#[test]
fn one_that_never_becomes_ready_is_deleted_and_the_quota_is_given_back() {
    run(async {
        let mut world = World::with(1, 0);
        world.controls = false;
        let create = world.create(0, wanted());
        let error = world.end(create).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
        assert_eq!(world.sandboxes(), 0);
        let steps = &world.replicas[0].steps;
        assert_eq!([steps.count("admit"), steps.count("release"), steps.count("withdraw")], [1, 1, 1]);
    });
}

#[test]
fn one_that_fails_before_it_is_given_is_not_given() {
    run(async {
        let mut world = World::with(1, 0);
        let create = world.create(0, wanted());
        let gives = |call: &UnderWay| matches!(&*call.operation, Operation::Patch(..));
        let hold = |call: &UnderWay| if gives(call) { Fate::Held } else { Fate::Done };
        world.until(|world| world.under_way().iter().any(gives), hold).await;
        let place = world.under_way()[0].operation.target().unwrap();
        let mut failed = Value::clone(world.model.get(&place).unwrap());
        failed["status"]["phase"] = "Failed".into();
        world.model.put(&place, failed);
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Unavailable);
        assert_eq!(world.sandboxes(), 0);
    });
}

#[test]
fn a_runtime_that_does_not_answer_ends_the_sandbox() {
    run(async {
        let mut world = World::with(1, 2);
        world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
        let create = world.create(0, wanted());
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Timeout);
        assert_eq!((world.sandboxes(), world.claimed().len()), (1, 0));
    });
}

#[test]
fn a_sandbox_that_failed_is_reserved_where_that_was_asked_for() {
    for (reserve, ends) in [
        (Reserve::For(Duration::from_secs(60)), json!("2026-11-18T10:01:00Z")),
        (Reserve::Forever, Value::Null),
    ] {
        run(async {
            let mut world = World::with(1, 2);
            world.replicas[0].steps.init_fails.store(true, Ordering::Relaxed);
            let mut wanted = wanted();
            wanted.extensions.reserve_failed = reserve;
            let create = world.create(0, wanted);
            world.end(create).await.unwrap_err();
            let kept = world.claimed();
            let sandbox = world.sandbox(&kept[0]);
            assert_eq!(sandbox["metadata"]["labels"]["agents.kruise.io/reserved-failed-sandbox"], "true");
            assert_eq!(sandbox["spec"]["shutdownTime"], ends);
            assert_eq!(world.replicas[0].steps.count("release"), 0, "it exists");
        });
    }
}

#[test]
fn a_quota_that_is_used_up_writes_nothing() {
    run(async {
        let mut world = World::with(1, 2);
        world.replicas[0].steps.refuses.store(true, Ordering::Relaxed);
        let before = world.model.revision();
        let create = world.create(0, wanted());
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::QuotaExceeded);
        assert_eq!(world.model.revision(), before);
    });
}

#[test]
fn a_template_that_does_not_exist_is_a_wrong_field() {
    run(async {
        let mut world = World::with(1, 2);
        let create = world.create(0, NewSandbox { template: "other".to_owned(), ..wanted() });
        let error = world.end(create).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.starts_with("templateID: "), "{error}");
    });
}

#[test]
fn a_set_that_the_cache_does_not_show_yet_is_asked_for() {
    run(async {
        let mut world = World::with(1, 0);
        world.replicas[0].lags = true;
        world.set("new", "new");
        let create = world.create(0, NewSandbox { template: "new".to_owned(), ..wanted() });
        world.rounds(5).await;
        world.replicas[0].lags = false;
        assert!(name(&world.end(create).await).starts_with("new-"));
    });
}

#[test]
fn sandboxes_of_the_newest_revision_come_first() {
    run(async {
        let mut world = World::with(1, 0);
        world.stocked("base", "base", "r0");
        let newest = world.stocked("base", "base", "r1");
        world.stocked("base", "base", "r0");
        world.show();
        let create = world.create(0, wanted());
        assert_eq!(name(&world.end(create).await), newest);
        let create = world.create(0, from_stock());
        world.end(create).await.expect("an old one is better than none");
    });
}

#[test]
fn the_pool_of_a_set_with_a_template_of_another_name_is_found() {
    run(async {
        let mut world = World::with(1, 0);
        let template = json!({ "metadata": { "name": "shared" }, "spec": { "template": pod() } });
        world.model.create(&SANDBOX_TEMPLATES, NAMESPACE, template).unwrap();
        world.set("first", "shared");
        world.set("second", "shared");
        let others = world.stocked("first", "shared", "r1");
        let own = world.stocked("second", "shared", "r1");
        world.show();
        let wanted = NewSandbox { template: "second".to_owned(), ..from_stock() };
        let create = world.create(0, wanted.clone());
        assert_eq!(name(&world.end(create).await), own);
        let mut wanted = wanted;
        wanted.extensions.claim_timeout = Some(Duration::from_secs(1));
        let create = world.create(0, wanted);
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Unavailable);
        assert!(!world.claimed().contains(&others), "another set's sandbox is not taken");
    });
}

#[test]
fn another_image_waits_until_the_pod_has_it() {
    run(async {
        let mut world = World::with(1, 1);
        world.controls = false;
        let mut wanted = wanted();
        wanted.extensions.image = Some("other:2".to_owned());
        let create = world.create(0, wanted);
        world.rounds(20).await;
        assert!(!create.is_finished());
        assert_eq!(world.replicas[0].steps.count("init"), 0);
        world.controls = true;
        let given = world.end(create).await;
        let sandbox = world.sandbox(&name(&given));
        assert_eq!(sandbox["spec"]["template"]["spec"]["containers"][0]["image"], "other:2");
        assert_eq!(sandbox["spec"]["template"]["spec"]["containers"][0]["name"], "main");
    });
}

pub(super) fn snapshot(world: &mut World, owner: &str) {
    let checkpoint = json!({
        "metadata": {
            "name": "snap-1",
            "labels": { "agents.kruise.io/checkpoint-id": "cp-1" },
            "annotations": {
                "agents.kruise.io/owner": owner,
                "agents.kruise.io/init-runtime-request":
                    json!({ "envVars": { "A": "old", "B": "old" }, "accessToken": "was" }).to_string(),
            },
        },
        "spec": { "podName": "x" },
    });
    let made = world.model.create(&CHECKPOINTS, NAMESPACE, checkpoint).unwrap();
    let mut made = Value::clone(&made);
    made["status"] = json!({ "phase": "Succeeded", "checkpointId": "cp-1" });
    world.model.put(&Place::new(&CHECKPOINTS, NAMESPACE, "snap-1"), made);
    let template = json!({ "metadata": { "name": "snap-1" }, "spec": { "template": pod() } });
    world.model.create(&SANDBOX_TEMPLATES, NAMESPACE, template).unwrap();
}

#[test]
fn a_snapshot_gives_a_sandbox_that_starts_from_it_with_its_token() {
    run(async {
        let mut world = World::with(1, 1);
        snapshot(&mut world, "owner-1");
        world.show();
        let mut wanted = NewSandbox { template: "cp-1".to_owned(), ..wanted() };
        wanted.env_vars = [("A".to_owned(), "new".to_owned())].into();
        let create = world.create(0, wanted.clone());
        let given = world.end(create).await;
        let sandbox = world.sandbox(&name(&given));
        assert!(name(&given).starts_with("cp-1-"));
        let annotations = &sandbox["metadata"]["annotations"];
        assert_eq!(annotations["agents.kruise.io/restore-from"], "cp-1");
        assert_eq!(annotations["agents.kruise.io/runtime-access-token"], "was");
        let init: Value =
            serde_json::from_str(annotations["agents.kruise.io/init-runtime-request"].as_str().unwrap())
                .unwrap();
        assert_eq!(init, json!({ "envVars": { "A": "new", "B": "old" }, "accessToken": "was" }));
        assert_eq!(sandbox["metadata"]["labels"]["agents.kruise.io/sandbox-template"], "cp-1");

        wanted.extensions.name = Some("mine".to_owned());
        let create = world.create(0, wanted.clone());
        assert_eq!(name(&world.end(create).await), "mine");
        let create = world.create(0, wanted.clone());
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Conflict, "the name is taken");
        wanted.extensions.image = Some("other".to_owned());
        let create = world.create(0, wanted);
        assert_eq!(world.end(create).await.unwrap_err().kind, ErrorKind::Invalid);
    });
}

#[test]
fn anothers_snapshot_is_the_same_as_none() {
    run(async {
        let mut world = World::with(1, 1);
        snapshot(&mut world, "somebody");
        world.show();
        let create = world.create(0, NewSandbox { template: "cp-1".to_owned(), ..wanted() });
        let other = world.end(create).await.unwrap_err();
        let create = world.create(0, NewSandbox { template: "cp-2".to_owned(), ..wanted() });
        let none = world.end(create).await.unwrap_err();
        assert_eq!((other.kind, other.message.replace("cp-1", "cp-2")), (none.kind, none.message));
    });
}

#[test]
fn a_caller_of_all_namespaces_gets_the_set_of_the_first() {
    run(async {
        let mut world = World::with(1, 1);
        let claims = world.replicas[0].claims.clone().unwrap();
        let everywhere = Caller { namespace: None, ..super::world::caller() };
        let create = tokio::spawn(async move { claims.create(&everywhere, from_stock()).await });
        world.end(create).await.expect("a sandbox");
    });
}
