//! A scheduler whose choices come from a seed: one seed, one order of all polls.
//!
//! It is a future. A test awaits it on a runtime whose clock is paused: where no task can go on, the clock
//! moves to the next timer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use crate::Random;

/// A task's flag, and who polls the scheduler.
struct Flag {
    is_ready: AtomicBool,
    scheduler: Arc<Mutex<Option<Waker>>>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, Ordering::SeqCst);
        if let Some(waker) = self.scheduler.lock().as_ref() {
            waker.wake_by_ref();
        }
    }
}

type Task<'a> = (Pin<Box<dyn Future<Output = ()> + 'a>>, Arc<Flag>);

/// The scheduler.
pub(super) struct Scheduler<'a> {
    random: Random,
    tasks: Vec<Task<'a>>,
    scheduler: Arc<Mutex<Option<Waker>>>,
}

impl<'a> Scheduler<'a> {
    pub(super) fn seeded(seed: u64) -> Self {
        Self { random: Random::seeded(seed), tasks: Vec::new(), scheduler: Arc::default() }
    }

    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + 'a) {
        let flag = Flag { is_ready: AtomicBool::new(true), scheduler: Arc::clone(&self.scheduler) };
        self.tasks.push((Box::pin(task), Arc::new(flag)));
    }
}

/// Done when every task is.
impl Future for Scheduler<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        *self.scheduler.lock() = Some(context.waker().clone());
        loop {
            if self.tasks.is_empty() {
                return Poll::Ready(());
            }
            let ready: Vec<_> = (0..self.tasks.len())
                .filter(|&at| self.tasks[at].1.is_ready.load(Ordering::SeqCst))
                .collect();
            if ready.is_empty() {
                return Poll::Pending;
            }
            let chosen = ready[below(&mut self.random, ready.len())];
            let (task, flag) = &mut self.tasks[chosen];
            flag.is_ready.store(false, Ordering::SeqCst);
            let waker = Waker::from(Arc::clone(flag));
            if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                drop(self.tasks.remove(chosen));
            }
        }
    }
}

/// A number below a bound.
pub(super) fn below(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.number() % bound as u64).unwrap()
}

/// Lets others go first, perhaps.
pub(super) async fn step() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs `test` under many seeds; a failure names its seed, and `SANDGATE_SEED` runs one alone.
pub(super) fn for_seeds(count: u64, test: impl Fn(u64)) {
    let one = std::env::var("SANDGATE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..count, |seed: u64| seed..seed + 1);
    for seed in seeds {
        let run = std::panic::AssertUnwindSafe(|| test(seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            eprintln!("failed with SANDGATE_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Runs a scheduler to its end on a runtime whose clock is paused.
pub(super) fn run<'a>(fill: impl FnOnce(&mut Scheduler<'a>), seed: u64) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let mut scheduler = Scheduler::seeded(seed);
    fill(&mut scheduler);
    runtime.block_on(scheduler);
}
