//! Pools over a model of the API server, with nodes, claims, faults and deaths.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool};
use sandgate_sim::model::object::{self, text};
use sandgate_sim::model::{DeleteOptions, ENV_POOLS, Model, PODS, Part, Patch};
use serde_json::{Value, json};

use super::world::{Fate, POOL, World, claim_in, edit, key, pod_place, pool_place, run};
use crate::view::{EnvPodCounts, Seen};
use crate::{Admission, Admissions, Admitted, Again, Cap, NotAdmitted, Reconciler as _, Verdict};

fn label<'a>(pod: &'a Value, name: &str) -> &'a str {
    pod["metadata"]["labels"][name].as_str().unwrap_or_default()
}

fn reasons(world: &World) -> Vec<&'static str> {
    world.process.events.take().into_iter().map(|event| event.reason).collect()
}

#[test]
fn a_pool_makes_its_pods_with_everything_that_others_go_by() {
    run(async {
        let mut world = World::new(40);
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 40);
        let pod = world.pod(&world.live()[0]).unwrap();
        assert_eq!(label(&pod, names::LABEL_POOL), POOL);
        assert_eq!(label(&pod, names::LABEL_PHASE), "idle");
        assert_eq!(label(&pod, names::LABEL_ENV), "e");
        assert_eq!(label(&pod, names::LABEL_MANAGED_BY), names::MANAGED_BY);
        assert_eq!(label(&pod, names::LABEL_TEMPLATE_HASH).len(), 8);
        assert_eq!(pod["spec"]["containers"][0]["image"], "idle:1");
        assert_eq!(pod["metadata"]["finalizers"], json!([names::FINALIZER_POD]));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!(world.pool()["metadata"]["finalizers"], json!([names::FINALIZER_POOL]));
        assert_eq!(world.pool()["status"]["phase"], "Degraded", "none is ready yet");
        world.settle().await;
        assert_eq!((world.live().len(), &world.pool()["status"]["phase"]), (40, &json!("Ready")));
    });
}

#[test]
fn a_sandbox_lives_and_its_pod_waits_again() {
    run(async {
        let mut world = World::ready(2).await;
        let name = world.claim_any().unwrap();
        world.nodes();
        world.look().await.unwrap();
        assert_eq!(world.phases()[&name], "running");
        world.release(&name);
        world.nodes();
        world.look().await.unwrap();
        assert_eq!(world.phases()[&name], "idle");
        assert_eq!(reasons(&world), ["SandboxReleased"]);
        world.settle().await;
        assert_eq!((world.live().len(), world.counts().idle_ready), (2, 2));
        assert_eq!(reasons(&world), Vec::<&str>::new(), "it was told once");
    });
}

#[test]
fn a_pod_that_does_not_start_is_released_and_is_told_as_failed() {
    run(async {
        let mut world = World::ready(1).await;
        let name = world.claim_any().unwrap();
        world.look().await.unwrap();
        world.pass(119);
        world.look().await.unwrap();
        assert_eq!(world.phases()[&name], "starting");
        world.pass(2);
        world.look().await.unwrap();
        assert_eq!(world.phases()[&name], "stopping");
        // It never ran the other image, and does not come back as a container of its own.
        world.pass(121);
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 1, "another one");
        world.settle().await;
        assert!(!world.live().contains(&name));
        assert!(reasons(&world).contains(&"SandboxFailed"));
    });
}

#[test]
fn a_restarted_sandbox_is_released_as_failed_and_its_pod_waits_again() {
    run(async {
        let mut world = World::ready(1).await;
        let name = world.claim_any().unwrap();
        world.nodes();
        world.look().await.unwrap();
        world.edit_pod(&name, |pod| {
            pod["status"]["containerStatuses"][0]["containerID"] = json!("another");
            pod["status"]["containerStatuses"][0]["restartCount"] = json!(9);
        });
        world.settle().await;
        assert_eq!(world.phases()[&name], "idle");
        assert_eq!(reasons(&world), ["SandboxFailed"]);
    });
}

#[test]
fn a_large_pool_is_drained_in_few_looks() {
    run(async {
        let mut world = World::ready(800).await;
        world.scale(0);
        let mut looks = 0;
        while !world.live().is_empty() {
            looks += 1;
            assert!(looks < 10, "{} are left", world.live().len());
            world.look().await.unwrap();
            world.nodes();
            world.pass(11);
        }
        assert!(looks <= 3, "{looks} looks");
    });
}

