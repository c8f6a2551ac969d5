//! Managers in the simulation.
//!
//! A seed makes a cluster with pools of sandboxes, one to three managers, users who create, connect, pause,
//! resume, kill and list, and a weather in which answers get lost, watches lag and managers die. After every
//! step the laws of [`laws`] must hold, and what a user is told must be true ([`users`]). Then nothing goes
//! wrong any more, and [`goals`] must be reached.
//!
//! A run that fails prints its seed. `SANDGATE_SEED=…` runs that seed alone and prints the whole trace;
//! `SANDGATE_SIM_SEEDS=…` and `SANDGATE_SIM_STEPS=…` say how many seeds and how many steps each.
#![forbid(unsafe_code)]

mod goals;
mod laws;
mod process;
mod run;
mod surroundings;
mod sweep;
mod users;

use run::{Setting, number, simulate};

/// Steps of each run before nothing goes wrong any more.
const STEPS: u64 = 500;

#[test]
fn whatever_happens_the_laws_hold_and_users_are_told_the_truth() {
    let steps = number("SANDGATE_SIM_STEPS").unwrap_or(STEPS);
    if let Some(seed) = number("SANDGATE_SEED") {
        let run = simulate(seed, steps, &Setting::of(seed));
        println!("{}", run.trace.tail(usize::MAX));
        run.outcome.unwrap_or_else(|broken| panic!("{broken}"));
        return;
    }
    let mut missing = HAPPENS.to_vec();
    let from = number("SANDGATE_SIM_FROM").unwrap_or(0);
    for seed in from..from + number("SANDGATE_SIM_SEEDS").unwrap_or(80) {
        let run = simulate(seed, steps, &Setting::of(seed));
        if let Err(broken) = run.outcome {
            panic!("{broken}\nSANDGATE_SEED={seed} SANDGATE_SIM_STEPS={steps}\n{}", run.trace.tail(250));
        }
        missing.retain(|what| !run.trace.lines().iter().any(|line| line.contains(what)));
    }
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

/// What must happen in some run: a law about something that never happens says nothing.
const HAPPENS: [&str; 21] = [
    "creates",
    "creates again",
    "is told of a new sandbox",
    "never hears",
    "gives up",
    "dies",
    "connects to",
    "pauses",
    "resumes",
    "kills",
    "lists",
    "QuotaExceeded",
    "create configmaps sandgate-system/sandgate-create-",
    "create configmaps sandgate-system/sandgate-quota-",
    "operator: Expire",
    "operator: PauseByItself",
    "-> 409",
    "loses the answer",
    "is refused",
    "loses its watch",
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
