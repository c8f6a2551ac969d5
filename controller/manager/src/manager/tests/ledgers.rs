use sandgate_sim::model::CONFIG_MAPS;
use sandgate_sim::network::{Operation, UnderWay};

use super::world::{Fate, World, caller, kind, run, wanted};
use crate::{Caller, Dimension, Error, ErrorKind, Limit, Scope};

/// A caller that may have one sandbox.
fn one(scope: Scope) -> Caller {
    caller("owner-1", &[Limit { dimension: Dimension::Sandboxes, scope, limit: 1 }])
}

fn writes_ledger(call: &UnderWay) -> bool {
    matches!(&*call.operation, Operation::Patch(place, ..) if place.kind == &CONFIG_MAPS)
}

async fn create(world: &mut World, replica: usize, caller: &Caller) -> Result<(), Error> {
    let (manager, of) = (world.manager(replica), caller.clone());
    world.end(async move { manager.create(&of, wanted()).await.map(drop) }).await
}

#[test]
fn a_pause_that_is_noted_after_the_next_resume_does_not_hide_it() {
    run(async {
        let mut world = World::with(2, 2);
        let caller = one(Scope::Running);
        let sandbox = world.created(&caller).await;
        world.controls = false;
        let (manager, of, id) = (world.manager(0), caller.clone(), sandbox.id.clone());
        let pause = tokio::spawn(async move { manager.pause(&of, &id, None).await });
        world.rounds(5).await;
        let (manager, of, id) = (world.manager(1), caller.clone(), sandbox.id.clone());
        let resume = tokio::spawn(async move { manager.connect(&of, &id, None).await });
        world.rounds(5).await;
        world.controls = true;
        // What the first manager writes of the pause is on its way until the second has resumed.
        let late = |call: &UnderWay| {
            if call.caller == 1 && writes_ledger(call) { Fate::Held } else { Fate::Done }
        };
        world.end_with(resume, late).await.unwrap();
        assert!(!pause.is_finished(), "its note is on its way");
        assert_eq!(world.end_with(pause, |_| Fate::Done).await, Ok(()));
        assert_eq!(world.claimed(), (1, 1));
        for replica in [0, 1] {
            let refused = create(&mut world, replica, &caller).await;
            assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        }
    });
}

#[test]
fn a_manager_whose_watches_are_broken_drops_no_entry() {
    run(async {
        let mut world = World::with(2, 2);
        let caller = one(Scope::All);
        world.cut(1).await;
        world.created(&caller).await;
        tokio::time::sleep(world.settings.quota_grace * 2).await;
        assert_eq!(kind(create(&mut world, 1, &caller).await), ErrorKind::QuotaExceeded);
        assert_eq!(world.claimed().0, 1);
    });
}

#[test]
fn managers_of_other_sandboxes_drop_no_entry_of_ours() {
    run(async {
        let mut world = World::with(1, 2);
        world.settings.selector = "team=other".to_owned();
        world.start();
        let caller = one(Scope::All);
        world.created(&caller).await;
        tokio::time::sleep(world.settings.quota_grace * 2).await;
        assert_eq!(kind(create(&mut world, 1, &caller).await), ErrorKind::QuotaExceeded);
        assert_eq!(world.claimed().0, 1);
    });
}

#[test]
fn a_kill_whose_client_is_gone_gives_its_place_back() {
    run(async {
        let mut world = World::with(1, 2);
        let caller = one(Scope::All);
        let sandbox = world.created(&caller).await;
        let (manager, of) = (world.manager(0), caller.clone());
        let kill = tokio::spawn(async move { manager.kill(&of, &sandbox.id).await });
        world.until(|world| world.claimed().0 == 0, |_| Fate::Done).await;
        kill.abort();
        // What was on its way then is lost.
        let mut lost = false;
        for _ in 0..10 {
            let fate = |call: &UnderWay| {
                if writes_ledger(call) && !std::mem::replace(&mut lost, true) {
                    Fate::Lost
                } else {
                    Fate::Done
                }
            };
            world.round(fate).await;
        }
        assert!(lost);
        assert_eq!(create(&mut world, 0, &caller).await, Ok(()));
    });
}
