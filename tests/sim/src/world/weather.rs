//! How often things go wrong in a run.

use crate::Random;

/// The weights of what may happen next. A seed chooses them, so that one run has many crashes and another
/// none, one fast watches and slow answers and another the reverse.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The server gets a request.
    pub commit: u64,
    /// A caller gets an answer.
    pub deliver: u64,
    /// A connection breaks, before or after the commit.
    pub lose: u64,
    /// A request is refused, though nothing is wrong with it.
    pub refuse: u64,
    /// A watch shows an event.
    pub watch: u64,
    /// A watch breaks, and begins with a list.
    pub relist: u64,
    /// The server forgets its history, so that watches that lag are told 410.
    pub compact: u64,
    /// A process begins a piece of work.
    pub work: u64,
    /// A process dies and is started anew.
    pub crash: u64,
    /// A process begins or ceases to lead.
    pub lead: u64,
    /// Time passes.
    pub clock: u64,
    /// A node does something with a pod.
    pub kubelet: u64,
    /// Of the steps of nodes, how many of a thousand are failures.
    pub failures: u64,
    /// The garbage collector deletes an object whose owner is gone.
    pub garbage: u64,
}

impl Weather {
    /// Nothing goes wrong.
    pub const CALM: Self = Self {
        commit: 100,
        deliver: 100,
        lose: 0,
        refuse: 0,
        watch: 100,
        relist: 0,
        compact: 0,
        work: 100,
        crash: 0,
        lead: 0,
        clock: 2,
        kubelet: 60,
        failures: 0,
        garbage: 30,
    };

    /// The weather of a seed.
    pub fn of(random: &mut Random) -> Self {
        let mut some = |most: u64| if random.chance(400) { 0 } else { random.next() % (most + 1) };
        Self {
            commit: 20 + some(180),
            deliver: 5 + some(195),
            lose: some(20),
            refuse: some(20),
            watch: 10 + some(190),
            relist: some(6),
            compact: some(3),
            work: 20 + some(180),
            crash: some(12),
            lead: some(20),
            clock: 1 + some(10),
            kubelet: 10 + some(100),
            failures: some(150),
            garbage: 1 + some(40),
        }
    }
}
