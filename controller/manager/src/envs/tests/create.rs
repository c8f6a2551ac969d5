//! Creates: which pod, whose, and what remains of those that fail.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sandgate_objects::sandbox_env::names;
use sandgate_sim::model::{ENV_POOLS, PODS, Place};
use serde_json::{Value, json};

use super::world::{env, of_shop, on, phases, pod, shop, stock, wishing};
use crate::manager::tests::world::{Fate, NAMESPACE, World, caller, kind, pass, run, somebody, wanted};
use crate::{Described, Dimension, Error, ErrorKind, Limit, Network, NewSandbox, Scope};

async fn create(world: &mut World, replica: usize, new: NewSandbox) -> Result<Described, Error> {
    on!(world, replica, |manager| manager.create(&somebody(), new))
}

/// The name of the pod of a sandbox.
fn name(created: &Described) -> &str {
    created.resource.split_once('/').unwrap().1
}

#[test]
fn the_pool_with_the_most_idle_pods_is_taken_among_those_of_the_lowest_priority() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0), ("b", 3, 0), ("c", 9, 1)]);
        let mut taken = Vec::new();
        for _ in 0..3 {
            taken.push(name(&create(&mut world, 0, of_shop()).await.unwrap()).to_owned());
        }
        // The oldest pod first; of equal pools the first by name.
        assert_eq!(taken, ["b-0", "b-1", "a-0"]);
    });
}

#[test]
fn a_pod_of_the_newest_template_is_taken_before_an_older_one() {
    run(async {
        let mut world = shop(1, &[("a", 3, 0)]);
        let pool = Place::new(&ENV_POOLS, NAMESPACE, "a");
        let mut known = Value::clone(world.model.get(&pool).unwrap());
        known["status"]["updateRevision"] = json!("new");
        world.model.put(&pool, known);
        for (name, hash) in [("a-0", "old"), ("a-1", "old"), ("a-2", "new")] {
            let place = Place::new(&PODS, NAMESPACE, name);
            let mut pod = Value::clone(world.model.get(&place).unwrap());
            pod["metadata"]["labels"][names::LABEL_TEMPLATE_HASH] = json!(hash);
            world.model.put(&place, pod);
        }
        let mut taken = Vec::new();
        for _ in 0..2 {
            taken.push(name(&create(&mut world, 0, of_shop()).await.unwrap()).to_owned());
        }
        assert_eq!(taken, ["a-2", "a-0"], "the newest, and then the oldest of the others");
    });
}

#[test]
fn a_sandbox_runs_with_its_image_and_its_runtime_when_the_answer_comes() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let made = create(&mut world, 0, of_shop()).await.unwrap();
        assert_eq!((made.template.as_str(), made.resource.as_str()), ("shop", "team/a-0"));
        assert!(made.id.len() == 36 && !made.id.contains('.'), "{}", made.id);
        assert_eq!((made.cpu_millis, made.memory_mb), (500, 1024));
        assert_eq!(made.metadata, [("user".to_owned(), "ada".to_owned())].into());
        let is = pod(&world, "a-0");
        assert_eq!((is.label(names::LABEL_PHASE), is.sandbox_id()), ("running", made.id.as_str()));
        assert_eq!(is.annotation(names::ANNOTATION_OWNER), "owner-1");
        assert_eq!(is.annotation(names::ANNOTATION_IDLE_TIMEOUT), "300");
        assert_eq!(is.containers[0].image, "app:1");
        let token = made.access_token.unwrap();
        assert_eq!(is.annotation(names::ANNOTATION_ACCESS_TOKEN), token.reveal());
        let asked = world.envd.asked.lock().clone();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].0, "http://10.0.0.7:49983/init");
        assert!(asked[0].1.contains(token.reveal()));
        let told = world.told.messages.lock().clone();
        assert_eq!((told.len(), told[0].state.as_str(), told[0].id.as_str()), (1, "running", &*made.id));
        assert_eq!((told[0].provider.as_str(), told[0].owner.as_str()), ("sandbox-env", "owner-1"));
        let uid = is.metadata.uid.unwrap();
        assert_eq!(told[0].uid, format!("{uid}/{}", made.id));
    });
}

