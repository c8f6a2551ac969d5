//! Every await is a place to die: a run of a reconciler is cut off at its first poll, at its second, and so
//! on, and each time the cluster must converge.

use sandgate_sim::model::{DeleteOptions, Model, Part, Patch, Place, SANDBOX_SETS, SANDBOXES};
use sandgate_sim::{Weather, World};
use serde_json::{Value, json};

use crate::laws::{Broken, Laws};
use crate::process::Operator;
use crate::shared::cut::{self, Cut};
use crate::shared::runtime;
use crate::users::{self, NAMESPACE};
use crate::{goals, run};

/// What is done to the cluster, once it has come to rest from what was done before.
type Act = fn(&mut Model);

fn alone(model: &mut Model, patch: &Value) {
    let place = Place::new(&SANDBOXES, NAMESPACE, "alone");
    model.patch(&place, Part::Main, &Patch::Merge(patch.clone())).expect("the sandbox is there");
}

fn base(model: &mut Model, patch: &Value) {
    let place = Place::new(&SANDBOX_SETS, NAMESPACE, "base");
    model.patch(&place, Part::Main, &Patch::Merge(patch.clone())).expect("the set is there");
}

fn make(model: &mut Model) {
    assert!(users::make_sandbox(model, "alone"));
}

fn pause(model: &mut Model) {
    alone(model, &json!({ "spec": { "paused": true } }));
}

fn resume(model: &mut Model) {
    alone(model, &json!({ "spec": { "paused": false } }));
}

fn update(model: &mut Model) {
    alone(model, &json!({ "spec": { "template": users::template("image:2", &json!({})) } }));
}

fn recreate(model: &mut Model) {
    let template = users::template("image:3", &json!({}));
    alone(model, &json!({ "spec": { "template": template, "upgradePolicy": { "type": "Recreate" } } }));
}

fn remove(model: &mut Model) {
    let place = Place::new(&SANDBOXES, NAMESPACE, "alone");
    model.delete(&place, &DeleteOptions::default()).expect("the sandbox is there");
}

fn fill(model: &mut Model) {
    users::make_set(model, "base", 2);
}

fn shrink(model: &mut Model) {
    base(model, &json!({ "spec": { "replicas": 1 } }));
}

fn roll(model: &mut Model) {
    base(model, &json!({ "spec": { "template": users::template("image:2", &json!({ "app": "base" })) } }));
}

/// One run, cut off after so many polls. Says whether there were as many.
async fn live(acts: &[Act], polls: u64, cut: Cut, lost: bool) -> (World<Operator>, Result<bool, Broken>) {
    let mut world: World<Operator> = World::new(1, 1, Weather::CALM);
    let mut laws = Laws::new(false);
    cut::after(polls, cut);
    let mut died = false;
    let outcome = async {
        for act in acts {
            act(&mut world.model);
            loop {
                let rests = world.come_to_rest(run::LIMIT, |world, happened| {
                    if cut::is_done() && cut == Cut::Dead && !died {
                        return Err(None);
                    }
                    run::check(world, &mut laws, happened).map_err(Some)
                });
                match rests.await {
                    Ok(true) if died || cut == Cut::Dropped || !cut::is_done() => break,
                    Ok(false) => return Err(Broken("the cluster does not come to rest".to_owned())),
                    Err(Some(broken)) => return Err(broken),
                    Ok(true) | Err(None) => {
                        died = true;
                        if lost {
                            world.lose_all();
                        }
                        world.crash(0);
                    }
                }
            }
        }
        goals::check(&world.model)?;
        Ok(cut::is_done())
    };
    let outcome = outcome.await;
    (world, outcome)
}

fn sweep(acts: &[Act]) {
    for cut in [Cut::Dead, Cut::Dropped] {
        for polls in 0.. {
            // What was under way when it died is lost every other time, and done late every other time.
            let lost = polls % 2 == 0;
            let runtime = runtime();
            let (world, outcome) = runtime.block_on(live(acts, polls, cut, lost));
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    assert!(polls > 10, "{polls} polls are too few to be a sweep");
                    break;
                }
                Err(broken) => {
                    panic!(
                        "{broken}\ncut off after {polls} polls, {cut:?}, lost {lost}\n{}",
                        world.trace.tail(200)
                    )
                }
            }
        }
    }
}

#[test]
fn a_sandbox_is_made_paused_resumed_and_deleted_though_every_await_is_cut_off() {
    sweep(&[make, pause, resume, remove]);
}

#[test]
fn a_sandbox_follows_its_template_though_every_await_is_cut_off() {
    sweep(&[make, update, recreate]);
}

#[test]
fn a_set_fills_rolls_and_shrinks_though_every_await_is_cut_off() {
    sweep(&[fill, roll, shrink]);
}
