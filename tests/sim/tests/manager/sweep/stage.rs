//! Two managers, and a request that the first of them does not end.

use std::collections::BTreeSet;
use std::time::Duration;

use sandgate_sim::{Weather, World};

use crate::laws::{Broken, Laws};
use crate::process::Manager;
use crate::users::Users;
use crate::{goals, run, surroundings};

/// What happens after so many steps of the manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It dies, and what it has sent is lost.
    Dead,
    /// It dies, and what it has sent is done soon.
    DeadLate,
    /// It dies, and what it has sent is done when its user has got the answer of another.
    DeadLast,
    /// The user goes away, and the manager lives.
    Left,
    /// It does not reach the API server until its user has got the answer of another, and then goes on.
    Slow,
}

impl Cut {
    /// Whether the manager dies.
    pub(super) fn is_death(self) -> bool {
        matches!(self, Self::Dead | Self::DeadLate | Self::DeadLast)
    }

    /// Whether what the manager has sent waits until the user has got the answer of another.
    pub(super) fn holds(self) -> bool {
        matches!(self, Self::DeadLast | Self::Slow)
    }
}

/// How much time passes while nothing can be done.
const IDLE: Duration = Duration::from_millis(100);

/// More of anybody's steps than there are between two of the manager's, or in a request.
const MOST: usize = 10_000;

/// A run.
pub(super) struct Stage {
    pub(super) world: World<Manager>,
    pub(super) users: Users,
    pub(super) laws: Laws,
    /// The requests of the manager that are under way when it is cut off.
    pub(super) cut_off: BTreeSet<u64>,
    /// All requests that it sends until then.
    pub(super) sent: BTreeSet<u64>,
    /// How many sandboxes it leaves for the managers to sweep.
    pub(super) strays: usize,
    /// The manager that does the request.
    first: u64,
}

impl Stage {
    pub(super) fn new(seed: u64, pool: usize) -> Self {
        let mut world: World<Manager> = World::new(seed, 2, Weather::CALM);
        surroundings::make_set(&mut world.model, "base", pool);
        surroundings::make_set(&mut world.model, "rare", 0);
        let (users, laws) = (Users::new(0), Laws::default());
        let (cut_off, sent) = (BTreeSet::new(), BTreeSet::new());
        let first = world.number(0);
        Self { world, users, laws, cut_off, sent, strays: 0, first }
    }

    /// Nothing goes wrong until everything is done, and every manager shows it.
    pub(super) async fn rest(&mut self) -> Result<(), Broken> {
        run::rest(&mut self.world, &mut self.users, &mut self.laws).await?;
        run::look(&mut self.world, &mut self.users, &mut self.laws).await
    }

    /// So much time passes while nothing goes wrong.
    pub(super) async fn pass(&mut self, time: Duration) -> Result<(), Broken> {
        run::pass(&mut self.world, &mut self.users, &mut self.laws, time).await
    }

    /// Checks that nothing is left over, at once or after a death when the managers have swept.
    pub(super) async fn check(&mut self, cut: Option<Cut>) -> Result<(), Broken> {
        goals::check(&mut self.world, &self.users)?;
        if cut.is_some_and(Cut::is_death) {
            self.strays = goals::strays(&self.world.model, &self.users)?.len();
            self.pass(run::SWEPT).await?;
            goals::check(&mut self.world, &self.users)?;
        }
        goals::check_swept(&self.world.model, &self.users)
    }

    /// The first manager does so many steps of the newest request, and is cut off. Says whether it was: the
    /// request may have been answered before.
    pub(super) async fn cut(&mut self, steps: u64, cut: Cut) -> Result<bool, Broken> {
        let ticket = self.users.newest();
        self.world.process(0).calm(false);
        for _ in 0..steps {
            self.step().await?;
        }
        if self.users.waiting() == 0 {
            return Ok(false);
        }
        let calls = self.calls();
        self.cut_off = calls.iter().filter(|(_, answered)| !answered).map(|(number, _)| *number).collect();
        if cut == Cut::Dead {
            self.world.lose_all();
        }
        if cut.holds() {
            self.world.hold(self.first);
        }
        if cut.is_death() {
            self.world.crash(0);
        }
        if cut == Cut::Left {
            self.users.leave(&mut self.world, ticket);
        }
        Ok(true)
    }

    /// Whether it was a death with nothing under way: these are all the same, and [`Cut::Dead`] is one.
    pub(super) fn is_mere_death(&self, cut: Cut) -> bool {
        cut.is_death() && cut != Cut::Dead && self.cut_off.is_empty()
    }

    /// The next step of the first manager: it has sent, got or seen something. What happens elsewhere is no
    /// place to cut it off.
    async fn step(&mut self) -> Result<(), Broken> {
        let own = format!(" p{} ", self.first);
        let (calls, from) = (self.calls(), self.world.trace.lines().len());
        for _ in 0..MOST {
            if self.users.waiting() == 0 {
                return Ok(());
            }
            self.anybodys_step().await?;
            let now = self.calls();
            self.sent.extend(now.iter().map(|(number, _)| *number));
            if now != calls || self.world.trace.lines()[from..].iter().any(|line| line.contains(&own)) {
                return Ok(());
            }
        }
        Err(Broken("the request does not end".to_owned()))
    }

    /// The requests of the first manager that are under way, and whether they are done.
    fn calls(&self) -> Vec<(u64, bool)> {
        let own = self.world.under_way().into_iter().filter(|call| call.caller == self.first);
        own.map(|call| (call.number, call.answered)).collect()
    }

    /// One step. If nothing can be done, time passes.
    async fn anybodys_step(&mut self) -> Result<(), Broken> {
        let before = self.world.trace.lines().len();
        let happened = self.world.step().await;
        run::check(&mut self.world, &mut self.users, &mut self.laws, &happened)?;
        if self.world.trace.lines().len() == before {
            tokio::time::sleep(IDLE).await;
        }
        Ok(())
    }

    /// Goes on until the newest request is answered. What the first manager has sent may wait for that.
    pub(super) async fn answered(&mut self) -> Result<(), Broken> {
        let ticket = self.users.newest();
        for _ in 0..MOST {
            if self.users.ended.contains_key(&ticket) {
                return Ok(());
            }
            self.anybodys_step().await?;
        }
        Err(Broken("the second request does not end".to_owned()))
    }

    /// Nothing waits any more, and everything comes to rest.
    pub(super) async fn release(&mut self) -> Result<(), Broken> {
        self.world.let_go(self.first);
        self.rest().await
    }
}
