//! Every await is a place to die: a run of a reconciler is cut off at its first poll, at its second, and so
//! on, and each time the cluster must converge.

use std::time::Duration;

use sandgate_objects::opensandbox::names;
use sandgate_sim::model::{BATCHES, DeleteOptions, Model, PODS, POOLS, Part, Patch, Place};
use sandgate_sim::{Happened, Weather, World};
use serde_json::{Value, json};

use crate::executors::Ends;
use crate::held::is_of_pool;
use crate::laws::{Broken, Laws};
use crate::process::Operator;
use crate::shared::cut::{self, Cut};
use crate::shared::runtime;
use crate::users::{self, NAMESPACE};
use crate::{executors, goals, run, surroundings};

/// A cluster with tasks is at rest when nothing has changed for so long: longer than anything is waited for
/// where every request is answered.
const QUIET: Duration = Duration::from_secs(15);

/// What is done to the cluster, once it has come to rest from what was done before.
type Act = fn(&mut Model);

fn change(model: &mut Model, place: &Place, patch: Value) {
    model.patch(place, Part::Main, &Patch::Merge(patch)).expect("it is there");
}

fn batch(model: &mut Model, patch: Value) {
    change(model, &Place::new(&BATCHES, NAMESPACE, "batch-0"), patch);
}

fn fill(model: &mut Model) {
    assert!(users::make_pool(model, "fresh", "Delete"));
}

fn fill_worn(model: &mut Model) {
    assert!(users::make_pool(model, "worn", "Noop"));
}

fn fill_others(model: &mut Model) {
    fill_worn(model);
    assert!(users::make_pool(model, "washed", "Restart"));
}

fn take(model: &mut Model) {
    assert!(users::make_batch(model, "batch-0", Some("fresh"), 2));
}

fn take_washed(model: &mut Model) {
    assert!(users::make_batch(model, "batch-0", Some("washed"), 2));
}

fn take_worn(model: &mut Model) {
    assert!(users::make_batch(model, "batch-0", Some("worn"), 3));
}

/// Two batches want all that the pool may have.
fn take_twice(model: &mut Model) {
    let capacity = json!({ "bufferMin": 0, "bufferMax": 0, "poolMin": 0, "poolMax": 2 });
    let pool = Place::new(&POOLS, NAMESPACE, "worn");
    change(model, &pool, json!({ "spec": { "capacitySpec": capacity } }));
    for name in ["batch-0", "batch-1"] {
        assert!(users::make_batch(model, name, Some("worn"), 2));
    }
}

/// A batch whose tasks go on until they are stopped.
fn work(model: &mut Model) {
    executors::end(Ends::None);
    assert!(users::make_task_batch(model, "batch-0", "worn", 2, "Retain"));
}

/// A batch whose tasks end soon.
fn work_and_release(model: &mut Model) {
    executors::end(Ends::All);
    assert!(users::make_task_batch(model, "batch-0", "worn", 2, "Release"));
}

/// A task that ends soon, and a pod that stays.
fn work_once(model: &mut Model) {
    executors::end(Ends::All);
    assert!(users::make_task_batch(model, "batch-0", "worn", 1, "Retain"));
}

fn grow(model: &mut Model) {
    batch(model, json!({ "spec": { "replicas": 3 } }));
}

fn shrink(model: &mut Model) {
    batch(model, json!({ "spec": { "replicas": 1 } }));
}

fn move_on(model: &mut Model) {
    batch(model, json!({ "spec": { "poolRef": "worn" } }));
}

fn move_back(model: &mut Model) {
    batch(model, json!({ "spec": { "poolRef": "fresh" } }));
}

fn pause(model: &mut Model) {
    batch(model, json!({ "spec": { "pause": true } }));
}

fn resume(model: &mut Model) {
    batch(model, json!({ "spec": { "pause": false } }));
}

fn remove(model: &mut Model) {
    let place = Place::new(&BATCHES, NAMESPACE, "batch-0");
    model.delete(&place, &DeleteOptions::default()).expect("the batch is there");
}

fn make(model: &mut Model) {
    assert!(users::make_batch(model, "batch-0", None, 2));
}

fn pods_of_pools(model: &Model) -> Vec<Place> {
    model.list(&PODS).filter(|pod| is_of_pool(pod)).map(|pod| Place::of(&PODS, pod)).collect()
}

fn lose_pods(model: &mut Model) {
    for place in pods_of_pools(model) {
        model.delete(&place, &DeleteOptions::default()).expect("the pod is there");
    }
}

fn evict(model: &mut Model) {
    for place in pods_of_pools(model) {
        change(model, &place, json!({ "metadata": { "labels": { names::LABEL_EVICT: "" } } }));
    }
}

fn roll(model: &mut Model) {
    let template = json!({ "spec": { "containers": [{ "name": "main", "image": "image:2" }] } });
    change(model, &Place::new(&POOLS, NAMESPACE, "fresh"), json!({ "spec": { "template": template } }));
}

