use std::time::Duration;

use sandgate_sim::model::{CONFIG_MAPS, DeleteOptions, Place};
use sandgate_sim::network::{Operation, UnderWay};
use serde_json::Value;

use super::world::{Fate, World, caller, kind, run, wanted};
use crate::{Caller, Dimension, ErrorKind, Limit, Scope};

fn limited(dimension: Dimension, scope: Scope, limit: u64) -> Caller {
    caller("owner-1", &[Limit { dimension, scope, limit }])
}

fn is_ledger(call: &UnderWay) -> bool {
    let place = call.operation.target();
    place.is_some_and(|place| place.kind == &CONFIG_MAPS)
        || matches!(&*call.operation, Operation::Get(place) if place.kind == &CONFIG_MAPS)
}

/// Creates at once on two managers, with these fates. Returns how many were given out.
async fn creates(
    world: &mut World,
    caller: &Caller,
    count: usize,
    mut fate: impl FnMut(&UnderWay) -> Fate,
) -> usize {
    let creates: Vec<_> = (0..count)
        .map(|number| {
            let (manager, caller) = (world.manager(number % 2), caller.clone());
            tokio::spawn(async move { manager.create(&caller, wanted()).await })
        })
        .collect();
    let mut given = 0;
    for create in creates {
        match world.end_with(create, &mut fate).await {
            Ok(_) => given += 1,
            Err(error) => {
                let kinds = [ErrorKind::QuotaExceeded, ErrorKind::Unavailable, ErrorKind::Unknown];
                assert!(kinds.contains(&error.kind), "{error:?}");
            }
        }
        assert!(world.claimed().0 <= 3, "more than the quota");
    }
    given
}

#[test]
fn two_managers_never_give_more_than_the_quota() {
    run(async {
        let limits = [(Dimension::Sandboxes, 3), (Dimension::Cpu, 1500), (Dimension::Memory, 3 * 1024)];
        for (dimension, limit) in limits {
            let mut world = World::with(2, 10);
            let caller = limited(dimension, Scope::All, limit);
            let given = creates(&mut world, &caller, 8, |_| Fate::Done).await;
            assert_eq!((given, world.claimed().0), (3, 3), "{dimension:?}");
        }
    });
}

#[test]
fn a_quota_holds_while_answers_get_lost() {
    run(async {
        for fate in [Fate::Lost, Fate::Unanswered] {
            let mut world = World::with(2, 10);
            let caller = limited(Dimension::Sandboxes, Scope::All, 3);
            let mut number = 0;
            let fates = move |_: &UnderWay| {
                number += 1;
                if number % 3 == 0 { fate } else { Fate::Done }
            };
            let given = creates(&mut world, &caller, 8, fates).await;
            assert!(given <= 3, "{fate:?}");
        }
    });
}

#[test]
fn a_ledger_that_cannot_be_read_or_written_refuses() {
    run(async {
        let mut world = World::with(1, 2);
        let caller = limited(Dimension::Sandboxes, Scope::All, 3);
        for fate in [Fate::Refused(403), Fate::Refused(429), Fate::Refused(500), Fate::Lost] {
            let (manager, of) = (world.manager(0), caller.clone());
            let create = tokio::spawn(async move { manager.create(&of, wanted()).await });
            let refused =
                world.end_with(create, |call| if is_ledger(call) { fate } else { Fate::Done }).await;
            assert_eq!(kind(refused), ErrorKind::Unavailable, "{fate:?}");
            assert_eq!(world.claimed(), (0, 0));
        }
        let sandbox = world.created(&caller).await;
        let place = Place::new(&CONFIG_MAPS, "sandgate-system", "sandgate-quota-owner-1");
        let mut ledger = Value::clone(world.model.get(&place).unwrap());
        ledger["data"]["ledger"] = "no JSON".into();
        world.model.put(&place, ledger);
        world.show();
        let (manager, of) = (world.manager(0), caller.clone());
        let refused = world.end(async move { manager.create(&of, wanted()).await }).await;
        assert_eq!(kind(refused), ErrorKind::Unavailable);
        assert_eq!(world.claimed().0, 1, "{sandbox:?}");
    });
}