#[test]
fn a_traffic_token_ends_with_its_sandbox_and_the_next_one_of_the_pod_has_none() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let annotation =
            |world: &World| pod(world, "a-0").annotation(names::ANNOTATION_TRAFFIC_ACCESS_TOKEN).to_owned();
        let private = || NewSandbox { private_traffic: true, ..of_shop() };
        let first = create(&mut world, 0, private()).await.unwrap();
        let token = first.traffic_token.unwrap();
        assert_eq!(annotation(&world), token.reveal());
        assert_eq!(world.told.messages.lock()[0].traffic_access_token, token.reveal());
        world.controls = false;
        on!(world, 0, |manager| manager.kill(&somebody(), &first.id)).unwrap();
        assert_eq!((phases(&world), annotation(&world)), (vec!["stopping".to_owned()], String::new()));
        world.controls = true;
        world.rounds(10).await;
        let open = create(&mut world, 0, of_shop()).await.unwrap();
        assert_eq!((open.traffic_token, annotation(&world)), (None, String::new()));
        on!(world, 0, |manager| manager.kill(&somebody(), &open.id)).unwrap();
        world.rounds(10).await;
        let other = create(&mut world, 0, private()).await.unwrap();
        assert_ne!(other.traffic_token, Some(token), "drawn anew");
    });
}

#[test]
fn another_image_is_taken_from_the_template_or_the_metadata() {
    run(async {
        let mut world = shop(1, &[("a", 2, 0)]);
        let named = NewSandbox { template: "shop//registry/other:2".to_owned(), ..of_shop() };
        create(&mut world, 0, named).await.unwrap();
        assert_eq!(pod(&world, "a-0").containers[0].image, "registry/other:2");
        let wished = wishing(&[("image", "third@sha256:0123")]);
        let made = create(&mut world, 0, wished).await.unwrap();
        assert_eq!(pod(&world, "a-1").containers[0].image, "third@sha256:0123");
        assert_eq!(made.metadata, [("user".to_owned(), "ada".to_owned())].into(), "a wish is no word");
        let both = NewSandbox { template: "shop//x".to_owned(), ..wishing(&[("image", "y")]) };
        assert_eq!(kind(create(&mut world, 0, both).await), ErrorKind::Invalid);
    });
}

#[test]
fn a_full_line_is_429_with_a_time_and_another_pool_is_tried_before() {
    run(async {
        let mut world = shop(0, &[("a", 0, 0), ("b", 0, 5)]);
        world.settings.env_line = 1;
        world.start();
        let manager = world.manager(0);
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let manager = manager.clone();
                tokio::spawn(async move { manager.create(&somebody(), of_shop()).await })
            })
            .collect();
        world.rounds(5).await;
        assert_eq!(manager.env_counts().waiting, 2, "one in the line of each pool");
        let error = create(&mut world, 0, of_shop()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy);
        assert!(error.retry_after.is_some());
        for pool in ["a", "b"] {
            stock(&mut world, pool, &format!("{pool}-9"), "shop");
        }
        for create in waiting {
            world.end_with(create, |_| Fate::Done).await.unwrap();
        }
        assert_eq!(phases(&world), ["running", "running"]);
    });
}

#[test]
fn a_create_that_finds_no_pod_in_its_time_is_429() {
    run(async {
        let mut world = shop(1, &[("a", 0, 0)]);
        let began = tokio::time::Instant::now();
        let error = create(&mut world, 0, wishing(&[("startup-timeout", "3")])).await.unwrap_err();
        assert_eq!((error.kind, error.retry_after.is_some()), (ErrorKind::Busy, true));
        assert!(began.elapsed() >= Duration::from_secs(3));
    });
}

