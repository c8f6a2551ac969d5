//! One run, from its seed.

use std::time::Duration;

use sandgate_sim::{Happened, Random, Trace, Weather, World};

use crate::goals;
use crate::laws::{Broken, Laws};
use crate::process::Manager;
use crate::surroundings;
use crate::users::Users;

/// How many steps a run may need to come to rest.
pub(crate) const LIMIT: u64 = 20_000;

/// How long it takes until each manager has swept twice, the second time for what is old enough by then.
pub(crate) const SWEPT: Duration = Duration::from_secs(22 * 60);

/// How much of it passes at a time: less than a request of a manager waits for its answer.
const STEP: Duration = Duration::from_secs(5);

/// What a run is made of, beside its seed.
pub(crate) struct Setting {
    pub(crate) weather: Weather,
    pub(crate) managers: usize,
    /// How often of a thousand steps a user does something.
    pub(crate) busy: u64,
    /// How often of a thousand answers the user does not get one.
    pub(crate) deaf: u64,
}

impl Setting {
    /// The setting of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x3a7a_6e12);
        let managers = 1 + random.below(3);
        let weather = Weather { lead: 0, garbage: 0, ..Weather::of(&mut random) };
        let deaf = if random.chance(500) { 0 } else { random.next() % 300 };
        Self { weather, managers, busy: 60 + random.next() % 200, deaf }
    }
}

/// How a run went.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) outcome: Result<(), Broken>,
}

/// The number in this variable, if it is set.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// One thread, and a clock that stands still while any task can run.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime")
}

/// Runs a seed.
pub(crate) fn simulate(seed: u64, steps: u64, setting: &Setting) -> Run {
    runtime().block_on(async {
        let mut world: World<Manager> = World::new(seed, setting.managers, setting.weather);
        let outcome = live(&mut world, steps, setting).await;
        Run { trace: world.trace, outcome }
    })
}

async fn live(world: &mut World<Manager>, steps: u64, setting: &Setting) -> Result<(), Broken> {
    let mut users = Users::new(setting.deaf);
    let mut laws = Laws::default();
    let pool = 1 + world.random.below(4);
    surroundings::make_set(&mut world.model, "base", pool);
    surroundings::make_set(&mut world.model, "rare", 0);
    if world.random.chance(500) {
        rest(world, &mut users, &mut laws).await?;
        world.set_weather(setting.weather);
        for slot in 0..world.copies() {
            world.process(slot).calm(false);
        }
    }
    for _ in 0..steps {
        if world.random.chance(setting.busy) {
            users.step(world);
        }
        let happened = world.step().await;
        check(world, &mut users, &mut laws, &happened)?;
    }
    users.rest();
    rest(world, &mut users, &mut laws).await?;
    look(world, &mut users, &mut laws).await?;
    goals::check(world, &users)?;
    // What was claimed twice is swept.
    pass(world, &mut users, &mut laws, SWEPT).await?;
    goals::check_swept(&world.model, &users)?;
    look(world, &mut users, &mut laws).await?;
    // Everything that ends by itself has ended, and what nobody needs is swept.
    world.tell("a day passes");
    tokio::time::sleep(Duration::from_secs(26 * 3600)).await;
    world.lose_all();
    pass(world, &mut users, &mut laws, SWEPT).await?;
    goals::check_late(&world.model)?;
    goals::check_swept(&world.model, &users)?;
    // What is gone is not counted any more.
    let orders = users.order_what_fits(world);
    rest(world, &mut users, &mut laws).await?;
    match orders.into_iter().find(|order| users.orders[*order].accepted.is_none()) {
        Some(order) => Err(Broken(format!("order {order} would fit into the quota and was refused"))),
        None => Ok(()),
    }
}

/// Nothing goes wrong, until everything is as it should be.
pub(crate) async fn rest(
    world: &mut World<Manager>,
    users: &mut Users,
    laws: &mut Laws,
) -> Result<(), Broken> {
    for slot in 0..world.copies() {
        world.process(slot).calm(true);
    }
    if !world.come_to_rest(LIMIT, |world, happened| check(world, users, laws, happened)).await? {
        return Err(Broken(format!("still busy after {LIMIT} steps without a fault")));
    }
    check(world, users, laws, &Happened::Other)
}

/// So much time passes while nothing goes wrong.
pub(crate) async fn pass(
    world: &mut World<Manager>,
    users: &mut Users,
    laws: &mut Laws,
    time: Duration,
) -> Result<(), Broken> {
    let until = world.now() + time;
    while world.now() < until {
        tokio::time::sleep(STEP).await;
        world.settle().await;
        check(world, users, laws, &Happened::Other)?;
        if !world.under_way().is_empty() {
            rest(world, users, laws).await?;
        }
    }
    rest(world, users, laws).await
}

/// Every user looks at everything, at every manager, which knows it all by now.
pub(crate) async fn look(
    world: &mut World<Manager>,
    users: &mut Users,
    laws: &mut Laws,
) -> Result<(), Broken> {
    let waiting = users.waiting();
    users.look_around(world);
    world.settle().await;
    check(world, users, laws, &Happened::Other)?;
    if users.waiting() > waiting {
        return Err(Broken("a manager has to ask for what it was shown".to_owned()));
    }
    Ok(())
}

/// Checks what a step has done.
pub(crate) fn check(
    world: &mut World<Manager>,
    users: &mut Users,
    laws: &mut Laws,
    happened: &Happened,
) -> Result<(), Broken> {
    if let Some(line) = world.trace.lines().last().filter(|line| line.contains("PANIC")) {
        return Err(Broken(line.clone()));
    }
    if let Happened::Committed(request) = happened {
        laws.check_request(request, world, users)?;
    }
    laws.check(world, users)?;
    users.hear(world, laws)
}