#[test]
fn a_resume_is_admitted_like_a_create() {
    run(async {
        let mut world = World::with(2, 3);
        let caller = limited(Dimension::Sandboxes, Scope::Running, 1);
        let first = world.created(&caller).await;
        let (manager, of, id) = (world.manager(0), caller.clone(), first.id.clone());
        world.end(async move { manager.pause(&of, &id, None).await }).await.unwrap();
        let second = world.created(&caller).await;
        for replica in [0, 1] {
            let (manager, of, id) = (world.manager(replica), caller.clone(), first.id.clone());
            let refused = world.end(async move { manager.connect(&of, &id, None).await }).await;
            assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        }
        let (manager, of, id) = (world.manager(1), caller.clone(), second.id.clone());
        world.end(async move { manager.kill(&of, &id).await }).await.unwrap();
        let resumes: Vec<_> = [0, 1]
            .into_iter()
            .map(|replica| {
                let (manager, of, id) = (world.manager(replica), caller.clone(), first.id.clone());
                tokio::spawn(async move { manager.connect(&of, &id, None).await })
            })
            .collect();
        for resume in resumes {
            world.end_with(resume, |_| Fate::Done).await.unwrap();
        }
        assert_eq!(world.claimed(), (1, 1));
        let (manager, of) = (world.manager(1), caller.clone());
        let refused = world.end(async move { manager.create(&of, wanted()).await }).await;
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
    });
}

#[test]
fn what_ends_by_itself_is_given_back_after_a_while() {
    run(async {
        let mut world = World::with(1, 3);
        let caller = limited(Dimension::Sandboxes, Scope::All, 1);
        let first = world.created(&caller).await;
        world.model.delete(&super::world::place(&first), &DeleteOptions::default()).unwrap();
        world.show();
        let (manager, of) = (world.manager(0), caller.clone());
        let refused = world.end(async move { manager.create(&of, wanted()).await }).await;
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded);
        tokio::time::sleep(world.settings.quota_grace * 2).await;
        world.created(&caller).await;
    });
}

#[test]
fn what_another_manager_has_killed_does_not_count_though_the_cache_still_shows_it() {
    run(async {
        let mut world = World::with(2, 3);
        let caller = limited(Dimension::Sandboxes, Scope::All, 1);
        let first = world.created(&caller).await;
        world.replicas[1].lags = true;
        let (manager, of) = (world.manager(0), caller.clone());
        world.end(async move { manager.kill(&of, &first.id).await }).await.unwrap();
        let (manager, of) = (world.manager(1), caller.clone());
        world.end(async move { manager.create(&of, wanted()).await }).await.unwrap();
    });
}

#[test]
fn cpu_that_a_create_asks_for_counts_and_not_that_of_the_template() {
    run(async {
        let mut world = World::with(1, 2);
        let caller = limited(Dimension::Cpu, Scope::All, 1000);
        for (cpu, is_given) in [("4", false), ("1", true)] {
            let before = world.model.revision();
            let mut wanted = wanted();
            wanted.extensions.cpu_limit = Some(cpu.to_owned());
            let (manager, of) = (world.manager(0), caller.clone());
            let created = world.end(async move { manager.create(&of, wanted).await }).await;
            if is_given {
                created.unwrap();
            } else {
                assert_eq!(kind(created), ErrorKind::QuotaExceeded);
                assert_eq!(world.model.revision(), before, "nothing is written");
            }
        }
        let (manager, of) = (world.manager(0), caller.clone());
        let refused = world.end(async move { manager.create(&of, wanted()).await }).await;
        assert_eq!(kind(refused), ErrorKind::QuotaExceeded, "all of the CPU is in use");
    });
}

#[test]
fn creates_that_wait_for_longer_than_entries_are_kept_do_not_exceed_the_quota() {
    run(async {
        let mut world = World::with(1, 0);
        let caller = limited(Dimension::Sandboxes, Scope::All, 1);
        let mut waiting = Vec::new();
        for _ in 0..3 {
            let mut wanted = wanted();
            wanted.extensions.only_from_stock = true;
            wanted.extensions.claim_timeout = Some(Duration::from_secs(3600));
            let (manager, of) = (world.manager(0), caller.clone());
            waiting.push(tokio::spawn(async move { manager.create(&of, wanted).await }));
            world.rounds(20).await;
            tokio::time::sleep(world.settings.quota_grace + Duration::from_secs(1)).await;
        }
        for _ in 0..3 {
            world.stock();
        }
        world.show();
        let mut given = 0;
        for create in waiting {
            match world.end_with(create, |_| Fate::Done).await {
                Ok(_) => given += 1,
                Err(error) => assert_eq!(error.kind, ErrorKind::QuotaExceeded, "{error}"),
            }
        }
        assert_eq!((given, world.claimed().0), (1, 1));
    });
}

#[test]
fn a_key_without_limits_writes_no_ledger() {
    run(async {
        let mut world = World::with(1, 1);
        world.created(&super::world::somebody()).await;
        assert_eq!(world.config_maps(), 0);
    });
}