#[test]
fn the_protection_window_is_that_of_the_group() {
    run(async {
        let mut world = World::ready(1).await;
        world.environment(45);
        world.scale(0);
        world.look().await.unwrap();
        world.pass(44);
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 1);
        world.pass(1);
        world.look().await.unwrap();
        assert_eq!(world.live().len(), 0);
    });
}

#[test]
fn a_pod_that_is_claimed_meanwhile_is_neither_marked_nor_deleted() {
    run(async {
        // A claim comes before the mark.
        let mut world = World::ready(3).await;
        let name = world.live()[0].clone();
        world.scale(0);
        let (claimed, now) = (name.clone(), world.model.lock().now());
        world.meddle("PATCH pods", move |model| assert!(claim_in(model, &claimed, "s", now)));
        let _ = world.look().await;
        world.settle().await;
        assert_eq!(world.phases().into_iter().collect::<Vec<_>>(), [(name.clone(), "running".to_owned())]);
        let pod = world.pod(&name).unwrap();
        assert_eq!(object::annotation(&pod, names::ANNOTATION_SCALE_DOWN), "");
        // Somebody who does not heed the mark claims before the deletion.
        let mut world = World::ready(1).await;
        let name = world.live()[0].clone();
        world.scale(0);
        world.look().await.unwrap();
        world.pass(11);
        let claimed = name.clone();
        world.meddle("DELETE pods", move |model| {
            edit(model, &pod_place(&claimed), |pod| {
                pod["metadata"]["labels"][names::LABEL_PHASE] = json!("running");
                pod["metadata"]["labels"][names::SANDBOX_ID] = json!("s");
            });
        });
        let _ = world.look().await;
        world.settle().await;
        assert_eq!(world.phases()[&name], "running");
    });
}

#[test]
fn a_pool_that_is_wanted_again_takes_its_marks_off() {
    run(async {
        let mut world = World::ready(4).await;
        world.scale(1);
        world.look().await.unwrap();
        assert_eq!(world.counts().idle_marked, 3);
        world.scale(4);
        world.look().await.unwrap();
        let EnvPodCounts { idle_ready, idle_marked, .. } = world.counts();
        assert_eq!((idle_ready, idle_marked, world.live().len()), (4, 0, 4));
    });
}

#[test]
fn a_new_template_replaces_idle_pods_and_never_more_than_may_be_missing() {
    run(async {
        let mut world = World::ready(10).await;
        let before: BTreeSet<_> = world.live().into_iter().collect();
        world.edit_pool(|pool| pool["spec"]["idleImage"] = json!("idle:2"));
        for _ in 0..60 {
            let _ = world.look().await;
            let counts = world.counts();
            assert!(counts.idle_ready >= 8 - counts.idle_marked, "{counts:?}");
            assert!(world.live().len() >= 8, "two may be missing");
            world.nodes();
            world.pass(5);
        }
        let after: BTreeSet<_> = world.live().into_iter().collect();
        assert_eq!((after.len(), after.intersection(&before).count()), (10, 0));
        let status = world.pool()["status"].clone();
        assert_eq!(
            (&status["currentRevision"], &status["updatedReplicas"]),
            (&status["updateRevision"], &json!(10))
        );
    });
}

#[test]
fn the_image_of_sandboxes_replaces_no_pod() {
    run(async {
        let mut world = World::ready(3).await;
        let before = world.live();
        world.edit_pool(|pool| pool["spec"]["template"]["spec"]["containers"][0]["image"] = json!("app:2"));
        world.settle().await;
        assert_eq!(world.live(), before);
    });
}

#[test]
fn a_deleted_pool_goes_when_its_last_pod_has_gone_and_each_sandbox_is_told() {
    run(async {
        let mut world = World::ready(5).await;
        world.claim_any().unwrap();
        world.nodes();
        world.look().await.unwrap();
        world.process.events.take();
        world.model.lock().delete(&pool_place(), &DeleteOptions::default()).unwrap();
        world.show();
        world.look().await.unwrap();
        assert_eq!(world.live(), Vec::<String>::new());
        for _ in 0..4 {
            world.nodes();
            let _ = world.look().await;
        }
        assert!(world.model.lock().get(&pool_place()).is_err());
        assert_eq!(world.model.lock().list(&PODS).count(), 0);
        assert_eq!(reasons(&world), ["SandboxLost"]);
    });
}