#[test]
fn of_two_replicas_one_gets_the_last_pod() {
    run(async {
        let mut world = shop(2, &[("a", 1, 0)]);
        let creates: Vec<_> = (0..2)
            .map(|replica| {
                let manager = world.manager(replica);
                let new = wishing(&[("startup-timeout", "2s")]);
                tokio::spawn(async move { manager.create(&somebody(), new).await })
            })
            .collect();
        let mut ended = Vec::new();
        for create in creates {
            ended.push(world.end_with(create, |_| Fate::Done).await);
        }
        let (made, refused): (Vec<_>, Vec<_>) = ended.into_iter().partition(Result::is_ok);
        assert_eq!((made.len(), refused.len()), (1, 1));
        assert_eq!(kind(refused.into_iter().next().unwrap()), ErrorKind::Busy);
        let made = made.into_iter().next().unwrap().unwrap();
        assert_eq!(pod(&world, "a-0").sandbox_id(), made.id);
    });
}

#[test]
fn a_sandbox_that_does_not_start_in_time_gives_its_pod_back() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        world.controls = false;
        let error = create(&mut world, 0, wishing(&[("startup-timeout", "2")])).await;
        assert_eq!(kind(error), ErrorKind::Timeout);
        let is = pod(&world, "a-0");
        assert_eq!(is.label(names::LABEL_PHASE), "stopping");
        assert_eq!(is.annotation(names::ANNOTATION_STOP_REASON), names::STOP_FAILED);
        assert_eq!(is.containers[0].image, "idle:1");
    });
}

#[test]
fn a_runtime_that_refuses_its_initialisation_gives_the_pod_back() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        *world.envd.answers.lock() = 403;
        assert_eq!(kind(create(&mut world, 0, of_shop()).await), ErrorKind::Unavailable);
        world.rounds(20).await;
        assert_eq!(phases(&world), ["idle"]);
        let last = world.told.messages.lock().last().unwrap().state.clone();
        assert_eq!(last, "dead", "the gateways had been told of it");
    });
}

#[test]
fn nothing_remains_of_a_create_whose_caller_has_gone() {
    for rounds in 0..6 {
        run(async {
            let mut world = shop(1, &[("a", 1, 0)]);
            let manager = world.manager(0);
            let create = tokio::spawn(async move { manager.create(&somebody(), of_shop()).await });
            world.rounds(rounds).await;
            let is_done = create.is_finished();
            create.abort();
            world.rounds(50).await;
            assert!(
                is_done || phases(&world) == ["idle"],
                "gone after {rounds} rounds: {:?}",
                phases(&world)
            );
        });
    }
}

#[test]
fn a_claim_without_an_answer_is_found_again() {
    run(async {
        let mut world = shop(1, &[("a", 2, 0)]);
        let manager = world.manager(0);
        let create = tokio::spawn(async move { manager.create(&somebody(), of_shop()).await });
        let mut is_used = false;
        let unanswered = |call: &sandgate_sim::network::UnderWay| {
            let is_patch = matches!(&*call.operation, sandgate_sim::network::Operation::Patch(..));
            if is_patch && !std::mem::replace(&mut is_used, true) { Fate::Unanswered } else { Fate::Done }
        };
        let made = world.end_with(create, unanswered).await.unwrap();
        assert_eq!(pod(&world, "a-0").sandbox_id(), made.id);
        assert_eq!(phases(&world), ["running", "idle"], "it has one pod");
    });
}

#[test]
fn who_does_not_want_to_wait_is_answered_with_the_claim() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        world.controls = false;
        let made = create(&mut world, 0, wishing(&[("no-wait", "true")])).await.unwrap();
        assert_eq!(phases(&world), ["starting"]);
        assert!(world.told.messages.lock().is_empty());
        world.controls = true;
        world.rounds(20).await;
        assert_eq!(world.told.messages.lock()[0].id, made.id);
        assert_eq!(world.envd.asked.lock().len(), 1);
    });
}

#[test]
fn a_foreign_pod_with_the_label_of_a_pool_is_not_claimed() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let place = Place::new(&PODS, NAMESPACE, "a-0");
        let mut foreign = Value::clone(world.model.get(&place).unwrap());
        foreign["metadata"]["ownerReferences"][0]["uid"] = "another".into();
        world.model.put(&place, foreign);
        world.show();
        let refused = create(&mut world, 0, wishing(&[("startup-timeout", "1")])).await;
        assert_eq!(kind(refused), ErrorKind::Busy);
        assert_eq!(phases(&world), ["idle"]);
    });
}

