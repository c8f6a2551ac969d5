//! What is done to a sandbox of an environment, by its owner and by others.

use std::time::Duration;

use jiff::SignedDuration;
use sandgate_objects::sandbox_env::names;
use sandgate_sim::model::{PODS, Place};
use serde_json::Value;

use super::world::{of_shop, on, phases, pod, shop};
use crate::manager::tests::world::{Fate, NAMESPACE, World, caller, kind, pass, run, somebody, wanted};
use crate::{Connected, Described, ErrorKind, Filter, NewSnapshot, ShownState};

const MINUTE: Duration = Duration::from_secs(60);

async fn created(world: &mut World) -> Described {
    on!(world, 0, |manager| manager.create(&somebody(), of_shop())).unwrap()
}

#[test]
fn a_killed_sandbox_gives_its_pod_back_and_is_not_found_again() {
    run(async {
        let mut world = shop(2, &[("a", 1, 0)]);
        let made = created(&mut world).await;
        let (id, other) = (made.id.clone(), made.id.clone());
        let stranger = on!(world, 1, |manager| manager.kill(&caller("owner-2", &[]), &other));
        assert_eq!(kind(stranger), ErrorKind::NotFound);
        assert_eq!(phases(&world), ["running"]);
        world.controls = false;
        on!(world, 1, |manager| manager.kill(&somebody(), &id)).unwrap();
        let is = pod(&world, "a-0");
        assert_eq!((is.label(names::LABEL_PHASE), is.containers[0].image.as_str()), ("stopping", "idle:1"));
        assert_eq!(is.annotation(names::ANNOTATION_STOP_REASON), names::STOP_RELEASED);
        assert_eq!(world.states(), ["running", "dead"]);
        for replica in [0, 1] {
            let (id, again) = (made.id.clone(), made.id.clone());
            assert_eq!(
                kind(on!(world, replica, |manager| manager.kill(&somebody(), &id))),
                ErrorKind::NotFound
            );
            let got = on!(world, replica, |manager| manager.get(&somebody(), &again));
            assert_eq!(kind(got), ErrorKind::NotFound);
        }
        world.controls = true;
        world.rounds(10).await;
        assert_eq!(phases(&world), ["idle"]);
        let next = created(&mut world).await;
        assert_eq!((next.resource, next.id == made.id), (made.resource, false), "the pod is another's now");
    });
}

#[test]
fn a_kill_without_an_answer_is_done_once_and_answered_as_done() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let made = created(&mut world).await;
        let manager = world.manager(0);
        let kill = tokio::spawn(async move { manager.kill(&somebody(), &made.id).await });
        let mut is_used = false;
        let fate = |call: &sandgate_sim::network::UnderWay| {
            let is_patch = matches!(&*call.operation, sandgate_sim::network::Operation::Patch(..));
            if is_patch && !std::mem::replace(&mut is_used, true) { Fate::Unanswered } else { Fate::Done }
        };
        world.end_with(kill, fate).await.unwrap();
        world.rounds(5).await;
        assert_eq!(phases(&world), ["idle"]);
    });
}

#[test]
fn a_sandbox_is_found_by_a_replica_whose_watch_lags() {
    run(async {
        let mut world = shop(2, &[("a", 1, 0)]);
        world.replicas[1].lags = true;
        let made = created(&mut world).await;
        let (id, other) = (made.id.clone(), made.id.clone());
        let found = on!(world, 1, |manager| manager.get(&somebody(), &id)).unwrap();
        assert_eq!(found, made);
        let refused = on!(world, 1, |manager| manager.get(&caller("owner-2", &[]), &other));
        assert_eq!(kind(refused), ErrorKind::NotFound);
    });
}

#[test]
fn a_timeout_is_the_time_without_use_and_setting_it_is_a_use() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let made = created(&mut world).await;
        let used = |world: &World| pod(world, "a-0").time(names::ANNOTATION_LAST_ACTIVE).unwrap();
        let seconds = |described: &Described, world: &World| {
            described.ends.unwrap().duration_since(used(world)).as_secs()
        };
        assert_eq!(seconds(&made, &world), 300);
        pass(MINUTE).await;
        let before = used(&world);
        let id = made.id.clone();
        on!(world, 0, |manager| manager.set_timeout(&somebody(), &id, MINUTE)).unwrap();
        assert!(used(&world).duration_since(before) >= SignedDuration::from_secs(60));
        let id = made.id.clone();
        let shown = on!(world, 0, |manager| manager.get(&somebody(), &id)).unwrap();
        assert_eq!(seconds(&shown, &world), 60);
        // A refresh makes it longer, and never shorter.
        for (refresh, expected) in [(MINUTE / 2, 60), (MINUTE * 3, 180)] {
            let id = made.id.clone();
            on!(world, 0, |manager| manager.refresh(&somebody(), &id, refresh)).unwrap();
            assert_eq!(pod(&world, "a-0").annotation(names::ANNOTATION_IDLE_TIMEOUT), expected.to_string());
        }
        let id = made.id.clone();
        let (shown, how) =
            on!(world, 0, |manager| manager.connect(&somebody(), &id, Some(MINUTE * 10))).unwrap();
        assert_eq!((seconds(&shown, &world), how), (600, Connected::Running));
    });
}

