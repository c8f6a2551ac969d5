//! Environments, their pools, and the pods of pools.

use std::sync::Arc;

use sandgate_follow::Target;
use sandgate_objects::sandbox_env::names::{ANNOTATION_ARMED, ANNOTATION_SCALE_DOWN, LABEL_POOL};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};
use serde_json::{Value, json};

use super::LONG;
use crate::predicates::env_running;
use crate::testing::{TestCache, env_pod, env_sandbox, key};
use crate::{Cache, Check, Kind, Seen, WaitError};

fn followed() -> TestCache {
    let test = TestCache::built(Cache::builder().environments());
    test.listed_all();
    test
}

fn since(mut pod: Value, time: &str) -> Value {
    pod["status"]["conditions"][0]["lastTransitionTime"] = time.into();
    pod
}

fn names(pods: &[Arc<Seen<EnvPod>>]) -> Vec<&str> {
    pods.iter().map(|pod| &*pod.key.name).collect()
}

#[test]
fn nothing_of_environments_is_taken_in_unless_they_are_followed() {
    let env = json!({"metadata": {"name": "e"}, "spec": {"templateRef": {"name": "t"}}});
    for (test, count) in [(TestCache::new(), 0), (followed(), 1)] {
        test.show::<SandboxEnv>(&env);
        test.show::<SandboxPool>(&json!({"metadata": {"name": "p"}}));
        test.show::<EnvPod>(&env_pod("a", "p"));
        test.answer::<EnvPod>(&env_pod("a", "p"));
        for kind in [Kind::SandboxEnv, Kind::SandboxPool, Kind::EnvPod] {
            assert_eq!(test.count(kind), count, "{}", kind.as_str());
        }
        assert_eq!(test.envs(None).len(), count);
        assert!(test.synced());
    }
}

#[test]
fn a_cache_without_environments_is_complete_without_their_lists() {
    let test = TestCache::built(Cache::builder());
    for kind in test.kinds().collect::<Vec<_>>() {
        test.listed(kind, &test.next_version());
    }
    assert!(test.synced());
    let test = TestCache::built(Cache::builder().environments());
    for kind in test.kinds().filter(|kind| *kind != Kind::EnvPod).collect::<Vec<_>>() {
        test.listed(kind, &test.next_version());
    }
    assert!(!test.synced());
    test.listed(Kind::EnvPod, &test.next_version());
    assert!(test.synced());
}

#[test]
fn of_pods_those_of_pools_are_asked_for_and_no_others_are_taken_in() {
    let built = Cache::builder().namespace("boxes").selector("team=a").environments();
    let Target { group, plural, namespace, selector, .. } =
        built.build().unwrap().shared.parts.target::<EnvPod>();
    assert_eq!((group.as_str(), plural.as_str(), selector.as_str()), ("", "pods", LABEL_POOL));
    assert_eq!(namespace.as_deref(), Some("boxes"));
    let test = followed();
    let mut stranger = env_pod("a", "p");
    stranger["metadata"]["labels"] = json!({"app": "web"});
    test.show::<EnvPod>(&stranger);
    assert_eq!(test.count(Kind::EnvPod), 0);
}

#[test]
fn the_pods_of_a_pool_that_can_be_claimed_stand_by_age_of_their_readiness() {
    let test = followed();
    let pool = key("p");
    test.show::<EnvPod>(&since(env_pod("young", "p"), "2026-01-01T00:00:09Z"));
    test.show::<EnvPod>(&since(env_pod("old", "p"), "2026-01-01T00:00:01Z"));
    test.show::<EnvPod>(&since(env_pod("middle", "p"), "2026-01-01T00:00:05Z"));
    test.show::<EnvPod>(&env_pod("elsewhere", "q"));
    let mut unready = env_pod("unready", "p");
    unready["status"]["conditions"][0]["status"] = "False".into();
    test.show::<EnvPod>(&unready);
    assert_eq!(names(&test.idle_pods(&pool, 9)), ["old", "middle", "young"]);
    assert_eq!(names(&test.idle_pods(&pool, 2)), ["old", "middle"]);
    assert_eq!(test.count_idle_pods(&pool), 3);
    let not_old = test.pick_pod(&pool, |pod| &*pod.key.name != "old").unwrap();
    assert_eq!(&*not_old.key.name, "middle");
    // One is about to be deleted, one is claimed by an answer, one is unready for a moment.
    let mut marked = since(env_pod("old", "p"), "2026-01-01T00:00:01Z");
    marked["metadata"]["annotations"][ANNOTATION_SCALE_DOWN] = "2026-01-01T00:00:10Z".into();
    test.show::<EnvPod>(&marked);
    test.answer::<EnvPod>(&env_sandbox(env_pod("middle", "p"), "id1", "ada", "starting"));
    assert_eq!(names(&test.idle_pods(&pool, 9)), ["young"]);
    let young = test.show::<EnvPod>(&since(env_pod("young", "p"), "2026-01-01T00:00:20Z"));
    assert_eq!(test.count_idle_pods(&pool), 1, "it stands there once");
    test.end(&young);
    assert_eq!(test.count_idle_pods(&pool), 0);
    test.end(&*test.get::<EnvPod>(&key("old")).unwrap());
    test.end(&*test.get::<EnvPod>(&key("elsewhere")).unwrap());
    assert!(test.cache().shared.inner.read().idle_pods.is_empty(), "nothing stays of empty pools");
}