#[test]
fn a_pod_that_is_not_of_the_pools_template_is_left_out_and_no_claim_fails_by_it() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let place = Place::new(&PODS, NAMESPACE, "a-0");
        let mut other = Value::clone(world.model.get(&place).unwrap());
        other["spec"]["containers"][0]["name"] = json!("other");
        other["status"]["containerStatuses"][0]["name"] = json!("other");
        world.model.put(&place, other);
        world.show();
        let manager = world.manager(0);
        let create = tokio::spawn(async move { manager.create(&somebody(), of_shop()).await });
        world.rounds(100).await;
        assert!(!create.is_finished(), "it waits for another pod");
        stock(&mut world, "a", "a-1", "shop");
        assert_eq!(name(&world.end_with(create, |_| Fate::Done).await.unwrap()), "a-1");
    });
}

#[test]
fn a_member_with_the_name_of_another_environments_pool_takes_none_of_its_pods() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0), ("b", 0, 1)]);
        let place = Place::new(&ENV_POOLS, NAMESPACE, "a");
        let mut foreign = Value::clone(world.model.get(&place).unwrap());
        foreign["metadata"]["ownerReferences"][0]["uid"] = json!("another");
        world.model.put(&place, foreign);
        world.show();
        let waits = create(&mut world, 0, wishing(&[("startup-timeout", "1")])).await;
        assert_eq!(kind(waits), ErrorKind::Busy, "it has waited in the line of its own pool");
        assert_eq!(phases(&world), ["idle"]);
        stock(&mut world, "b", "b-0", "shop");
        assert_eq!(name(&create(&mut world, 0, of_shop()).await.unwrap()), "b-0");
        let named = NewSandbox { template: "here::a".to_owned(), ..of_shop() };
        assert_eq!(name(&create(&mut world, 0, named).await.unwrap()), "a-0", "unless it is named itself");
    });
}

#[test]
fn what_an_environment_cannot_do_is_refused_before_anything_is_done() {
    let is_invalid = |new: NewSandbox| (new, ErrorKind::Invalid);
    let with = |change: &dyn Fn(&mut NewSandbox)| {
        let mut new = of_shop();
        change(&mut new);
        new
    };
    let network = Network { allow_out: vec!["10.0.0.0/8".to_owned()], deny_out: Vec::new() };
    for (new, expected) in [
        is_invalid(with(&|new| new.auto_pause = true)),
        is_invalid(with(&|new| new.auto_resume = true)),
        is_invalid(with(&|new| new.extensions.cpu_limit = Some("2".to_owned()))),
        is_invalid(with(&|new| new.extensions.name = Some("n".to_owned()))),
        is_invalid(with(&|new| drop(new.labels.insert("sandgate.dev/x".to_owned(), "y".to_owned())))),
        is_invalid(wishing(&[("startup-timeout", "0")])),
        is_invalid(wishing(&[("startup-timeout", "2h")])),
        is_invalid(wishing(&[("no-wait", "yes")])),
        is_invalid(wishing(&[("image", "")])),
        is_invalid(wishing(&[("else", "x")])),
        (with(&|new| new.allow_internet_access = Some(false)), ErrorKind::Unsupported),
        (wishing(&[("scaling-group", "other")]), ErrorKind::Unavailable),
        (with(&|new| new.template = "there::shop".to_owned()), ErrorKind::Unsupported),
        is_invalid(with(&|new| new.template = "here::nothing".to_owned())),
        is_invalid(with(&|new| new.template = "nothing".to_owned())),
        (with(&|new| new.network = Some(network.clone())), ErrorKind::Unsupported),
    ] {
        run(async {
            let mut world = shop(1, &[("a", 1, 0)]);
            let told = format!("{new:?}");
            assert_eq!(kind(create(&mut world, 0, new).await), expected, "{told}");
            world.rounds(5).await;
            assert_eq!(phases(&world), ["idle"]);
        });
    }
}

