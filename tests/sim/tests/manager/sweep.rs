//! Every step is a place to die: the manager that does a request dies after its first step, after its second,
//! and so on, or its user goes away then, or it is slow. Each time the user asks another manager, and what
//! was asked for is done once.

mod creates;
mod lives;
mod stage;

use std::collections::BTreeSet;

use crate::laws::Broken;
use crate::run;
use stage::{Cut, Stage};

/// Each of them is one run, which is cut off at each of its steps.
const SEEDS: [u64; 2] = [1, 2];

/// More steps than any request has.
const MOST: u64 = 500;

/// Does `live` with one request of one manager cut off after none of its steps, after one, and so on until it
/// has as many. `live` says whether it was cut off. Returns how often a sandbox was left for the managers to
/// sweep.
fn sweep(
    pool: usize,
    cuts: &[Cut],
    live: &impl AsyncFn(&mut Stage, u64, Cut) -> Result<bool, Broken>,
) -> usize {
    let mut strays = 0;
    for seed in SEEDS {
        for cut in cuts.iter().copied() {
            let mut cut_off = BTreeSet::new();
            for steps in 0.. {
                let (stage, outcome) = run::runtime().block_on(async {
                    let mut stage = Stage::new(seed, pool);
                    let outcome = live(&mut stage, steps, cut).await;
                    (stage, outcome)
                });
                let is_cut = outcome.unwrap_or_else(|broken| {
                    let trace = stage.world.trace.tail(300);
                    panic!("{broken}\nseed {seed}, cut off after {steps} steps, {cut:?}\n{trace}")
                });
                strays += stage.strays;
                cut_off.extend(stage.cut_off);
                if !is_cut {
                    // Each of the manager's own requests was under way at some cut, the last one too.
                    assert!(!stage.sent.is_empty(), "the request asks the API server for nothing");
                    let missed: Vec<_> = stage.sent.difference(&cut_off).collect();
                    assert!(missed.is_empty(), "seed {seed}, {cut:?}: never cut off at {missed:?}");
                    break;
                }
                assert!(steps < MOST, "the request does not end");
            }
        }
    }
    strays
}
