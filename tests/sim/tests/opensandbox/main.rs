//! The controllers of OpenSandbox's kinds in the simulation.
//!
//! A seed makes a cluster with three pools, one for each way to recycle a pod, users who make, scale, move,
//! pause and delete batches, take pods away and change pools, one to three operators, and a weather in which
//! answers get lost, watches lag and operators die. After every step the laws of [`laws`] must hold: no pod
//! has two batches, no batch loses a pod, no task runs twice. Then nothing goes wrong any more, and [`goals`]
//! must be reached.
//!
//! A run that fails prints its seed. `SANDGATE_SEED=…` runs that seed alone and prints the whole trace;
//! `SANDGATE_SIM_SEEDS=…` and `SANDGATE_SIM_STEPS=…` say how many seeds and how many steps each.
#![forbid(unsafe_code)]

mod executors;
mod goals;
mod held;
mod laws;
mod process;
mod run;
#[path = "../shared/mod.rs"]
mod shared;
mod surroundings;
mod sweep;
mod users;

use sandgate_sim::Weather;

use run::{Setting, simulate};
use shared::number;

/// Steps of each run before nothing goes wrong any more.
const STEPS: u64 = 3000;
/// How many runs there are: 2.4 × 10⁵ steps.
const SEEDS: u64 = 80;

/// The runs of every second seed, and what has happened in them.
fn whatever_happens(half: u64) {
    let steps = number("SANDGATE_SIM_STEPS").unwrap_or(STEPS);
    if let Some(seed) = number("SANDGATE_SEED") {
        if seed % 2 == half {
            let run = simulate(seed, steps, &Setting::of(seed));
            println!("{}", run.trace.tail(usize::MAX));
            run.outcome.unwrap_or_else(|broken| panic!("{broken}"));
        }
        return;
    }
    let mut missing = HAPPENS.to_vec();
    for seed in (half..number("SANDGATE_SIM_SEEDS").unwrap_or(SEEDS)).step_by(2) {
        let run = simulate(seed, steps, &Setting::of(seed));
        if let Err(broken) = run.outcome {
            panic!("{broken}\nSANDGATE_SEED={seed} SANDGATE_SIM_STEPS={steps}\n{}", run.trace.tail(250));
        }
        let happened = |what: &str| run.trace.lines().iter().any(|line| line.contains(what));
        missing.retain(|what| !run.noted.contains(what) && !happened(what));
    }
    assert!(missing.is_empty(), "never happened: {missing:?}");
}

/// What must happen in some run: a law about something that never happens says nothing.
const HAPPENS: &[&str] = &[
    "user: makes",
    "user: scales batchsandboxes",
    "user: deletes batchsandboxes",
    "user: moves batchsandboxes",
    "user: detaches batchsandboxes",
    "user: pauses batchsandboxes",
    "user: resumes batchsandboxes",
    "user: ends later",
    "user: evicts pods",
    "user: deletes pods",
    "user: rolls pools",
    "user: resizes pools",
    "user: deletes pools",
    "user: scribbles on",
    "user: mends",
    "user: holds",
    "user: lets go",
    "node: End",
    "node: Restart",
    "ends with 0",
    "ends with 1",
    "is stopped",
    "without an answer is done",
    "tasks-done",
    "a pod is released because its task has ended",
    "a batch is deleted at its end",
    "a batch of any pool is given one",
    "sandbox.opensandbox.io/task-cleanup",
    "job: jobs",
    "succeeds",
    "fails",
    "garbage collector: collect pods",
    "garbage collector: collect sandboxsnapshots",
    "create pods default/fresh",
    "create pods default/batch",
    "create sandboxsnapshots",
    "create jobs",
    "delete pods",
    "alloc-status",
    "alloc-released",
    "allocated-to\":\"",
    "allocated-to\":null",
    "restart-record",
    "\"phase\":\"Paused\"",
    "\"phase\":\"Resuming\"",
    "ends: Conflict",
    "ends: NotLeading",
    "not within 10 s",
    "the history up to",
    "dies",
];

#[test]
fn whatever_happens_no_pod_is_held_twice_and_none_is_lost() {
    whatever_happens(0);
}

#[test]
fn whatever_else_happens_no_pod_is_held_twice_and_none_is_lost() {
    whatever_happens(1);
}

#[test]
fn one_seed_is_one_trace() {
    for seed in 0..6 {
        let (one, two) = (simulate(seed, 200, &Setting::of(seed)), simulate(seed, 200, &Setting::of(seed)));
        let differ = one.trace.lines().iter().zip(two.trace.lines()).position(|(one, two)| one != two);
        assert!(one.trace == two.trace, "seed {seed} differs from line {differ:?}");
    }
}

/// Several operators believe that they lead, at the same time: the pods' marks and the versions keep them
/// from harm, not the lease.
#[test]
fn leaders_overlap_and_no_pod_is_held_twice() {
    for seed in 0..40 {
        let weather = Weather { lead: 40, crash: 6, watch: 50, clock: 4, ..Weather::CALM };
        let run = simulate(seed, 400, &Setting { weather, operators: 3, warm: true, busy: 120 });
        if let Err(broken) = run.outcome {
            panic!("{broken}\nseed {seed}\n{}", run.trace.tail(250));
        }
    }
}
