//! What is asked of the API server, and what is taken in.

use sandgate_follow::{Sink as _, Target};
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use serde_json::json;

use super::super::Kept;
use crate::testing::{TestCache, claimed};
use crate::{BuildError, Cache, CacheBuilder, ConfigMapFacts, Kind, PvcFacts, SecretFacts};

fn target<T: Kept>(builder: CacheBuilder) -> (Option<String>, String) {
    let Target { namespace, selector, .. } = builder.build().unwrap().shared.parts.target::<T>();
    (namespace, selector)
}

fn kinds(builder: CacheBuilder) -> Vec<Kind> {
    builder.build().unwrap().shared.parts.kinds().collect()
}

const CUSTOM: [Kind; 5] =
    [Kind::Sandbox, Kind::SandboxSet, Kind::Checkpoint, Kind::SandboxTemplate, Kind::Pvc];
const SYSTEM: [Kind; 2] = [Kind::Secret, Kind::ConfigMap];
const ENVIRONMENTS: [Kind; 3] = [Kind::SandboxEnv, Kind::SandboxPool, Kind::EnvPod];

/// All of these, in the order of [`Kind::ALL`].
fn all(of: &[&[Kind]]) -> Vec<Kind> {
    let is_in = |kind: &Kind| of.iter().any(|kinds| kinds.contains(kind));
    Kind::ALL.into_iter().filter(is_in).collect()
}

#[test]
fn without_filters_every_object_of_the_five_kinds_is_followed_and_no_secret() {
    assert_eq!(kinds(Cache::builder()), CUSTOM);
    assert_eq!(target::<SandboxFacts>(Cache::builder()), (None, String::new()));
}

#[test]
fn namespace_and_selector_apply_to_each_kind_as_documented() {
    let built =
        || Cache::builder().namespace("boxes").selector("team=a, tier in (x,y)").system_namespace("sys");
    let custom = (Some("boxes".to_owned()), "team=a, tier in (x,y)".to_owned());
    assert_eq!(target::<SandboxFacts>(built()), custom);
    assert_eq!(target::<SandboxSet>(built()), custom);
    let unselected = (Some("boxes".to_owned()), String::new());
    assert_eq!(target::<Checkpoint>(built()), unselected, "not by labels");
    assert_eq!(target::<SandboxTemplate>(built()), unselected);
    assert_eq!(target::<PvcFacts>(built()), unselected);
    let system = (Some("sys".to_owned()), String::new());
    assert_eq!(target::<SecretFacts>(built()), system);
    assert_eq!(target::<ConfigMapFacts>(built().system_selector("")), system);
    assert_eq!(
        target::<SecretFacts>(built().system_selector("k=v")),
        (Some("sys".to_owned()), "k=v".to_owned())
    );
    assert_eq!(kinds(built()), all(&[&CUSTOM, &SYSTEM]));
}

#[test]
fn each_filter_stands_alone_too() {
    assert_eq!(
        target::<SandboxFacts>(Cache::builder().namespace("a")),
        (Some("a".to_owned()), String::new())
    );
    assert_eq!(target::<SandboxFacts>(Cache::builder().selector("x")), (None, "x".to_owned()));
    let system = || Cache::builder().system_namespace("sys");
    assert_eq!(target::<SandboxFacts>(system()), (None, String::new()));
    assert_eq!(kinds(system()), all(&[&CUSTOM, &SYSTEM]));
    assert_eq!(kinds(system().environments()), Kind::ALL);
    assert_eq!(kinds(Cache::builder().environments()), all(&[&CUSTOM, &ENVIRONMENTS]));
    assert_eq!(kinds(Cache::builder().without(Kind::Pvc)), CUSTOM[..4]);
}

#[test]
fn a_filter_that_the_api_server_would_refuse_is_an_error_at_once() {
    let selector = Cache::builder().selector("a in (").build().err().unwrap();
    assert!(matches!(&selector, BuildError::Selector(_)), "{selector}");
    let system = Cache::builder().system_selector("a=b=c").build().err().unwrap();
    assert!(matches!(&system, BuildError::Selector(_)), "{system}");
    let namespace = Cache::builder().namespace("No").build().err().unwrap();
    assert_eq!(namespace, BuildError::Namespace("No".to_owned()));
}