#[test]
fn pods_that_outlive_their_pool_are_let_go() {
    run(async {
        let mut world = World::ready(2).await;
        orphan(&mut world.model.lock());
        world.show();
        world.process.pools.reconcile(&key(POOL)).await.unwrap();
        let finalized = |pod: &&Arc<Value>| !object::list(pod, "/metadata/finalizers").is_empty();
        assert_eq!(world.model.lock().list(&PODS).filter(finalized).count(), 0);
    });
}

#[test]
fn a_pod_that_comes_after_its_pool_was_finished_does_not_keep_it() {
    run(async {
        let mut world = World::ready(1).await;
        let name = world.live()[0].clone();
        // The pool is deleted in the foreground, and this controller has taken its own finalizer off.
        edit(&mut world.model.lock(), &pool_place(), |pool| {
            pool["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
            pool["metadata"]["deletionTimestamp"] = json!("1970-01-12T13:46:40Z");
        });
        world.show();
        world.asked();
        let Ok(Again::Rarely) = world.look().await else { panic!("there is nothing to do") };
        assert_eq!(world.asked(), Vec::<String>::new(), "whether the pod goes is the garbage collector's");
        world.model.lock().delete(&pod_place(&name), &DeleteOptions::default()).unwrap();
        world.show();
        let Ok(Again::Rarely) = world.look().await else { panic!("it failed") };
        world.nodes();
        assert_eq!(world.model.lock().list(&PODS).count(), 0);
    });
}

/// Somebody takes the finalizer of the pool away, so that it goes before its pods.
fn orphan(model: &mut Model) {
    let none = Patch::Merge(json!({
        "metadata": {
            "finalizers": null,
            "resourceVersion": model.get(&pool_place()).unwrap()["metadata"]["resourceVersion"],
        },
    }));
    model.patch(&pool_place(), Part::Main, &none).unwrap();
    model.delete(&pool_place(), &DeleteOptions::default()).unwrap();
    assert!(model.get(&pool_place()).is_err());
    let pods: Vec<_> = model.list(&PODS).map(|pod| text(pod, "/metadata/name").to_owned()).collect();
    for name in pods {
        model.delete(&pod_place(&name), &DeleteOptions::default()).unwrap();
    }
}

#[test]
fn a_refused_pod_is_tried_again_later_and_told_once() {
    run(async {
        let mut world = World::new(1);
        for number in 0..40 {
            world.fate(number, Fate::Refused);
        }
        // Nothing but pods is refused.
        world.script.lock().asked.clear();
        let pool = world.pool();
        edit(&mut world.model.lock(), &pool_place(), |it| {
            *it = pool;
            it["metadata"]["finalizers"] = json!([names::FINALIZER_POOL]);
        });
        world.show();
        let _ = world.look().await;
        let first = world.script.lock().asked.iter().filter(|line| line.starts_with("POST")).count();
        world.pass(1);
        let _ = world.look().await;
        let _ = world.look().await;
        let posts = world.script.lock().asked.iter().filter(|line| line.starts_with("POST")).count();
        assert_eq!((first, posts), (1, 2), "the first failure is tried again at once, the next one is not");
        let told = reasons(&world);
        assert_eq!(told.iter().filter(|reason| **reason == "FailedCreate").count(), 1);
    });
}

/// A plugin with one answer.
struct Plugin(Verdict);

impl Admission for Plugin {
    fn name(&self) -> &'static str {
        "test"
    }

    fn pre_update_pool<'a>(
        &'a self,
        _: &'a mut SandboxPool,
        _: &'a [Arc<Seen<EnvPod>>],
    ) -> BoxFuture<'a, Verdict> {
        ready(self.0.clone()).boxed()
    }
}

