//! One run, from its seed.

use sandgate_sim::{Happened, Random, Trace, Weather, World};

use crate::goals;
use crate::laws::{Broken, Laws};
use crate::process::Operator;
use crate::shared::runtime;
use crate::users;

/// How many steps a run may need to come to rest.
pub(crate) const LIMIT: u64 = 20_000;

/// What a run is made of, beside its seed.
pub(crate) struct Setting {
    pub(crate) weather: Weather,
    pub(crate) operators: usize,
    /// Users change the template of one set, and nothing else.
    pub(crate) rolling_only: bool,
    /// The sets are full before anything goes wrong.
    pub(crate) warm: bool,
}

impl Setting {
    /// The setting of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5e77_1265);
        let operators = 1 + random.below(3);
        let weather = Weather::of(&mut random);
        Self { weather, operators, rolling_only: false, warm: random.chance(500) }
    }
}

/// How a run went.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) outcome: Result<(), Broken>,
}

/// Runs a seed.
pub(crate) fn simulate(seed: u64, steps: u64, setting: &Setting) -> Run {
    runtime().block_on(async {
        let mut world: World<Operator> = World::new(seed, setting.operators, setting.weather);
        let outcome = live(&mut world, steps, setting).await;
        Run { trace: world.trace, outcome }
    })
}

async fn live(world: &mut World<Operator>, steps: u64, setting: &Setting) -> Result<(), Broken> {
    let mut laws = Laws::new(setting.rolling_only);
    let replicas = i64::try_from(1 + world.random.below(4)).unwrap_or(1);
    users::make_set(&mut world.model, "base", replicas);
    if !setting.rolling_only {
        users::make_set_by_reference(&mut world.model, "other", 1);
        users::make_sandbox(&mut world.model, "alone");
    }
    if setting.warm {
        rest(world, &mut laws).await?;
        world.set_weather(setting.weather);
    }
    for _ in 0..steps {
        if world.random.chance(60) {
            let step = if setting.rolling_only { users::roll } else { users::step };
            let done = step(&mut world.model, &mut world.random);
            tell(world, done);
        }
        if !setting.rolling_only && world.random.chance(60) {
            let under_way = world.under_way();
            let done = users::claim_from_under(&mut world.model, &mut world.random, &under_way);
            tell(world, done);
        }
        let happened = world.step().await;
        check(world, &mut laws, &happened)?;
    }
    rest(world, &mut laws).await
}

/// Nothing goes wrong, until everything is as it should be.
async fn rest(world: &mut World<Operator>, laws: &mut Laws) -> Result<(), Broken> {
    if !world.come_to_rest(LIMIT, |world, happened| check(world, laws, happened)).await? {
        return Err(Broken(format!("still busy after {LIMIT} steps without a fault")));
    }
    goals::check(&world.model)
}

fn tell(world: &mut World<Operator>, done: Option<String>) {
    if let Some(line) = done {
        world.tell(&format!("user: {line}"));
    }
}

pub(crate) fn check(world: &World<Operator>, laws: &mut Laws, happened: &Happened) -> Result<(), Broken> {
    if let Happened::Committed(request) = happened {
        laws.check_request(request, &world.model, world.started())?;
    }
    if let Some(line) = world.trace.lines().last().filter(|line| line.contains("PANIC")) {
        return Err(Broken(line.clone()));
    }
    laws.check(&world.model, world.started())
}
