//! How the router learns of environments.

use std::time::Duration;

use sandgate_sim::model::{DeleteOptions, ENVS, Place, object};

use super::world::{env, of_shop, on, shop};
use crate::ErrorKind;
use crate::manager::tests::world::{NAMESPACE, World, kind, pass, run, somebody};

/// Longer than it takes until the router is brought up to the cache.
const REPAIRED: Duration = Duration::from_secs(13);

fn routed(world: &World) -> usize {
    world.manager(0).env_counts().routed
}

fn delete(world: &mut World, name: &str) {
    let place = Place::new(&ENVS, NAMESPACE, name);
    let uid = object::uid(world.model.get(&place).unwrap()).to_owned();
    world.model.delete(&place, &DeleteOptions::of_uid(&uid)).unwrap();
    world.show();
}

#[test]
fn an_environment_is_routed_to_as_soon_as_the_cache_shows_it_and_no_longer() {
    run(async {
        let mut world = shop(1, &[("a", 1, 0)]);
        assert_eq!(routed(&world), 1);
        env(&mut world, "new", &[("b", 1, 0)]);
        world.show();
        assert_eq!(routed(&world), 2);
        delete(&mut world, "new");
        assert_eq!(routed(&world), 1);
    });
}

#[test]
fn a_missed_event_is_repaired_by_the_next_reconcile() {
    run(async {
        let mut world = shop(0, &[("a", 1, 0)]);
        world.is_deaf = true;
        world.start();
        let manager = world.manager(0);
        let kept = tokio::spawn(async move { manager.keep_swept().await });
        assert_eq!(routed(&world), 0, "no handler was called");
        let refused = on!(world, 0, |manager| manager.create(&somebody(), of_shop()));
        assert_eq!(kind(refused), ErrorKind::Invalid);
        pass(REPAIRED).await;
        assert_eq!(routed(&world), 1);
        on!(world, 0, |manager| manager.create(&somebody(), of_shop())).unwrap();
        delete(&mut world, "shop");
        assert_eq!(routed(&world), 1, "the delete is missed too");
        pass(REPAIRED).await;
        assert_eq!(routed(&world), 0);
        kept.abort();
    });
}
