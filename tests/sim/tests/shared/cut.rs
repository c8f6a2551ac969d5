//! Cuts a run of a reconciler off at a poll of choice.

use std::cell::Cell;

/// How a run is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The process dies.
    Dead,
    /// The run alone is dropped, and the process remembers what it remembers.
    Dropped,
    /// Nothing is cut off: what is done next to the cluster is done at that moment.
    #[allow(dead_code, reason = "not every simulation does so")]
    Next,
}

#[derive(Clone, Copy)]
enum State {
    Never,
    /// At the poll after so many.
    After(u64, Cut),
    Done,
}

// A run of the simulation is on one thread.
thread_local! {
    static STATE: Cell<State> = const { Cell::new(State::Never) };
}

/// Cuts off the run that is polled after `polls` polls of any run from now.
pub(crate) fn after(polls: u64, cut: Cut) {
    STATE.set(State::After(polls, cut));
}

/// Whether a run was cut off since [`after`].
pub(crate) fn is_done() -> bool {
    matches!(STATE.get(), State::Done)
}

/// Asked before each poll.
pub(crate) fn at_this_poll() -> Option<Cut> {
    let State::After(polls, cut) = STATE.get() else { return None };
    if polls == 0 {
        STATE.set(State::Done);
        return Some(cut).filter(|cut| *cut != Cut::Next);
    }
    STATE.set(State::After(polls - 1, cut));
    None
}
