use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Limits, ObjectKey, RouteTable, Scope, Version};

const STEP: Duration = Duration::from_millis(2);
const STEPS: usize = 5_000;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("p", "n", name).unwrap()
}

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

fn spin(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        spin_loop();
    }
}

#[test]
#[cfg_attr(miri, ignore = "a matter of scheduling: Miri's clock and its scheduler are not the machine's")]
fn a_write_that_waits_gets_the_lock_between_two_steps() {
    let (writer, _) = RouteTable::new(Limits::default());
    let (is_working, is_applied) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut steps = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_working.load(Ordering::Acquire) {
                thread::yield_now();
            }
            writer.delete(&key("a"), Some(version(1)));
            is_applied.store(true, Ordering::Release);
        });
        writer.in_steps(|_, _, from| {
            is_working.store(true, Ordering::Release);
            spin(STEP);
            steps = from + 1;
            (steps < STEPS && !is_applied.load(Ordering::Acquire)).then_some(steps)
        });
    });
    assert!(steps < STEPS, "the write waited for all {STEPS} steps");
}

#[test]
fn a_commit_frees_the_lock_between_its_steps() {
    let (writer, reader) = RouteTable::new(Limits::default());
    let objects = if cfg!(miri) { 300 } else { 1_000 };
    for number in 0..objects {
        writer.apply(crate::table::tests::observed(number, number, 1));
    }
    let mut changes = writer.subscribe(10);
    let left = Arc::new(AtomicUsize::new(0));
    let (inner, counted) = (writer.clone(), Arc::clone(&left));
    // Called after the first step that deletes something, on the thread that commits.
    changes.set_waker(move || {
        inner.delete(&key("pushed"), Some(version(9)));
        counted.store(usize::try_from(inner.reader().counts().objects).unwrap(), Ordering::Relaxed);
    });
    let summary = writer.begin_relist(Scope::new("p", None, ""), version(5)).commit();
    assert_eq!((summary.deleted, reader.counts().objects), (objects, 0));
    let left = left.load(Ordering::Relaxed);
    assert!(left > 0 && (left as u64) < objects, "a write within the commit found {left} objects");
    assert_eq!(reader.counts().tombstones, objects + 1);
}
