//! The operator in the simulation.
//!
//! A seed makes a cluster with a few sets and sandboxes, users who claim, pause, scale and change them, one
//! to three operators, and a weather in which answers get lost, watches lag and operators die. After every
//! step the laws of [`laws`] must hold. Then nothing goes wrong any more, and [`goals`] must be reached.
//!
//! A run that fails prints its seed. `SANDGATE_SEED=…` runs that seed alone and prints the whole trace;
//! `SANDGATE_SIM_SEEDS=…` and `SANDGATE_SIM_STEPS=…` say how many seeds and how many steps each.
#![forbid(unsafe_code)]

mod goals;
mod laws;
mod process;
mod run;
#[path = "../shared/mod.rs"]
mod shared;
mod sweep;
mod users;

use sandgate_sim::{Random, Weather};

use run::{Setting, simulate};
use shared::number;

/// Steps of each run before nothing goes wrong any more.
const STEPS: u64 = 400;

#[test]
fn whatever_happens_the_laws_hold_and_the_sets_converge() {
    let steps = number("SANDGATE_SIM_STEPS").unwrap_or(STEPS);
    if let Some(seed) = number("SANDGATE_SEED") {
        let run = simulate(seed, steps, &Setting::of(seed));
        println!("{}", run.trace.tail(usize::MAX));
        run.outcome.unwrap_or_else(|broken| panic!("{broken}"));
        return;
    }
    let mut missing = HAPPENS.to_vec();
    for seed in 0..number("SANDGATE_SIM_SEEDS").unwrap_or(80) {
        let run = simulate(seed, steps, &Setting::of(seed));
        if let Err(broken) = run.outcome {
            panic!("{broken}\nSANDGATE_SEED={seed} SANDGATE_SIM_STEPS={steps}\n{}", run.trace.tail(250));
        }
        missing.retain(|what| !run.trace.lines().iter().any(|line| line.contains(what)));
    }
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

/// What must happen in some run: a law about something that never happens says nothing.
const HAPPENS: [&str; 28] = [
    "user: claims",
    "user: pauses sandboxes",
    "user: pauses later",
    "user: resumes",
    "user: ends later",
    "user: updates",
    "user: scales",
    "user: rolls sandboxsets",
    "user: rolls sandboxtemplates",
    "user: holds",
    "user: unlabels pods",
    "\"finalizers\":[]",
    "user: deletes sandboxes",
    "user: deletes pods",
    "user: deletes sandboxsets",
    "node: Unready",
    "node: End",
    "node: Update",
    "garbage collector: collect pods",
    "garbage collector: collect persistentvolumeclaims",
    "create sandboxes default/base",
    "delete sandboxes default/base",
    "\"phase\":\"Upgrading\"",
    "\"phase\":\"Resuming\"",
    "ends: Conflict",
    "ends: NotLeading",
    "not within 10 s",
    "the history up to",
];

#[test]
fn one_seed_is_one_trace() {
    for seed in 0..6 {
        let (one, two) = (simulate(seed, 200, &Setting::of(seed)), simulate(seed, 200, &Setting::of(seed)));
        let differ = one.trace.lines().iter().zip(two.trace.lines()).position(|(one, two)| one != two);
        assert!(one.trace == two.trace, "seed {seed} differs from line {differ:?}");
    }
}

/// Who begins to lead knows little of what was done until then, and of one kind less than of another.
#[test]
fn leaders_change_places_and_nothing_is_lost() {
    for seed in 0..30 {
        let weather = Weather { lead: 40, crash: 6, watch: 50, clock: 4, ..Weather::CALM };
        let run = simulate(seed, STEPS, &Setting { weather, operators: 3, rolling_only: false, warm: true });
        if let Err(broken) = run.outcome {
            panic!("{broken}\nseed {seed}\n{}", run.trace.tail(250));
        }
    }
}

/// Nobody claims, nothing fails: whatever the operator deletes, it deletes to replace it.
#[test]
fn a_set_rolls_within_its_budget_whatever_the_weather() {
    for seed in 0..25 {
        let weather = Weather { crash: 0, lead: 0, failures: 0, ..Weather::of(&mut Random::new(seed)) };
        let run = simulate(seed, STEPS, &Setting { weather, operators: 1, rolling_only: true, warm: true });
        if let Err(broken) = run.outcome {
            panic!("{broken}\nseed {seed}\n{}", run.trace.tail(250));
        }
    }
}
