//! A manager of one namespace, which may list that namespace only, and a key of all of them.

use sandgate_sim::network::{Operation, UnderWay};

use super::world::{Answer, Fate, NAMESPACE, World, caller, keyed, name, run, wanted};
use crate::{Caller, ErrorKind, NewSandbox};

fn world(replicas: usize, stock: usize) -> World {
    let mut world = World::with(0, stock);
    world.settings.namespace = Some(NAMESPACE.to_owned());
    for _ in 0..replicas {
        world.start();
    }
    world
}

/// As the rights of one namespace have it.
fn rights(call: &UnderWay) -> Fate {
    match &*call.operation {
        Operation::List(scope, _) if scope.namespace.is_none() => Fate::Refused(403),
        _ => Fate::Done,
    }
}

fn create(world: &World, replica: usize, wanted: NewSandbox) -> tokio::task::JoinHandle<Answer> {
    let claims = world.replicas[replica].claims.clone().unwrap();
    let everywhere = Caller { namespace: None, ..caller() };
    tokio::spawn(async move { claims.create(&everywhere, wanted).await })
}

#[test]
fn a_template_that_is_not_there_is_a_wrong_field() {
    run(async {
        let mut world = world(1, 1);
        let create = create(&world, 0, NewSandbox { template: "other".to_owned(), ..wanted() });
        assert_eq!(world.end_with(create, rights).await.unwrap_err().kind, ErrorKind::Invalid);
    });
}

#[test]
fn a_retry_with_a_key_adopts_what_a_dead_manager_has_claimed() {
    run(async {
        let mut world = world(2, 2);
        let first = create(&world, 0, keyed("k"));
        world.until(|world| !world.claimed().is_empty(), rights).await;
        world.crash(0);
        first.abort();
        let claimed = world.claimed();
        let second = create(&world, 1, keyed("k"));
        assert_eq!(name(&world.end_with(second, rights).await), claimed[0]);
        assert_eq!(world.claimed(), claimed);
    });
}
