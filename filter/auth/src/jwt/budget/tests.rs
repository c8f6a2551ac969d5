use std::cell::Cell;

use super::*;

const BURST: Duration = Duration::from_millis(10);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// How many checks of 100 µs there was room for, when `sources` in turn ask every 10 µs for a while.
fn checks(budget: &mut Budget<impl Clock>, now: &Cell<Duration>, lasting: Duration, sources: &[u64]) -> u32 {
    let end = now.get() + lasting;
    let mut checks = 0;
    for &source in sources.iter().cycle() {
        if now.get() >= end {
            break;
        }
        now.set(now.get() + micros(10));
        if let Some(begun) = budget.begin(source) {
            now.set(now.get() + micros(100));
            budget.end(begun, true);
            checks += 1;
        }
    }
    checks
}

#[test]
fn checks_take_their_share_and_one_burst_and_no_more() {
    let now = Cell::new(Duration::ZERO);
    let mut budget = Budget::with_clock(20, BURST, || now.get());
    let sources: Vec<u64> = (0..64).collect();
    let first = checks(&mut budget, &now, Duration::from_secs(1), &sources);
    // 200 ms and 10 ms in checks of 0.1 ms.
    assert!((2050..=2101).contains(&first), "{first}");
    let second = checks(&mut budget, &now, Duration::from_secs(1), &sources);
    assert!((1980..=2010).contains(&second), "{second}");
}

#[test]
fn what_flows_out_is_there_again() {
    let now = Cell::new(Duration::ZERO);
    let mut budget = Budget::with_clock(20, BURST, || now.get());
    let fill = |budget: &mut Budget<_>| {
        let mut checks = 0;
        for source in (0..64).cycle() {
            let Some(begun) = budget.begin(source) else { break };
            now.set(now.get() + micros(1000));
            budget.end(begun, true);
            checks += 1;
        }
        checks
    };
    assert_eq!(fill(&mut budget), 13, "10 ms, and what flowed out meanwhile");
    assert_eq!(fill(&mut budget), 0);
    // A fifth of five milliseconds.
    now.set(now.get() + micros(5000));
    assert_eq!(fill(&mut budget), 1);
    now.set(now.get() + Duration::from_secs(60));
    assert_eq!(fill(&mut budget), 13, "and not more after a long time");
}

#[test]
fn a_sandbox_whose_tokens_fail_takes_half_and_leaves_the_rest_to_others() {
    let now = Cell::new(Duration::ZERO);
    let mut budget = Budget::with_clock(20, BURST, || now.get());
    let failed = checks(&mut budget, &now, Duration::from_secs(1), &[7]);
    assert!((1000..=1051).contains(&failed), "{failed}");
    assert!(budget.begin(7).is_none());
    let other = budget.begin(8).expect("there is time for another sandbox");
    budget.end(other, false);
}

#[test]
fn a_sandbox_is_the_same_source_each_time() {
    let budget = Budget::default();
    assert_eq!(budget.source(b"sandbox-1"), budget.source(b"sandbox-1"));
    assert_ne!(budget.source(b"sandbox-1"), budget.source(b"sandbox-2"));
}

#[test]
fn tokens_that_turn_out_good_count_for_all_and_against_no_sandbox() {
    let now = Cell::new(Duration::ZERO);
    let mut budget = Budget::with_clock(20, BURST, || now.get());
    let mut checks = 0;
    while let Some(begun) = budget.begin(7) {
        now.set(now.get() + micros(100));
        budget.end(begun, false);
        checks += 1;
    }
    assert!((124..=126).contains(&checks), "{checks}: one sandbox has all of it");
    assert!(budget.begin(8).is_none(), "and then nobody has any");
}

#[test]
fn waiting_for_a_core_is_not_counted_as_work() {
    let now = Cell::new(Duration::ZERO);
    let mut budget = Budget::with_clock(20, BURST, || now.get());
    let begun = budget.begin(1).expect("it is empty");
    now.set(Duration::from_secs(3600));
    budget.end(begun, true);
    assert!(budget.begin(1).is_some());
}

#[test]
fn no_clock_and_no_share_makes_it_panic() {
    let mut times =
        [Duration::MAX, Duration::ZERO, Duration::from_secs(5), Duration::MAX].into_iter().cycle();
    for percent in [0, 1, 100, u32::MAX] {
        for burst in [Duration::ZERO, Duration::MAX] {
            let mut budget = Budget::with_clock(percent, burst, || times.next().unwrap_or_default());
            for source in [0, 63, 64, u64::MAX] {
                if let Some(begun) = budget.begin(source) {
                    budget.end(begun, true);
                }
            }
        }
    }
}
