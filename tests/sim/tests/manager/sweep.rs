//! Every step is a place to die: the manager that does a create dies after its first step, after its second,
//! and so on, or its user goes away then. Each time the user asks another manager, and gets one sandbox.

use std::time::Duration;

use sandgate_manager::NewSandbox;
use sandgate_sim::{Weather, World};

use crate::laws::{Broken, Laws};
use crate::process::Manager;
use crate::users::Users;
use crate::{goals, run, surroundings};

/// What happens after so many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// The manager dies, and what it has sent is lost.
    Dead,
    /// The manager dies, and what it has sent is done late.
    DeadLate,
    /// The user goes away, and the manager lives.
    Left,
}

/// One create, cut off after so many steps. Says whether it took as many.
async fn live(
    wanted: &NewSandbox,
    user: usize,
    pool: usize,
    steps: u64,
    cut: Cut,
) -> (World<Manager>, Result<bool, Broken>) {
    let mut world: World<Manager> = World::new(1 + steps, 2, Weather::CALM);
    let (mut users, mut laws) = (Users::new(0), Laws::default());
    surroundings::make_set(&mut world.model, "base", pool);
    let outcome = async {
        run::rest(&mut world, &mut users, &mut laws).await?;
        world.set_weather(Weather { clock: 0, ..Weather::CALM });
        let order = users.push(user, wanted.clone());
        users.create(&mut world, 0, order, "creates");
        let ticket = users.newest();
        for _ in 0..steps {
            let happened = world.step().await;
            run::check(&mut world, &mut users, &mut laws, &happened)?;
        }
        let is_cut = users.waiting() > 0;
        match cut {
            _ if !is_cut => {}
            Cut::Dead | Cut::DeadLate => {
                if cut == Cut::Dead {
                    world.lose_all();
                }
                world.crash(0);
            }
            Cut::Left => users.leave(&mut world, ticket),
        }
        if is_cut && wanted.idempotency_key.is_some() {
            users.create(&mut world, 1, order, "creates again");
        }
        run::rest(&mut world, &mut users, &mut laws).await?;
        if wanted.idempotency_key.is_some() && users.orders[order].accepted.is_none() {
            return Err(Broken("the second request got no sandbox".to_owned()));
        }
        goals::check(&world, &users)?;
        Ok(is_cut)
    };
    let outcome = outcome.await;
    (world, outcome)
}

fn sweep(wanted: &NewSandbox, user: usize, pool: usize) {
    for cut in [Cut::Dead, Cut::DeadLate, Cut::Left] {
        for steps in 0.. {
            let (world, outcome) = run::runtime().block_on(live(wanted, user, pool, steps, cut));
            match outcome {
                Ok(true) => assert!(steps < 1000, "the create does not end"),
                Ok(false) => {
                    assert!(steps > 3, "{steps} steps are too few to be a sweep");
                    break;
                }
                Err(broken) => {
                    panic!("{broken}\ncut off after {steps} steps, {cut:?}\n{}", world.trace.tail(200))
                }
            }
        }
    }
}

fn wanted(key: Option<&str>) -> NewSandbox {
    NewSandbox {
        template: "base".to_owned(),
        timeout: Some(Duration::from_secs(3600)),
        idempotency_key: key.map(str::to_owned),
        ..NewSandbox::default()
    }
}

#[test]
fn a_claim_from_a_pool_leaves_nothing_though_every_step_is_cut_off() {
    sweep(&wanted(None), 0, 2);
}

#[test]
fn a_new_sandbox_leaves_nothing_though_every_step_is_cut_off() {
    sweep(&wanted(None), 0, 0);
}

#[test]
fn a_claim_with_a_key_is_done_once_though_every_step_is_cut_off() {
    sweep(&wanted(Some("key")), 0, 2);
}

#[test]
fn a_new_sandbox_with_a_key_is_made_once_though_every_step_is_cut_off() {
    sweep(&wanted(Some("key")), 0, 0);
}

#[test]
fn a_claim_within_a_quota_counts_once_though_every_step_is_cut_off() {
    sweep(&wanted(Some("key")), 1, 2);
}
