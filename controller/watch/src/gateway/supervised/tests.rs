use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A thread whose n-th life (from 0) is `life(n)`, and where it says that it has ended.
fn supervised(life: impl Fn(usize, Stop) -> Work + Send + Sync + 'static) -> (Supervised, Receiver<()>) {
    let lives = AtomicUsize::new(0);
    let (ended, ends) = channel();
    let thread = Supervised::new(
        "under-test",
        move || ended.send(()).unwrap_or(()),
        move |stop| life(lives.fetch_add(1, Ordering::Relaxed), stop),
    );
    (thread, ends)
}

fn until_stopped(stop: Stop) -> Work {
    Box::pin(stop.requested())
}

/// Waits until the thread has ended: what it says of its end comes a little before it.
fn has_ended(thread: &Supervised, ends: &Receiver<()>) {
    ends.recv_timeout(10 * SECOND).expect("the thread ends");
    while matches!(&thread.state.lock().phase, Phase::Running { thread, .. } if !thread.is_finished()) {
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_panics_is_down_and_restarted_after_a_delay() {
    let (thread, ends) = supervised(|life, stop| {
        if life == 0 { Box::pin(async { panic!("the first life ends so") }) } else { until_stopped(stop) }
    });
    assert!(!thread.status().up, "not started yet");
    thread.start().expect("a thread");
    has_ended(&thread, &ends);
    assert!(!thread.status().up, "also before the first check");
    let now = Instant::now();
    assert!(!thread.check(now));
    assert!(!thread.check(now + FIRST_DELAY / 2), "not before its time");
    assert_eq!(thread.status().restarts, 0);
    assert!(thread.check(now + FIRST_DELAY));
    assert_eq!((thread.status().up, thread.status().restarts), (true, 1));
    thread.stop();
    assert!(!thread.status().up);
}

#[test]
fn a_thread_whose_work_ends_unasked_is_restarted_too() {
    let (thread, ends) =
        supervised(|life, stop| if life == 0 { Box::pin(async {}) } else { until_stopped(stop) });
    thread.start().expect("a thread");
    has_ended(&thread, &ends);
    let now = Instant::now();
    assert!(!thread.check(now));
    assert!(thread.check(now + FIRST_DELAY));
    thread.stop();
}

#[test]
fn the_delay_doubles_up_to_half_a_minute_and_a_long_life_resets_it() {
    let (thread, ends) = supervised(|_, _| Box::pin(async {}));
    thread.start().expect("a thread");
    let mut now = Instant::now();
    for expected in [1, 2, 4, 8, 16, 30, 30] {
        has_ended(&thread, &ends);
        assert!(!thread.check(now));
        let wait = Duration::from_secs(expected);
        thread.check(now + wait - Duration::from_millis(1));
        assert!(matches!(thread.state.lock().phase, Phase::Down { .. }), "still down after nearly {wait:?}");
        now += wait;
        thread.check(now);
        assert!(matches!(thread.state.lock().phase, Phase::Running { .. }), "started after {wait:?}");
    }
    has_ended(&thread, &ends);
    now += STABLE;
    thread.check(now);
    thread.check(now + FIRST_DELAY);
    assert!(matches!(thread.state.lock().phase, Phase::Running { .. }), "the first delay again");
    thread.stop();
}

#[test]
fn a_thread_that_is_blocked_is_down_until_its_heartbeat_goes_on() {
    let (block, blocked) = channel::<()>();
    let blocked = Arc::new(Mutex::new(blocked));
    let (here, entered) = channel::<()>();
    let (thread, _ends) = supervised(move |_, stop| {
        let (blocked, here) = (Arc::clone(&blocked), here.clone());
        Box::pin(async move {
            here.send(()).expect("the test waits");
            // Blocks the whole runtime, as nothing should.
            let _ = blocked.lock().recv();
            stop.requested().await;
        })
    });
    thread.start().expect("a thread");
    entered.recv().expect("it is blocked, so that no beat comes any more");
    let now = Instant::now();
    let checks: Vec<bool> = (0..=MAX_MISSED).map(|_| thread.check(now)).collect();
    let (last, before) = checks.split_last().expect("checks");
    assert!(before.iter().all(|up| *up) && !*last, "{checks:?}");
    drop(block);
    while !thread.check(now) {
        thread::yield_now();
    }
    assert_eq!(thread.status().restarts, 0, "it was never dead");
    thread.stop();
}

#[test]
fn a_process_that_was_suspended_reports_no_blocked_thread() {
    let (thread, _ends) = supervised(|_, stop| until_stopped(stop));
    thread.start().expect("a thread");
    let now = Instant::now();
    assert!(thread.check(now));
    assert!(thread.check(now + Duration::from_secs(86_400)), "one check without a heartbeat is not many");
    thread.stop();
}

#[test]
fn a_thread_that_was_stopped_is_not_restarted() {
    let (thread, _ends) = supervised(|_, stop| until_stopped(stop));
    thread.start().expect("a thread");
    thread.stop();
    assert!(!thread.check(Instant::now() + STABLE));
    thread.start().expect("nothing to do");
    assert!(!thread.status().up);
}
