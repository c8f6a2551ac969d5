use std::time::Duration;

use jiff::Timestamp;

use super::ledger::{Entry, Ledger, Used};
use crate::describe::Size;
use crate::{Dimension, Limit, Scope};

const GRACE: Duration = Duration::from_secs(600);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn size(cpu_millis: u64, memory_mb: u64) -> Size {
    Size { cpu_millis, memory_mb, disk_mb: 0 }
}

fn limit(dimension: Dimension, scope: Scope, limit: u64) -> Limit {
    Limit { dimension, scope, limit }
}

#[test]
fn what_fits_is_admitted_once_and_what_does_not_is_refused() {
    let entry = || Entry::new(size(500, 1024), at(0));
    for (limited, fits) in [
        (limit(Dimension::Sandboxes, Scope::All, 2), 2),
        (limit(Dimension::Cpu, Scope::All, 1499), 2),
        (limit(Dimension::Memory, Scope::All, 3072), 3),
        (limit(Dimension::Memory, Scope::Running, 1023), 0),
    ] {
        let mut ledger = Ledger::default();
        let admitted = (0..5).filter(|n| ledger.admit(&n.to_string(), entry(), &[], &[limited]).is_ok());
        assert_eq!(admitted.count(), fits, "{limited:?}");
        // A lock that was admitted stays so.
        assert_eq!(ledger.admit("0", entry(), &[], &[limited]).is_ok(), fits > 0, "{limited:?}");
    }
}

#[test]
fn what_runs_without_an_entry_counts_too() {
    let entry = || Entry::new(size(500, 1024), at(0));
    let used = |runs| [Used { size: size(500, 1024), runs }];
    let (all, running) =
        (limit(Dimension::Sandboxes, Scope::All, 1), limit(Dimension::Sandboxes, Scope::Running, 1));
    for (limited, runs, fits) in
        [(all, true, false), (all, false, false), (running, true, false), (running, false, true)]
    {
        let admitted = Ledger::default().admit("a", entry(), &used(runs), &[limited]);
        assert_eq!(admitted.is_ok(), fits, "{limited:?} {runs}");
    }
}

#[test]
fn a_pause_frees_what_runs_and_a_resume_takes_it_again() {
    let entry = || Entry::new(size(500, 1024), at(0));
    let limits = [limit(Dimension::Sandboxes, Scope::Running, 1), limit(Dimension::Sandboxes, Scope::All, 2)];
    let mut ledger = Ledger::default();
    ledger.admit("a", entry(), &[], &limits).unwrap();
    assert!(ledger.admit("b", entry(), &[], &limits).is_err());
    assert!(ledger.pause("a", at(1)) && !ledger.pause("a", at(2)));
    ledger.admit("b", entry(), &[], &limits).unwrap();
    let refused = ledger.resume("a", entry(), &[], &limits).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the quota of this key is used up: sandbox.count of running sandboxes would be 2 of 1"
    );
    assert!(ledger.release("b") && !ledger.release("b"));
    assert_eq!(ledger.resume("a", entry(), &[], &limits), Ok(true));
    assert!(ledger.admit("b", entry(), &[], &limits).is_err());
}

#[test]
fn the_cache_is_believed_once_an_entry_has_settled() {
    let mut ledger = Ledger::default();
    ledger.admit("a", Entry::new(size(1, 1), at(1000)), &[], &[]).unwrap();
    let follow = |ledger: &mut Ledger, is: Option<bool>, now: i64| {
        ledger.follow(|_| is, GRACE, at(now));
        ledger.to_text()
    };
    let (runs, paused) = (r#"{"a":{"c":1,"m":1,"t":1000}}"#, r#"{"a":{"c":1,"m":1,"p":true,"t":1000}}"#);
    assert_eq!(follow(&mut ledger, Some(true), 1060), runs);
    assert_eq!(follow(&mut ledger, Some(true), 1061), paused);
    assert_eq!(follow(&mut ledger, Some(false), 1062), runs);
    assert_eq!(follow(&mut ledger, None, 1600), runs);
    assert_eq!(follow(&mut ledger, None, 1601), "{}");
    assert_eq!(Ledger::read(paused).unwrap().to_text(), paused);
    assert!(Ledger::read("[]").is_err());
}