/// Lets the cluster come to rest.
async fn rest<E>(
    world: &mut World<Operator>,
    see: impl FnMut(&mut World<Operator>, &Happened) -> Result<(), E>,
) -> Result<bool, E> {
    match users::are_tasks(&world.model) {
        true => world.come_to_quiet(run::LIMIT, QUIET, see).await,
        false => world.come_to_rest(run::LIMIT, see).await,
    }
}

/// One run, cut off after so many polls, which are counted after what was done `before`. Says whether there
/// were as many.
async fn live(
    before: &[Act],
    acts: &[Act],
    polls: u64,
    cut: Cut,
    lost: bool,
) -> (World<Operator>, Result<bool, Broken>) {
    surroundings::begin(1);
    let mut world: World<Operator> = World::new(1, 1, Weather::CALM);
    let mut laws = Laws::default();
    let mut died = false;
    cut::after(u64::MAX, cut);
    let outcome = async {
        for act in before {
            act(&mut world.model);
            if !rest(&mut world, |world, happened| run::check(world, &mut laws, happened)).await? {
                return Err(Broken("the cluster does not come to rest".to_owned()));
            }
        }
        cut::after(polls, cut);
        for (number, act) in acts.iter().enumerate() {
            act(&mut world.model);
            loop {
                let rests = rest(&mut world, |world, happened| {
                    if cut::is_done() && cut != Cut::Dropped && !died {
                        return Err(None);
                    }
                    run::check(world, &mut laws, happened).map_err(Some)
                });
                match rests.await {
                    Ok(true) if died || cut != Cut::Dead || !cut::is_done() => break,
                    Ok(false) => return Err(Broken("the cluster does not come to rest".to_owned())),
                    Err(Some(broken)) => return Err(broken),
                    // After the last act there is nothing to be done next.
                    Err(None) if cut == Cut::Next => {
                        died = true;
                        if number + 1 < acts.len() {
                            break;
                        }
                    }
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

fn sweep(before: &[Act], acts: &[Act]) {
    sweep_by(&[Cut::Dead, Cut::Dropped], before, acts);
}

fn sweep_by(cuts: &[Cut], before: &[Act], acts: &[Act]) {
    for &cut in cuts {
        for polls in 0.. {
            // What was under way when it died is lost every other time, and done late every other time.
            let lost = polls % 2 == 0;
            let (world, outcome) = runtime().block_on(live(before, acts, polls, cut, lost));
            match outcome {
                Ok(true) => {}
                Ok(false) => {
                    assert!(polls > 10, "{polls} polls are too few to be a sweep");
                    break;
                }
                Err(broken) => panic!(
                    "{broken}\ncut off after {polls} polls, {cut:?}, lost {lost}\n{}",
                    world.trace.tail(200)
                ),
            }
        }
    }
}

#[test]
fn a_batch_takes_and_grows_though_every_await_is_cut_off() {
    sweep(&[fill], &[take, grow]);
}

#[test]
fn a_batch_shrinks_and_goes_though_every_await_is_cut_off() {
    sweep(&[fill, take], &[shrink, remove]);
}

#[test]
fn a_batch_moves_from_pool_to_pool_though_every_await_is_cut_off() {
    sweep(&[fill, fill_others, take], &[move_on, remove]);
}

#[test]
fn containers_are_restarted_for_the_next_batch_though_every_await_is_cut_off() {
    sweep(&[fill_others, take_washed], &[remove, take_washed]);
}

#[test]
fn lost_pods_are_replaced_though_every_await_is_cut_off() {
    sweep(&[fill, take], &[lose_pods]);
}

#[test]
fn a_pool_fills_evicts_and_rolls_though_every_await_is_cut_off() {
    sweep(&[], &[fill, evict, roll]);
}

#[test]
fn a_batch_of_a_pool_pauses_and_resumes_though_every_await_is_cut_off() {
    sweep(&[fill, take, shrink], &[pause, resume]);
}

#[test]
fn a_batch_of_its_own_pods_pauses_and_resumes_though_every_await_is_cut_off() {
    sweep(&[], &[make, shrink, pause, resume]);
}

#[test]
fn tasks_are_stopped_before_their_pods_go_back_though_every_await_is_cut_off() {
    sweep(&[fill_worn], &[work, remove]);
}

#[test]
fn pods_of_tasks_that_have_ended_go_back_though_every_await_is_cut_off() {
    sweep(&[fill_worn], &[work_and_release, remove]);
}

#[test]
fn tasks_move_from_pool_to_pool_though_every_await_is_cut_off() {
    sweep(&[fill, fill_worn, work], &[move_back, remove]);
}

#[test]
fn a_task_that_has_ended_is_not_run_again_by_a_resume_though_every_await_is_cut_off() {
    sweep(&[fill_worn, work_once], &[pause, resume, remove]);
}

#[test]
fn two_batches_want_the_same_pods_though_every_await_is_cut_off() {
    sweep(&[fill_worn], &[take_twice, remove]);
}

#[test]
fn a_batch_that_grows_again_at_any_moment_of_its_shrinking_has_all_its_pods() {
    sweep_by(&[Cut::Next], &[fill, take, grow], &[shrink, grow]);
    sweep_by(&[Cut::Next], &[fill_worn, take_worn], &[shrink, grow]);
}
