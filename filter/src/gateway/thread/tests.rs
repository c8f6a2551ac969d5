use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A thread whose n-th life (from 0) is `life(n)`, and where it says that it has ended.
fn watched(life: impl Fn(usize, Stop) -> Work + Send + Sync + 'static) -> (Watched, Receiver<()>) {
    let lives = AtomicUsize::new(0);
    let (ended, ends) = channel();
    let thread = Watched::new(
        "under-test",
        move || ended.send(()).unwrap_or(()),
        move |stop| life(lives.fetch_add(1, Ordering::Relaxed), stop),
    );
    (thread, ends)
}

fn until_stopped(stop: Stop) -> Work {
    Box::pin(stop.asked())
}

/// Waits until the thread has ended: what it says of its end comes a little before it.
fn has_ended(thread: &Watched, ends: &Receiver<()>) {
    ends.recv_timeout(10 * SECOND).expect("the thread ends");
    while matches!(&thread.lock().phase, Phase::Running { thread, .. } if !thread.is_finished()) {
        thread::yield_now();
    }
}

#[test]
fn a_thread_that_panics_is_down_and_lives_again_after_a_wait() {
    let (thread, ends) = watched(|life, stop| {
        if life == 0 { Box::pin(async { panic!("the first life ends so") }) } else { until_stopped(stop) }
    });
    assert!(!thread.status().up, "not started yet");
    thread.start().expect("a thread");
    has_ended(&thread, &ends);
    assert!(!thread.status().up, "also before anybody has looked");
    let now = Instant::now();
    assert!(!thread.look(now));
    assert!(!thread.look(now + FIRST_WAIT / 2), "not before its time");
    assert_eq!(thread.status().restarts, 0);
    assert!(thread.look(now + FIRST_WAIT));
    assert_eq!((thread.status().up, thread.status().restarts), (true, 1));
    thread.stop();
    assert!(!thread.status().up);
}

#[test]
fn a_thread_whose_work_ends_unasked_is_started_again_too() {
    let (thread, ends) =
        watched(|life, stop| if life == 0 { Box::pin(async {}) } else { until_stopped(stop) });
    thread.start().expect("a thread");
    has_ended(&thread, &ends);
    let now = Instant::now();
    assert!(!thread.look(now));
    assert!(thread.look(now + FIRST_WAIT));
    thread.stop();
}

#[test]
fn the_wait_doubles_up_to_half_a_minute_and_a_long_life_is_forgiven() {
    let (thread, ends) = watched(|_, _| Box::pin(async {}));
    thread.start().expect("a thread");
    let mut now = Instant::now();
    for expected in [1, 2, 4, 8, 16, 30, 30] {
        has_ended(&thread, &ends);
        assert!(!thread.look(now));
        let wait = Duration::from_secs(expected);
        thread.look(now + wait - Duration::from_millis(1));
        assert!(matches!(thread.lock().phase, Phase::Down { .. }), "still down after nearly {wait:?}");
        now += wait;
        thread.look(now);
        assert!(matches!(thread.lock().phase, Phase::Running { .. }), "started after {wait:?}");
    }
    has_ended(&thread, &ends);
    now += FORGIVEN;
    thread.look(now);
    thread.look(now + FIRST_WAIT);
    assert!(matches!(thread.lock().phase, Phase::Running { .. }), "the first wait again");
    thread.stop();
}

#[test]
fn a_thread_that_is_blocked_is_down_until_its_pulse_goes_on() {
    let (block, blocked) = channel::<()>();
    let blocked = Mutex::new(blocked);
    let blocked = Arc::new(blocked);
    let (here, entered) = channel::<()>();
    let (thread, _ends) = watched(move |_, stop| {
        let (blocked, here) = (Arc::clone(&blocked), here.clone());
        Box::pin(async move {
            here.send(()).expect("the test waits");
            // Blocks the whole runtime, as nothing should.
            let _unblocked = blocked.lock().expect("one thread").recv();
            stop.asked().await;
        })
    });
    thread.start().expect("a thread");
    entered.recv().expect("it is blocked, so that no beat comes any more");
    let now = Instant::now();
    let looks: Vec<bool> = (0..=MISSES).map(|_| thread.look(now)).collect();
    let (last, before) = looks.split_last().expect("looks");
    assert!(before.iter().all(|up| *up) && !*last, "{looks:?}");
    drop(block);
    while !thread.look(now) {
        thread::yield_now();
    }
    assert_eq!(thread.status().restarts, 0, "it was never dead");
    thread.stop();
}

#[test]
fn a_process_that_slept_as_a_whole_is_not_taken_for_a_blocked_thread() {
    let (thread, _ends) = watched(|_, stop| until_stopped(stop));
    thread.start().expect("a thread");
    let now = Instant::now();
    assert!(thread.look(now));
    assert!(thread.look(now + Duration::from_secs(86_400)), "one look without a pulse is not many");
    thread.stop();
}

#[test]
fn a_thread_that_was_stopped_is_not_started_again() {
    let (thread, _ends) = watched(|_, stop| until_stopped(stop));
    thread.start().expect("a thread");
    thread.stop();
    assert!(!thread.look(Instant::now() + FORGIVEN));
    thread.start().expect("nothing to do");
    assert!(!thread.status().up);
}
