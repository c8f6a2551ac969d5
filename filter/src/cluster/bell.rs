//! How the main thread is called, and how it is left in peace.
//!
//! Whoever has work for it leaves the work where it is looked for, then rings. A call that has not been answered yet is
//! enough for everybody who rings meanwhile. While the main thread *rests* ringing does not call it: before it rests it
//! sets its own alarm, which calls it with [`Bell::ring_now`], and then it looks for everything.
//!
//! # Orderings
//! Ringing and answering are read-modify-writes of one value. One that rings before the answer is read by it, so what was
//! left before it rang is seen; one that rings after it finds the bell free, and calls.

use std::sync::atomic::{AtomicU8, Ordering};

const RUNG: u8 = 1;
const CALLED: u8 = 2;
const RESTING: u8 = 4;

#[derive(Debug, Default)]
pub(crate) struct Bell(AtomicU8);

impl Bell {
    /// There is work. Whether the main thread has to be called for it.
    #[must_use]
    pub(crate) fn ring(&self) -> bool {
        self.0.fetch_or(RUNG, Ordering::AcqRel) & RESTING == 0 && self.ring_now()
    }

    /// There is work that does not wait for the end of a rest. Whether the main thread has to be called for it.
    #[must_use]
    pub(crate) fn ring_now(&self) -> bool {
        self.0.fetch_or(CALLED, Ordering::AcqRel) & CALLED == 0
    }

    /// The main thread looks for work: whoever rings from here on rings anew.
    pub(crate) fn answer(&self) {
        self.0.swap(0, Ordering::AcqRel);
    }

    /// The main thread rests until its alarm.
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