#[test]
fn plugins_limit_how_many_pods_are_made() {
    let cap = Cap { replicas: 2, reason: "Quota".to_owned(), message: "two".to_owned() };
    let capped = Admitted { cap: Some(cap), ..Admitted::default() };
    let wait = Some(Duration::from_secs(3));
    let short = NotAdmitted::Insufficient { message: "m".to_owned(), retry_after: wait };
    let invalid = NotAdmitted::Invalid { message: "m".to_owned() };
    let unknown = NotAdmitted::Internal { message: "m".to_owned() };
    for (answer, pods, why, waits) in [
        (Ok(Admitted::default()), 5, "AdmissionGranted", None),
        (Ok(capped), 2, "ResourceQuotaExhausted", None),
        (Err(short), 0, "ResourceQuotaExhausted", Some(4)),
        (Err(invalid), 0, "AdmissionRejected", None),
        (Err(unknown), 0, "AdmissionError", None),
    ] {
        run(async {
            let mut world = World::new(5);
            let is_unknown = matches!(answer, Err(NotAdmitted::Internal { .. }));
            world.process =
                world.other_with(Admissions::new([Arc::new(Plugin(answer)) as Arc<dyn Admission>]));
            world.show();
            let done = world.look().await;
            assert_eq!(done.is_err(), is_unknown, "{why}");
            if let (Ok(Again::After(after)), Some(waits)) = (done, waits) {
                assert_eq!(after.as_secs(), waits);
            }
            assert_eq!((world.live().len(), &world.pool()["spec"]["replicas"]), (pods, &json!(5)));
            let conditions = world.pool()["status"]["conditions"].clone();
            let all = conditions.as_array().unwrap();
            let admitted = all.iter().find(|condition| condition["type"] == "Admitted").unwrap();
            assert_eq!(admitted["reason"], why, "the status is written whatever they say");
        });
    }
}

/// A pool that grows, is used, rolls and shrinks. Whether its process died at the request of this number.
async fn life(number: usize, fate: Fate) -> bool {
    let mut world = World::new(3);
    world.fate(number, fate);
    let mut has_died = false;
    for step in 0..5 {
        match step {
            1 => drop(world.claim_any()),
            2 => world.edit_pool(|pool| pool["spec"]["idleImage"] = json!("idle:2")),
            3 => world.scale(2),
            4 => {
                let running = world.phases().into_iter().find(|(_, phase)| phase == "running");
                if let Some((name, _)) = running {
                    world.release(&name);
                }
            }
            _ => {}
        }
        for _ in 0..4 {
            has_died |= world.look_and_die().await;
            let all = world.live().len();
            assert!(all <= 3, "{all} pods at step {step} of {number} {fate:?}: {:?}", world.asked());
            world.nodes();
            world.pass(11);
        }
    }
    world.settle().await;
    let counts = world.counts();
    assert_eq!((counts.idle_ready, world.live().len()), (2, 2), "{number} {fate:?}");
    assert_eq!(counts.updated, 2, "{number} {fate:?}");
    world.model.lock().delete(&pool_place(), &DeleteOptions::default()).unwrap();
    world.show();
    for _ in 0..6 {
        let _ = world.look_and_die().await;
        world.nodes();
        world.pass(11);
    }
    assert_eq!(world.model.lock().list(&ENV_POOLS).count(), 0, "{number} {fate:?}");
    assert_eq!(world.model.lock().list(&PODS).count(), 0, "{number} {fate:?}");
    has_died
}

#[test]
fn wherever_the_process_dies_the_end_is_the_same() {
    for fate in [Fate::DiesBefore, Fate::DiesAfter, Fate::Lost, Fate::Unanswered, Fate::Refused] {
        let is_death = matches!(fate, Fate::DiesBefore | Fate::DiesAfter);
        let mut number = 0;
        while run(life(number, fate)) || (!is_death && number < 45) {
            number += 1;
        }
        assert!(number > 20, "{fate:?}: {number} requests");
    }
}

#[test]
fn two_controllers_at_a_time_end_with_what_is_asked_for() {
    run(async {
        let mut world = World::new(10);
        let mut other = world.other();
        other.show(&world.model.lock());
        let pool = key(POOL);
        // The old leader does not know of its end yet. Both look at an empty pool, and both make pods.
        let (one, two) = tokio::join!(world.process.pools.reconcile(&pool), other.pools.reconcile(&pool));
        drop((one, two));
        world.show();
        assert!(world.live().len() <= 20);
        let taken = world.claim_any();
        world.settle().await;
        assert_eq!(world.live().len(), 10, "what is too many goes, and the sandbox stays");
        if let Some(taken) = taken {
            assert_eq!(world.phases()[&taken], "running");
        }
        // With a pool that is whole, the other one has nothing to do.
        let mut third = world.other();
        third.show(&world.model.lock());
        world.asked();
        third.pools.reconcile(&pool).await.unwrap();
        assert_eq!(world.asked(), Vec::<String>::new());
    });
}
