//! One run, from its seed.

use std::collections::BTreeSet;
use std::time::Duration;

use sandgate_sim::{Happened, Random, Trace, Weather, World};

use crate::executors::Ends;
use crate::laws::{Broken, Laws};
use crate::process::Operator;
use crate::shared::runtime;
use crate::surroundings;
use crate::users::{self, POOL_NAMES, Users};
use crate::{executors, goals};

/// How many steps a run may need to come to rest.
pub(crate) const LIMIT: u64 = 30_000;
/// A cluster with tasks is at rest when nothing has changed for so long: longer than a task that was lost, or
/// a pod that comes back, is waited for.
const QUIET: Duration = Duration::from_secs(330);

/// What a run is made of, beside its seed.
pub(crate) struct Setting {
    pub(crate) weather: Weather,
    pub(crate) operators: usize,
    /// The pools are full before anything goes wrong.
    pub(crate) warm: bool,
    /// How often a user does something, of a thousand steps.
    pub(crate) busy: u64,
}

impl Setting {
    /// The setting of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0be7_5a4d);
        let operators = 1 + random.below(3);
        let weather = Weather::of(&mut random);
        // A process that starts has six lists to read, and whoever dies all the time, or learns of nothing,
        // does nothing wrong.
        let weather = Weather {
            commit: weather.commit + 80,
            deliver: weather.deliver + 60,
            watch: weather.watch + 80,
            work: weather.work + 40,
            kubelet: weather.kubelet + 40,
            crash: weather.crash.min(3),
            lead: weather.lead % 6,
            relist: weather.relist % 4,
            ..weather
        };
        Self { weather, operators, warm: random.chance(700), busy: 20 + random.next() % 60 }
    }
}

/// How a run went.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) outcome: Result<(), Broken>,
    /// What has happened that no line of the trace tells.
    pub(crate) noted: BTreeSet<&'static str>,
}

/// Runs a seed.
pub(crate) fn simulate(seed: u64, steps: u64, setting: &Setting) -> Run {
    runtime().block_on(async {
        surroundings::begin(seed);
        let mut world: World<Operator> = World::new(seed, setting.operators, setting.weather);
        let mut laws = Laws::new(setting.operators > 1 && setting.weather.lead > 0);
        let outcome = live(&mut world, &mut laws, steps, setting).await;
        Run { trace: world.trace, outcome, noted: laws.noted() }
    })
}

async fn live(
    world: &mut World<Operator>,
    laws: &mut Laws,
    steps: u64,
    setting: &Setting,
) -> Result<(), Broken> {
    let mut users = Users::default();
    for (name, recycle) in POOL_NAMES {
        users::make_pool(&mut world.model, name, recycle);
    }
    if setting.warm {
        rest(world, laws, &mut users).await?;
        world.set_weather(setting.weather);
    }
    executors::fail(setting.weather.lose * 5);
    for _ in 0..steps {
        if world.random.chance(setting.busy)
            && let Some(line) = users.step(&mut world.model, &mut world.random)
        {
            world.tell(&format!("user: {line}"));
        }
        let happened = world.step().await;
        check(world, laws, &happened)?;
    }
    rest(world, laws, &mut users).await
}

/// Nothing goes wrong, until everything is as it should be.
async fn rest(world: &mut World<Operator>, laws: &mut Laws, users: &mut Users) -> Result<(), Broken> {
    executors::fail(0);
    for line in users.settle(&mut world.model) {
        world.tell(&format!("user: {line}"));
    }
    if users::are_tasks(&world.model) {
        // Every task ends now, and what has become of each must be told.
        executors::end(Ends::All);
        if !world.come_to_quiet(LIMIT, QUIET, |world, happened| check(world, laws, happened)).await? {
            return Err(Broken(format!("still changing after {LIMIT} steps without a fault")));
        }
        goals::check(&world.model)?;
        for line in users::end_tasks(&mut world.model) {
            world.tell(&format!("user: {line}"));
        }
    }
    if !world.come_to_rest(LIMIT, |world, happened| check(world, laws, happened)).await? {
        return Err(Broken(format!("still busy after {LIMIT} steps without a fault")));
    }
    goals::check(&world.model)
}

pub(crate) fn check(world: &World<Operator>, laws: &mut Laws, happened: &Happened) -> Result<(), Broken> {
    if let Happened::Committed(request) = happened {
        laws.check_request(request, &world.model, &world.leaders())?;
    }
    if let Some(line) = world.trace.lines().last().filter(|line| line.contains("PANIC")) {
        return Err(Broken(line.clone()));
    }
    surroundings::follow(&world.model);
    laws.check(&world.model)
}