#[test]
fn a_sandbox_without_a_timeout_never_ends_by_itself() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let new = crate::NewSandbox { timeout: None, ..of_shop() };
        let made = on!(world, 0, |manager| manager.create(&somebody(), new)).unwrap();
        assert_eq!(made.ends, None);
        assert_eq!(pod(&world, "a-0").annotation(names::ANNOTATION_IDLE_TIMEOUT), "0");
        let id = made.id.clone();
        on!(world, 0, |manager| manager.refresh(&somebody(), &id, MINUTE)).unwrap();
        assert_eq!(pod(&world, "a-0").annotation(names::ANNOTATION_IDLE_TIMEOUT), "0");
    });
}

#[test]
fn a_write_of_somebody_else_in_between_loses_nothing() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let made = created(&mut world).await;
        world.replicas[0].lags = true;
        let place = Place::new(&PODS, NAMESPACE, "a-0");
        let mut pod_now = Value::clone(world.model.get(&place).unwrap());
        pod_now["metadata"]["annotations"]["other"] = "written".into();
        world.model.put(&place, pod_now);
        let id = made.id.clone();
        on!(world, 0, |manager| manager.set_timeout(&somebody(), &id, MINUTE)).unwrap();
        let is = pod(&world, "a-0");
        assert_eq!(
            (is.annotation("other"), is.annotation(names::ANNOTATION_IDLE_TIMEOUT)),
            ("written", "60")
        );
    });
}

#[test]
fn what_only_other_sandboxes_can_do_is_refused_with_a_hint() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        let made = created(&mut world).await;
        let [one, two, three, four] = [(); 4].map(|()| made.id.clone());
        let pause = on!(world, 0, |manager| manager.pause(&somebody(), &one, None));
        let resume = on!(world, 0, |manager| manager.resume(&somebody(), &two, None, None)).map(drop);
        let new = NewSnapshot::default();
        let snapshot = on!(world, 0, |manager| manager.snapshot(&somebody(), &three, new)).map(drop);
        let rules = crate::Network::default();
        let network = on!(world, 0, |manager| manager.update_network(&somebody(), &four, rules, None));
        for refused in [pause, resume, snapshot, network] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unsupported);
            assert!(error.message.contains("SandboxSet"), "{}", error.message);
        }
        let id = made.id.clone();
        assert!(on!(world, 0, |manager| manager.logs(&somebody(), &id)).unwrap().is_empty());
        let body = r#"{"ts": 7, "cpu_count": 2, "mem_used": 10}"#;
        *world.envd.body.lock() = hyper::body::Bytes::from_static(body.as_bytes());
        *world.envd.answers.lock() = 200;
        let id = made.id.clone();
        let used = on!(world, 0, |manager| manager.metrics(&somebody(), &id, None, None)).unwrap();
        assert_eq!((used.len(), used[0].cpu_count), (1, 2));
        assert!(world.manager(0).metric_if_known(&somebody(), &made.id).await.is_some());
    });
}

#[test]
fn a_list_has_sandboxes_of_both_kinds_and_its_pages_are_stable() {
    run(async {
        let mut world = shop(0, &[("a", 3, 0)]);
        world.stock();
        world.stock();
        world.start();
        let mut made = Vec::new();
        for template in ["shop", "base", "shop", "base", "shop"] {
            pass(Duration::from_secs(1)).await;
            let new = crate::NewSandbox { template: template.to_owned(), ..wanted() };
            made.push(on!(world, 0, |manager| manager.create(&somebody(), new)).unwrap().id);
        }
        let manager = world.manager(0);
        let page = |next: Option<String>| {
            let filter = Filter { limit: 2, next, ..Filter::default() };
            manager.list(&somebody(), &filter).unwrap()
        };
        let first = page(None);
        // What ends between two pages moves nothing else.
        let id = made[0].clone();
        on!(world, 0, |manager| manager.kill(&somebody(), &id)).unwrap();
        let second = page(first.next.clone());
        let third = page(second.next.clone());
        let ids: Vec<_> =
            [&first, &second, &third].iter().flat_map(|page| &page.items).map(|it| it.id.clone()).collect();
        assert_eq!((ids, third.next), (made.clone(), None));
        let filtered = |filter: Filter| {
            let page = manager.list(&somebody(), &Filter { limit: 10, ..filter }).unwrap();
            page.items.into_iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(
            filtered(Filter { template: Some("shop".to_owned()), ..Filter::default() }),
            [made[2].clone(), made[4].clone()]
        );
        assert!(filtered(Filter { states: vec![ShownState::Paused], ..Filter::default() }).is_empty());
        let said = |value: &str| Filter {
            metadata: [("user".to_owned(), value.to_owned())].into(),
            ..Filter::default()
        };
        assert_eq!((filtered(said("ada")).len(), filtered(said("bob")).len()), (4, 0));
        assert!(
            manager
                .list(&caller("owner-2", &[]), &Filter { limit: 9, ..Filter::default() })
                .unwrap()
                .items
                .is_empty()
        );
    });
}
