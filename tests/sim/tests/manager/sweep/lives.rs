//! Requests about a sandbox that a user was told of, cut off: the sandbox is as before or as was asked for,
//! and the user's next requests go on from there.

use std::time::Duration;

use jiff::Timestamp;
use sandgate_manager::{ErrorKind, NewSandbox};
use sandgate_objects::openkruise::names;
use sandgate_sim::model::object::{condition, deleting, text};

use super::stage::{Cut, Stage};
use super::sweep;
use crate::goals;
use crate::laws::Broken;
use crate::surroundings::{is_to_pause, time};
use crate::users::{Act, find};

/// How the requests can be cut off.
const CUTS: [Cut; 4] = [Cut::Dead, Cut::DeadLate, Cut::DeadLast, Cut::Left];

/// A user who may have one sandbox that runs.
const USER: usize = 2;

/// How long the sandbox is to live, in seconds.
const DAY: u64 = 24 * 3600;

/// Longer than an entry of a quota lives without a sandbox.
const FORGOTTEN: Duration = Duration::from_secs(12 * 60);

/// How a sandbox is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rests {
    Runs,
    Paused,
    Gone,
}

/// A sandbox at rest, and when it ends.
type Found = (Rests, Option<Timestamp>);

fn found(stage: &Stage, id: &str) -> Result<Found, Broken> {
    let sandbox = find(&stage.world.model, id).filter(|sandbox| !deleting(sandbox));
    let Some(sandbox) = sandbox else { return Ok((Rests::Gone, None)) };
    let holds = |name| condition(sandbox, name) == "True";
    let rests = match (text(sandbox, "/status/phase"), is_to_pause(sandbox)) {
        (names::PHASE_RUNNING, false) if holds(names::CONDITION_READY) => Rests::Runs,
        (names::PHASE_PAUSED, true) if holds(names::CONDITION_PAUSED) => Rests::Paused,
        (phase, to_pause) => {
            return Err(Broken(format!("{id} rests, its phase is {phase}, to be paused: {to_pause}")));
        }
    };
    Ok((rests, time(sandbox, "/spec/shutdownTime")))
}

/// What an act makes of a sandbox.
fn goal(act: Act) -> Rests {
    match act {
        Act::Pause => Rests::Paused,
        Act::Kill => Rests::Gone,
        Act::Get | Act::Peek | Act::Connect(_) | Act::Resume(_) | Act::SetTimeout(_) => Rests::Runs,
    }
}

/// Whether the sandbox is as this act, which was first asked for then, makes it.
fn is_done(stage: &Stage, act: Act, asked: Timestamp, (rests, end): Found) -> bool {
    let ends = act.ends(asked, stage.world.now());
    let fits = match (ends, end) {
        (Some(ends), Some(end)) => ends.contains(&end),
        (ends, end) => ends.is_none() && end.is_none(),
    };
    rests == goal(act) && fits
}

/// Asks a manager for it and waits for the answer.
async fn answer(stage: &mut Stage, slot: usize, act: Act, id: &str) -> Result<Result<(), ErrorKind>, Broken> {
    let ticket = stage.users.ask(&mut stage.world, slot, act, id);
    stage.rest().await?;
    let ended = stage.users.ended.get(&ticket).copied();
    ended.ok_or_else(|| Broken(format!("{act:?} of {id} is never answered")))
}

/// Asks a manager for something that can be done.
async fn done(stage: &mut Stage, slot: usize, act: Act, id: &str) -> Result<(), Broken> {
    let asked = stage.world.now();
    let answered = answer(stage, slot, act, id).await?;
    let is = found(stage, id)?;
    if answered.is_ok() && is_done(stage, act, asked, is) {
        return Ok(());
    }
    Err(Broken(format!("{act:?} of {id} was answered with {answered:?}, and the sandbox is {is:?}")))
}

/// The user gets a sandbox, if the quota has room.
async fn accepted(stage: &mut Stage, slot: usize) -> Result<String, Broken> {
    let timeout = Some(Duration::from_secs(DAY));
    let wanted = NewSandbox { template: "base".to_owned(), timeout, ..NewSandbox::default() };
    let order = stage.users.push(USER, wanted);
    stage.users.create(&mut stage.world, slot, order, "creates");
    stage.rest().await?;
    stage.users.orders[order].accepted.clone().ok_or_else(|| Broken("the user got no sandbox".to_owned()))
}

/// One request, cut off. Then the user asks again, and goes on.
async fn live(stage: &mut Stage, act: Act, is_paused: bool, steps: u64, cut: Cut) -> Result<bool, Broken> {
    stage.rest().await?;
    let id = accepted(stage, 1).await?;
    if is_paused {
        done(stage, 1, Act::Pause, &id).await?;
    }
    let (before, asked) = (found(stage, &id)?, stage.world.now());
    stage.users.ask(&mut stage.world, 0, act, &id);
    let is_cut = stage.cut(steps, cut).await?;
    if is_cut && stage.is_mere_death(cut) {
        return Ok(true);
    }
    let is_asked_again = is_cut && cut.holds();
    if is_asked_again {
        stage.users.ask(&mut stage.world, 1, act, &id);
        stage.answered().await?;
    }
    stage.release().await?;
    let is = found(stage, &id)?;
    if !is_done(stage, act, asked, is) && (!is_cut || is_asked_again || is != before) {
        return Err(Broken(format!("{act:?} of {id} is neither done nor not: {before:?}, {is:?}")));
    }
    let expected = match (act, is.0) {
        (Act::Pause, Rests::Paused) => Err(ErrorKind::Conflict),
        (Act::Kill, Rests::Gone) => Err(ErrorKind::NotFound),
        _ => Ok(()),
    };
    // A manager that lives may remember something of what was cut off.
    let answered = answer(stage, usize::from(steps.is_multiple_of(2)), act, &id).await?;
    let is = found(stage, &id)?;
    if answered != expected || !is_done(stage, act, asked, is) {
        return Err(Broken(format!("{act:?} of {id} again: {answered:?}, and the sandbox is {is:?}")));
    }
    if act != Act::Kill {
        let next = if is.0 == Rests::Paused { Act::Connect(3 * DAY) } else { Act::Pause };
        done(stage, 1, next, &id).await?;
        done(stage, 1, Act::Kill, &id).await?;
    }
    // Nothing is left of it, in the quota neither.
    stage.pass(FORGOTTEN).await?;
    accepted(stage, 0).await?;
    goals::check(&mut stage.world, &stage.users)?;
    goals::check_swept(&stage.world.model, &stage.users)?;
    Ok(is_cut)
}

fn sweep_act(act: Act, is_paused: bool) {
    sweep(1, &CUTS, &async |stage: &mut Stage, steps, cut| live(stage, act, is_paused, steps, cut).await);
}

#[test]
fn a_pause_is_done_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::Pause, false);
}

#[test]
fn a_resume_is_done_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::Resume(2 * DAY), true);
}

#[test]
fn a_connect_that_resumes_is_done_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::Connect(2 * DAY), true);
}

#[test]
fn a_connect_that_prolongs_is_done_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::Connect(2 * DAY), false);
}

#[test]
fn a_kill_is_done_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::Kill, false);
    sweep_act(Act::Kill, true);
}

#[test]
fn a_new_timeout_is_given_or_not_though_every_step_is_cut_off() {
    sweep_act(Act::SetTimeout(2 * DAY), false);
}
