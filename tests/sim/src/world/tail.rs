//! The end of a run: nothing goes wrong any more, and the system must come to rest.

use std::time::Duration;

use tokio::time::Instant;

use super::{ATTEMPTS, Happened, Process, Step, Weather, World};

/// Work that is due later than this is none that a change is waiting for: it is the rare look at everything.
const SOON: Duration = Duration::from_secs(600);

/// Longer than a task waits for anything but an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of it passes at a time.
const STEP: Duration = Duration::from_secs(1);

impl<P: Process> World<P> {
    /// Lets the first copy lead alone and everything go well, until nothing is left to do, or for `limit`
    /// steps. Returns whether nothing is left. `see` is called for each step.
    ///
    /// # Errors
    /// What `see` returns.
    pub async fn come_to_rest<E>(
        &mut self,
        limit: u64,
        see: impl FnMut(&mut Self, &Happened) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.rest(limit, None, see).await
    }

    /// The same for a program that always has something to ask: it is at rest when the cluster has not
    /// changed for so long.
    ///
    /// # Errors
    /// What `see` returns.
    pub async fn come_to_quiet<E>(
        &mut self,
        limit: u64,
        quiet: Duration,
        see: impl FnMut(&mut Self, &Happened) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.rest(limit, Some(quiet), see).await
    }

    async fn rest<E>(
        &mut self,
        limit: u64,
        quiet: Option<Duration>,
        mut see: impl FnMut(&mut Self, &Happened) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.tell("nothing goes wrong from here");
        self.weather = Weather { clock: 0, ..Weather::CALM };
        for (slot, number) in self.slots.clone().into_iter().enumerate() {
            let Some(running) = self.running.get_mut(&number) else { continue };
            if running.leads != (slot == 0) {
                running.leads = slot == 0;
                running.process.lead(slot == 0);
            }
        }
        let mut unchanged = (self.model.revision(), Instant::now());
        for _ in 0..limit {
            let revision = self.model.revision();
            if revision != unchanged.0 {
                unchanged = (revision, Instant::now());
            } else if quiet.is_some_and(|quiet| unchanged.1.elapsed() >= quiet)
                && self.network.under_way().is_empty()
            {
                return Ok(true);
            }
            if let Some(happened) = self.advance().await {
                see(self, &happened)?;
                continue;
            }
            // Nothing can be done now: time passes until something is due.
            let now = Instant::now();
            let due = self.running.values().filter_map(|running| running.process.next_due()).min();
            match due {
                Some(due) if due <= now + SOON => {
                    let wait = due.saturating_duration_since(now).max(Duration::from_millis(1));
                    self.pass(wait).await;
                    self.settle().await;
                }
                _ if self.is_waiting().await => {}
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Does one of the things that can be done, if there is one.
    async fn advance(&mut self) -> Option<Happened> {
        // Chosen at random, so that the order of the end is no special one.
        if let Some(Step::Done(happened)) = (0..ATTEMPTS).find_map(|_| self.attempt()) {
            self.settle().await;
            return Some(happened);
        }
        let mut happened = None;
        for attempt in 0..6 {
            happened = match attempt {
                0 => self.commit_one(),
                1 => self.deliver_one(),
                2 => self.work_all(),
                3 => self.watch_all(),
                4 => {
                    let done = P::surroundings(&mut self.model, &mut self.random, 0);
                    self.say(done)
                }
                _ => {
                    let done = super::cluster::garbage(&mut self.model, &mut self.random);
                    self.say(done.map(|done| format!("garbage collector: {done}")))
                }
            };
            if happened.is_some() {
                break;
            }
        }
        self.settle().await;
        happened
    }

    /// Tasks that wait for a time of their own, such as the end of a request that gets no answer. Time passes
    /// in small steps, so that what they send then is not kept waiting.
    async fn is_waiting(&mut self) -> bool {
        let (before, began) = (self.trace.lines().len(), Instant::now());
        while began.elapsed() < PATIENCE {
            tokio::time::sleep(STEP).await;
            self.settle().await;
            if self.trace.lines().len() > before || !self.network.under_way().is_empty() {
                return true;
            }
        }
        false
    }

    fn work_all(&mut self) -> Option<Happened> {
        let mut happened = None;
        for number in self.slots.clone() {
            let begun = self.running.get_mut(&number).and_then(|running| running.process.work());
            if let Some(begun) = begun {
                happened = self.say(Some(format!("p{number} begins {begun}")));
            }
        }
        happened
    }

    fn watch_all(&mut self) -> Option<Happened> {
        (0..64).find_map(|_| self.watch_one())
    }
}