#[test]
fn a_pool_of_this_cluster_can_be_named_itself() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0), ("b", 9, 0)]);
        let new = NewSandbox { template: "here::a".to_owned(), ..of_shop() };
        let made = create(&mut world, 0, new).await.unwrap();
        assert_eq!(name(&made), "a-0");
    });
}

#[test]
fn of_a_set_and_an_environment_of_one_name_the_set_is_taken() {
    run(async {
        let mut world = shop(0, &[("a", 1, 0)]);
        env(&mut world, "base", &[("x", 1, 0)]);
        world.stock();
        world.start();
        let made = create(&mut world, 0, wanted()).await.unwrap();
        assert_eq!(made.resource, "team/base-1");
        let templates = world.manager(0).templates(&somebody());
        let named: Vec<_> = templates.iter().map(|it| (it.name.as_str(), it.available)).collect();
        assert_eq!(named, [("base", 0), ("shop", 1)]);
        assert_eq!(world.manager(0).template(&somebody(), "shop").unwrap().cpu_millis, 500);
    });
}

#[test]
fn an_environment_is_not_served_unless_it_is_asked_for() {
    run(async {
        let mut world = shop(0, &[("a", 1, 0)]);
        world.environments = false;
        world.start();
        assert_eq!(kind(create(&mut world, 0, of_shop()).await), ErrorKind::Invalid);
        assert!(world.manager(0).templates(&somebody()).iter().all(|template| template.name != "shop"));
    });
}

#[test]
fn a_quota_counts_the_sandboxes_of_environments_too() {
    run(async {
        let mut world = shop(1, &[("a", 3, 0)]);
        let limits = [Limit { dimension: Dimension::Sandboxes, scope: Scope::All, limit: 1 }];
        let owner = caller("owner-1", &limits);
        let by = |owner: &crate::Caller| owner.clone();
        let (one, two, three) = (by(&owner), by(&owner), by(&owner));
        let made = on!(world, 0, |manager| manager.create(&one, of_shop())).unwrap();
        let refused = on!(world, 0, |manager| manager.create(&two, of_shop()));
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        // The entry does not go while the sandbox lives, however long that is.
        pass(world.settings.quota_grace * 2).await;
        let again = by(&owner);
        let refused = on!(world, 0, |manager| manager.create(&again, of_shop()));
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        on!(world, 0, |manager| manager.kill(&three, &made.id)).unwrap();
        on!(world, 0, |manager| manager.create(&owner, of_shop())).unwrap();
    });
}

#[test]
fn a_create_that_waited_until_its_place_in_the_quota_was_gone_is_admitted_again_or_refused() {
    run(async {
        let mut world = shop(0, &[("a", 0, 0)]);
        world.settings.quota_grace = Duration::from_secs(10);
        world.start();
        let limits = [Limit { dimension: Dimension::Sandboxes, scope: Scope::All, limit: 1 }];
        let owner = caller("owner-1", &limits);
        let spawn = |world: &World| {
            let (manager, owner) = (world.manager(0), owner.clone());
            tokio::spawn(async move { manager.create(&owner, of_shop()).await })
        };
        let first = spawn(&world);
        world.rounds(20).await;
        pass(Duration::from_secs(30)).await;
        let second = spawn(&world);
        world.rounds(20).await;
        assert_eq!(world.manager(0).env_counts().waiting, 2, "the first has lost its place");
        for name in ["a-1", "a-2"] {
            stock(&mut world, "a", name, "shop");
        }
        let ended = [
            world.end_with(first, |_| Fate::Done).await.map(|_| ()),
            world.end_with(second, |_| Fate::Done).await.map(|_| ()),
        ];
        let [refused, made] = ended;
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        made.unwrap();
        world.rounds(50).await;
        assert_eq!(phases(&world).iter().filter(|phase| *phase == "running").count(), 1);
    });
}

#[test]
fn gateways_that_are_mute_hold_a_create_up_no_longer_than_they_may() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        world.told.is_mute.store(true, Ordering::Relaxed);
        create(&mut world, 0, of_shop()).await.unwrap();
        assert_eq!(world.manager(0).pushed().missed, 1);
    });
}
