use sandgate_cache::Key;
use sandgate_objects::sandbox_env::resources::{SandboxEnv, Time};

use super::world::*;
use crate::EnvRouterSync;
use crate::router::{EnvRouter, Fed, RouterSettings};

fn of_uid(uid: &str, version: u64, pool: &str) -> SandboxEnv {
    let mut env = env("e", version, &[member(pool)]);
    env.metadata.uid = Some(uid.to_owned());
    env
}

fn deletes(router: &EnvRouter, uid: &str, version: u64) -> Fed {
    router.delete(&Key::new("ns", "e"), Some(uid), &version.to_string().parse().unwrap())
}

fn pool(router: &EnvRouter) -> String {
    routed(router, &wish("e"), &Loads::default())
}

#[test]
fn an_older_version_does_not_replace_a_newer_one() {
    let router = router();
    assert_eq!(tell(&router, &of_uid("1", 9, "new")), Fed::Taken);
    assert_eq!(tell(&router, &of_uid("1", 8, "old")), Fed::Known);
    assert_eq!(tell(&router, &of_uid("1", 9, "same")), Fed::Known);
    assert_eq!(pool(&router), "new");
    assert_eq!(tell(&router, &of_uid("1", 10, "newer")), Fed::Taken);
    assert_eq!(pool(&router), "newer");
}

#[test]
fn what_is_deleted_does_not_come_back_by_an_older_upsert() {
    let router = router();
    tell(&router, &of_uid("1", 5, "a"));
    assert_eq!(deletes(&router, "1", 7), Fed::Taken);
    assert_eq!(pool(&router), "NotFound(Env)");
    for version in [4, 5, 6, 8] {
        assert_eq!(tell(&router, &of_uid("1", version, "a")), Fed::Gone, "{version}");
    }
    assert_eq!(tell(&router, &of_uid("0", 3, "before")), Fed::Gone);
    assert_eq!(tell(&router, &of_uid("2", 9, "next")), Fed::Taken);
    assert_eq!(pool(&router), "next");
    assert_eq!(deletes(&router, "1", 7), Fed::Known, "the delete of the one before it");
    assert_eq!(tell(&router, &of_uid("1", 6, "a")), Fed::Known);
    assert_eq!(pool(&router), "next");
}

#[test]
fn a_delete_of_a_version_that_is_not_the_last_deletes_all_the_same() {
    let router = router();
    tell(&router, &of_uid("1", 8, "a"));
    assert_eq!(deletes(&router, "1", 5), Fed::Taken);
    assert_eq!(pool(&router), "NotFound(Env)");
    assert_eq!(tell(&router, &of_uid("0", 7, "a")), Fed::Gone);
}

#[test]
fn a_delete_of_a_later_one_deletes_those_before_it() {
    let router = router();
    tell(&router, &of_uid("1", 8, "a"));
    assert_eq!(deletes(&router, "2", 12), Fed::Taken);
    assert_eq!(pool(&router), "NotFound(Env)");
}

#[test]
fn a_missed_upsert_is_repaired_by_the_next() {
    let router = router();
    tell(&router, &of_uid("1", 5, "a"));
    // Version 6, which has another pool, is never told. The next pass of the reconciler tells 7.
    assert_eq!(tell(&router, &of_uid("1", 7, "b")), Fed::Taken);
    assert_eq!(pool(&router), "b");
    // The first is never told either: a pass that finds nothing to change tells what there is.
    let late = EnvRouter::new(RouterSettings::of(HERE));
    assert_eq!(tell(&late, &of_uid("1", 7, "b")), Fed::Taken);
    assert_eq!(pool(&late), "b");
}

#[test]
fn a_missed_delete_is_repaired_by_a_list() {
    let router = router();
    tell(&router, &of_uid("1", 5, "a"));
    tell(&router, &env("other", 6, &[member("a")]));
    tell(&router, &env("young", 9, &[member("a")]));
    let listed = "8".parse().unwrap();
    assert_eq!(router.retain(&listed, |key| &*key.name == "other"), 1, "the list is older than the youngest");
    assert_eq!(pool(&router), "NotFound(Env)");
    assert_eq!(tell(&router, &of_uid("1", 5, "a")), Fed::Gone);
    assert_eq!(router.len(), 2);
}

#[test]
fn an_environment_that_is_being_deleted_takes_no_claims() {
    let router = router();
    tell(&router, &of_uid("1", 5, "a"));
    let mut ending = of_uid("1", 6, "a");
    ending.metadata.deletion_timestamp = Some(Time(now()));
    assert_eq!(tell(&router, &ending), Fed::Taken);
    assert_eq!(pool(&router), "NotFound(Env)");
    assert_eq!(tell(&router, &of_uid("1", 5, "a")), Fed::Known);
    assert_eq!(pool(&router), "NotFound(Env)");
}

#[test]
fn a_hook_that_knows_no_uid_deletes_what_there_was() {
    let (router, key) = (router(), Key::new("ns", "e"));
    let hook: &dyn EnvRouterSync = &router;
    let told =
        |uid, version, pool| sandgate_cache::seen(of_uid(uid, version, pool), |env| &env.metadata).unwrap();
    hook.on_env_upsert(&told("1", 5, "a"));
    hook.on_env_deleted(&key, Some(&"4".parse().unwrap()));
    assert_eq!(pool(&router), "a", "something newer is known");
    hook.on_env_deleted(&key, Some(&"6".parse().unwrap()));
    assert_eq!(pool(&router), "NotFound(Env)");
    hook.on_env_upsert(&told("1", 7, "a"));
    hook.on_env_upsert(&told("0", 6, "a"));
    assert_eq!(pool(&router), "NotFound(Env)");
    hook.on_env_upsert(&told("2", 8, "b"));
    assert_eq!(pool(&router), "b");
}

#[test]
fn a_hook_that_knows_no_version_ends_nothing_for_good() {
    let (router, key) = (router(), Key::new("ns", "e"));
    tell(&router, &of_uid("1", 5, "a"));
    router.on_env_deleted(&key, None);
    assert_eq!(pool(&router), "NotFound(Env)");
    assert_eq!(tell(&router, &of_uid("1", 4, "old")), Fed::Gone);
    assert_eq!(tell(&router, &of_uid("1", 5, "a")), Fed::Taken, "it is there after all");
    assert_eq!(pool(&router), "a");
    router.on_env_deleted(&Key::new("ns", "other"), None);
    assert_eq!(router.len(), 1);
}

#[test]
fn only_so_many_deletes_are_remembered() {
    let router = EnvRouter::new(RouterSettings { tombstones: 2, ..RouterSettings::of(HERE) });
    for (name, version) in [("a", 1_u64), ("b", 2), ("c", 3)] {
        router.delete(&Key::new("ns", name), Some(name), &version.to_string().parse().unwrap());
    }
    let order = router.order.lock();
    assert_eq!(order.remembered(), ["b", "c"]);
}

#[test]
fn two_members_of_one_name_are_one() {
    assert_eq!(of_members(&[member("a"), member("a").priority(1)], &Loads::default()), "a");
}