#[test]
fn a_sandbox_is_found_by_its_id_and_by_its_owner_as_long_as_it_has_the_pod() {
    let test = followed();
    test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "running"));
    test.show::<EnvPod>(&env_sandbox(env_pod("b", "p"), "id2", "ada", "starting"));
    assert_eq!(names(&test.pods_of_sandbox(None, "id1")), ["a"]);
    assert_eq!(names(&test.pods_of_sandbox(Some("default"), "id2")), ["b"]);
    assert!(test.pods_of_sandbox(Some("elsewhere"), "id1").is_empty());
    assert_eq!(names(&test.pods_of_owner(None, "ada")), ["a", "b"]);
    test.show::<EnvPod>(&env_pod("a", "p"));
    assert!(test.pods_of_sandbox(None, "id1").is_empty());
    assert_eq!(names(&test.pods_of_owner(None, "ada")), ["b"]);
    assert!(test.pods_of_sandbox(None, "").is_empty(), "no ID is no ID");
}

#[test]
fn an_environment_is_found_by_its_name_in_a_namespace_or_in_all() {
    let test = followed();
    for namespace in ["b", "a"] {
        let metadata = json!({"name": "e", "namespace": namespace, "uid": namespace});
        test.show::<SandboxEnv>(&json!({"metadata": metadata, "spec": {"templateRef": {"name": "t"}}}));
    }
    assert_eq!(&*test.env(None, "e").unwrap().key.namespace, "a", "the first");
    assert_eq!(&*test.env(Some("b"), "e").unwrap().key.namespace, "b");
    assert!(test.env(Some("c"), "e").is_none() && test.env(None, "f").is_none());
    assert_eq!(test.envs(Some("b")).len(), 1);
}

#[test]
fn a_pod_runs_its_sandbox_when_it_has_an_address_and_is_armed() {
    let running = || env_sandbox(env_pod("a", "p"), "id1", "ada", "running");
    let with = |path: &str, value: Value| {
        let mut pod = running();
        *pod.pointer_mut(path).unwrap() = value;
        pod
    };
    let armed = |id: &str| {
        let mut pod = running();
        pod["metadata"]["annotations"][ANNOTATION_ARMED] = id.into();
        pod
    };
    let test = followed();
    let check = |pod: &Value| env_running(&test.show::<EnvPod>(pod), "id1");
    assert_eq!(check(&running()), Check::Done);
    assert_eq!(check(&armed("id1")), Check::Done);
    for pod in [
        env_sandbox(env_pod("a", "p"), "id1", "ada", "starting"),
        armed("other"),
        with("/status/podIP", "".into()),
        with("/status/phase", "Pending".into()),
    ] {
        assert_eq!(check(&pod), Check::Not, "{pod}");
    }
    for pod in [
        env_sandbox(env_pod("a", "p"), "id2", "ada", "running"),
        env_pod("a", "p"),
        env_sandbox(env_pod("a", "p"), "id1", "ada", "stopping"),
        env_sandbox(env_pod("a", "p"), "id1", "ada", "failed"),
        with("/status/phase", "Failed".into()),
    ] {
        assert!(matches!(check(&pod), Check::Failed(_)), "{pod}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_claimed_pod_ends_when_it_runs_or_is_lost() {
    let test = followed();
    let pod = test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "starting"));
    let wait = || test.env_running(&pod.key, &pod.uid, "id1").within(LONG);
    let runs = async { test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "running")) };
    let (waited, shown) = tokio::join!(wait(), runs);
    assert_eq!(waited.unwrap().version, shown.version);
    test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "starting"));
    let stops = async { test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "stopping")) };
    let (waited, _) = tokio::join!(wait(), stops);
    assert!(matches!(waited, Err(WaitError::Failed(_))));
    let pod = test.show::<EnvPod>(&env_sandbox(env_pod("a", "p"), "id1", "ada", "starting"));
    let (waited, ()) = tokio::join!(wait(), async { test.end(&pod) });
    assert_eq!(waited.unwrap_err(), WaitError::Gone);
}
