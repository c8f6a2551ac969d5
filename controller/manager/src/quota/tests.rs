use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::ledger::{Entry, Ledger, Used};
use super::scope_of;
use crate::describe::Size;
use crate::{Dimension, Limit, Scope, Settings};

const GRACE: Duration = Duration::from_secs(600);
/// How long an entry is young.
const YOUNG: Duration = Duration::from_secs(150);

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
    let entry = || Entry::new(size(500, 1024), "", at(0));
    for (limited, fits) in [
        (limit(Dimension::Sandboxes, Scope::All, 2), 2),
        (limit(Dimension::Cpu, Scope::All, 1499), 2),
        (limit(Dimension::Memory, Scope::All, 3072), 3),
        (limit(Dimension::Memory, Scope::Running, 1023), 0),
    ] {
        let mut ledger = Ledger::default();
        let admitted =
            (0..5).filter(|n| ledger.admit(&n.to_string(), entry(), &[], &[limited], YOUNG).is_ok());
        assert_eq!(admitted.count(), fits, "{limited:?}");
        // A lock that was admitted stays so.
        assert_eq!(ledger.admit("0", entry(), &[], &[limited], YOUNG).is_ok(), fits > 0, "{limited:?}");
    }
}

#[test]
fn what_runs_without_an_entry_counts_too() {
    let entry = || Entry::new(size(500, 1024), "", at(0));
    let used = |runs| [Used { size: size(500, 1024), runs }];
    let (all, running) =
        (limit(Dimension::Sandboxes, Scope::All, 1), limit(Dimension::Sandboxes, Scope::Running, 1));
    for (limited, runs, fits) in
        [(all, true, false), (all, false, false), (running, true, false), (running, false, true)]
    {
        let admitted = Ledger::default().admit("a", entry(), &used(runs), &[limited], YOUNG);
        assert_eq!(admitted.is_ok(), fits, "{limited:?} {runs}");
    }
}

#[test]
fn a_pause_frees_what_runs_and_a_resume_takes_it_again() {
    let entry = || Entry::new(size(500, 1024), "", at(0));
    let limits = [limit(Dimension::Sandboxes, Scope::Running, 1), limit(Dimension::Sandboxes, Scope::All, 2)];
    let mut ledger = Ledger::default();
    ledger.admit("a", entry(), &[], &limits, YOUNG).unwrap();
    assert!(ledger.admit("b", entry(), &[], &limits, YOUNG).is_err());
    assert!(ledger.pause("a", 5, at(1)) && !ledger.pause("a", 5, at(2)));
    ledger.admit("b", entry(), &[], &limits, YOUNG).unwrap();
    let refused = ledger.resume("a", entry(), &[], &limits).unwrap_err().to_string();
    assert_eq!(
        refused,
        "the quota of this key is used up: sandbox.count of running sandboxes would be 2 of 1"
    );
    assert!(ledger.release("b") && !ledger.release("b"));
    assert_eq!(ledger.resume("a", entry(), &[], &limits), Ok(true));
    assert!(ledger.admit("b", entry(), &[], &limits, YOUNG).is_err());
}

#[test]
fn the_cache_is_believed_once_an_entry_has_settled() {
    let mut ledger = Ledger::default();
    ledger.admit("a", Entry::new(size(1, 1), "", at(1000)), &[], &[], YOUNG).unwrap();
    let follow = |ledger: &mut Ledger, is: Option<bool>, now: i64| {
        ledger.follow(|_| is, "", GRACE, at(now));
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

/// The note of a pause comes late: after another replica has seen the pause too, and has resumed the sandbox.
#[test]
fn a_pause_that_is_noted_late_does_not_hide_the_resume_after_it() {
    let limits = [limit(Dimension::Sandboxes, Scope::Running, 1)];
    let entry = || Entry::new(size(500, 1024), "", at(0));
    // What the pause was seen at, and whether it is the one that the resume at version 10 has ended.
    for (paused_at, is_late) in [(5, true), (10, true), (11, false)] {
        let mut ledger = Ledger::default();
        ledger.admit("a", entry(), &[], &limits, YOUNG).unwrap();
        ledger.resume("a", entry().resumed(10), &[], &limits).unwrap();
        assert_eq!(ledger.pause("a", paused_at, at(1)), !is_late, "{paused_at}");
        assert_eq!(ledger.admit("b", entry(), &[], &limits, YOUNG).is_err(), is_late, "{paused_at}");
        // The order of the resumes does not matter either.
        ledger.resume("a", entry().resumed(12), &[], &[]).unwrap();
        ledger.resume("a", entry().resumed(7), &[], &[]).unwrap();
        assert!(!ledger.pause("a", 12, at(2)));
        assert_eq!(Ledger::read(&ledger.to_text()).unwrap(), ledger);
    }
}

#[test]
fn a_lock_that_is_admitted_again_is_young_again_and_written_only_if_it_was_old() {
    let mut ledger = Ledger::default();
    let limits = [limit(Dimension::Sandboxes, Scope::All, 1)];
    let mut admit = |lock: &str, second: i64| {
        let entry = Entry::new(size(500, 1024), "", at(second));
        (ledger.admit(lock, entry, &[], &limits, YOUNG).ok(), ledger.to_text())
    };
    let of = |second: i64| format!(r#"{{"a":{{"c":500,"m":1024,"t":{second}}}}}"#);
    assert_eq!(admit("a", 1000), (Some(true), of(1000)));
    assert_eq!(admit("a", 1150), (Some(false), of(1000)));
    assert_eq!(admit("b", 1150), (None, of(1000)));
    assert_eq!(admit("a", 1151), (Some(true), of(1151)));
    // A clock that lags behind takes nothing back.
    assert_eq!(admit("a", 900), (Some(false), of(1151)));
    ledger.follow(|_| None, "", GRACE, at(1751));
    assert!(ledger.has("a"));
    ledger.follow(|_| None, "", GRACE, at(1752));
    assert!(!ledger.has("a"));
}

#[test]
fn an_entry_is_dropped_only_by_managers_that_could_see_its_sandbox() {
    let mut ledger = Ledger::default();
    for (lock, scope) in [("a", "one"), ("b", "two")] {
        ledger.admit(lock, Entry::new(size(1, 1), scope, at(0)), &[], &[], YOUNG).unwrap();
    }
    ledger.follow(|_| None, "one", GRACE, at(601));
    assert!(!ledger.has("a") && ledger.has("b"));
    // Who sees a sandbox looks after its entry from then on.
    ledger.follow(|_| Some(false), "one", GRACE, at(601));
    ledger.follow(|_| None, "two", GRACE, at(601));
    assert!(ledger.has("b"));
    ledger.follow(|_| None, "one", GRACE, at(601));
    assert!(!ledger.has("b"));
}

#[test]
fn managers_that_look_after_the_same_have_one_scope() {
    let of = |namespace: Option<&str>, selector: &str| {
        let namespace = namespace.map(str::to_owned);
        scope_of(&Settings { namespace, selector: selector.to_owned(), ..Settings::default() })
    };
    assert_eq!(of(None, ""), "");
    let scopes = [of(None, ""), of(Some("a"), ""), of(Some("b"), ""), of(None, "a"), of(Some("a"), "a")];
    let different: BTreeSet<_> = scopes.iter().collect();
    assert_eq!(different.len(), scopes.len(), "{scopes:?}");
    assert_eq!(of(Some("a"), "b=c"), of(Some("a"), "b=c"));
}