#[test]
fn what_the_filters_do_not_select_is_not_taken_in_whoever_brings_it() {
    let test = TestCache::built(Cache::builder().namespace("default").selector("team=a"));
    let with_team = |team: &str| {
        let mut sandbox = claimed("s", "ada", "i");
        sandbox["metadata"]["labels"]["team"] = team.into();
        sandbox
    };
    test.answer::<SandboxFacts>(&with_team("b"));
    assert_eq!(test.count(Kind::Sandbox), 0);
    test.answer::<SandboxFacts>(&with_team("a"));
    assert_eq!(test.count(Kind::Sandbox), 1);
    // Somebody else's watch may show more than was asked for.
    test.show::<SandboxFacts>(&with_team("b"));
    assert_eq!(test.count(Kind::Sandbox), 0, "it has left what is followed");
    let mut elsewhere = with_team("a");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    test.show::<SandboxFacts>(&elsewhere);
    assert_eq!(test.count(Kind::Sandbox), 0);
}

#[test]
fn what_a_write_of_this_process_takes_out_of_the_filters_is_not_shown_older() {
    let test = TestCache::built(Cache::builder().selector("team=a"));
    let shown = |team: &str, version: u64| {
        let mut sandbox = claimed("s", "ada", "i");
        sandbox["metadata"]["labels"]["team"] = team.into();
        sandbox["metadata"]["resourceVersion"] = version.to_string().into();
        sandbox
    };
    test.show::<SandboxFacts>(&shown("a", 5));
    let left = test.answer::<SandboxFacts>(&shown("b", 8));
    assert!(!test.follows(&left));
    assert!(test.count(Kind::Sandbox) == 0 && test.claimed(None, "i").is_err());
    test.show::<SandboxFacts>(&shown("a", 7));
    assert_eq!(test.count(Kind::Sandbox), 0, "the watch is behind");
    let back = test.show::<SandboxFacts>(&shown("a", 9));
    assert!(test.follows(&back) && test.claimed(None, "i").is_ok());
}

#[test]
fn a_kind_that_is_not_followed_is_not_taken_in_whoever_brings_it() {
    let claim = json!({"metadata": {"name": "v"}, "spec": {"volumeName": "v1"}});
    let map = json!({"metadata": {"name": "m"}});
    let without = TestCache::built(Cache::builder().without(Kind::Pvc).system_namespace("default"));
    let systemless = TestCache::built(Cache::builder());
    for test in [&without, &systemless] {
        let claims = usize::from(test.follows(&test.show::<PvcFacts>(&claim)));
        let maps = usize::from(test.follows(&test.show::<ConfigMapFacts>(&map)));
        assert_eq!((test.count(Kind::Pvc), test.count(Kind::ConfigMap)), (claims, maps));
        test.answer::<PvcFacts>(&claim);
        test.answer::<ConfigMapFacts>(&map);
        assert_eq!((test.count(Kind::Pvc), test.count(Kind::ConfigMap)), (claims, maps));
    }
    let counts = |test: &TestCache| (test.count(Kind::Pvc), test.count(Kind::ConfigMap));
    assert_eq!((counts(&without), counts(&systemless)), ((0, 1), (1, 0)));
}

#[test]
fn a_cache_is_synced_when_every_kind_that_it_follows_was_listed() {
    let test = TestCache::built(Cache::builder().without(Kind::Pvc));
    assert!(!test.synced() && test.healthy().is_err());
    for kind in [Kind::Sandbox, Kind::SandboxSet, Kind::Checkpoint] {
        test.listed(kind, &test.next_version());
    }
    assert!(!test.synced());
    let mut feed = test.feed::<SandboxTemplate>();
    feed.begin();
    feed.commit(&test.next_version());
    assert!(test.synced() && test.healthy().is_ok());
}

#[test]
fn the_data_of_a_secret_is_decoded_and_never_shown_in_a_log() {
    let test = TestCache::new();
    let secret = json!({
        "metadata": {"name": "k", "namespace": "system", "labels": {"a": "b"}}, "data": {"hash": "c2VjcmV0"},
    });
    test.show::<SecretFacts>(&secret);
    let seen = &test.secrets()[0];
    assert_eq!(seen.data["hash"], b"secret");
    assert!(!format!("{seen:?}").contains("secret\""), "{seen:?}");
    let bad = json!({
        "metadata": {"name": "k", "namespace": "system", "uid": "u", "resourceVersion": "99"}, "data": {"hash": "?"},
    });
    let rejected = test.observe_json(Kind::Secret, bad.to_string().as_bytes()).unwrap_err();
    assert_eq!(rejected.0, "data.hash: not Base64");
}
