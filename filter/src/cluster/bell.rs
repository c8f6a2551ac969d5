//! Wakes the main thread, at most once for any number of notifications.
//!
//! A thread with work for the main thread does two steps:
//! 1. It puts the work where the main thread looks for it (a queue, or the table's feed).
//! 2. It rings. [`Bell::ring`] returns true only to the first that rings since the last answer; that one
//!    schedules a run.
//!
//! The main thread does three steps in each run:
//! 1. It calls [`Bell::answer`], which clears the bell.
//! 2. It takes the work.
//! 3. It may set a timer and call [`Bell::rest`]. While it rests, `ring` schedules nothing; the timer ends
//!    the rest with [`Bell::ring_now`].
//!
//! # Why no update is lost
//! Ringing and answering are read-modify-writes of one atomic, so they have one order. A ring before an
//! answer happens before it, so the run that answers sees the work. A ring after the answer finds the bell
//! cleared and schedules another run. A ring during a rest schedules none, but the timer was set before the
//! rest began, and its run takes the work.

use std::sync::atomic::{AtomicU8, Ordering};

const RUNG: u8 = 1;
const CALLED: u8 = 2;
const RESTING: u8 = 4;

#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicU8);

impl Bell {
    /// There is work. Returns whether the caller has to schedule a run.
    #[must_use]
    pub(crate) fn ring(&self) -> bool {
        self.0.fetch_or(RUNG, Ordering::AcqRel) & RESTING == 0 && self.ring_now()
    }

    /// There is work that does not wait for the end of a rest. Returns whether the caller has to schedule a
    /// run.
    #[must_use]
    pub(crate) fn ring_now(&self) -> bool {
        self.0.fetch_or(CALLED, Ordering::AcqRel) & CALLED == 0
    }

    /// The main thread begins a run: a ring from here on schedules another.
    pub(crate) fn answer(&self) {
        self.0.swap(0, Ordering::AcqRel);
    }

    /// The main thread rests until its timer.
    pub(crate) fn rest(&self) {
        self.0.fetch_or(RESTING, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::Bell;

    #[test]
    fn one_call_is_enough_until_it_is_answered() {
        let bell = Bell::default();
        assert!(bell.ring());
        assert!(!bell.ring() && !bell.ring_now());
        bell.answer();
        assert!(bell.ring());
    }

    #[test]
    fn who_rests_is_called_by_the_alarm_alone() {
        let bell = Bell::default();
        bell.answer();
        bell.rest();
        assert!(!bell.ring());
        assert!(bell.ring_now(), "the alarm calls, also when somebody rang in vain");
        assert!(!bell.ring_now());
        bell.answer();
        assert!(bell.ring(), "the rest is over");
    }

    #[test]
    fn nothing_that_was_left_before_ringing_is_overlooked() {
        const EACH: u64 = 20_000;
        let bell = Bell::default();
        let left = AtomicU64::new(0);
        let (call, calls) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..2 {
                let call = call.clone();
                let (bell, left) = (&bell, &left);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        left.fetch_add(1, Ordering::Relaxed);
                        if bell.ring() {
                            call.send(()).expect("somebody answers");
                        }
                    }
                });
            }
            // Ends only if the last ring of each is heard.
            let mut seen = 0;
            while seen < 2 * EACH {
                calls.recv().expect("a call");
                bell.answer();
                seen = left.load(Ordering::Relaxed);
            }
        });
    }
}
