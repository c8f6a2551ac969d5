//! Several callers at a time, in every order that some hundred seeds give.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};

use super::scheduler::{below, for_seeds, run, step};
use super::{LONG, labelled};
use crate::predicates::{is_paused, is_ready};
use crate::testing::{TestCache, condition, paused, pausing, running};
use crate::{Action, Random, Seen, WaitError};

const SEEDS: u64 = 200;

/// Nothing waits and nobody has a turn.
fn is_at_rest(test: &TestCache) {
    assert_eq!((test.waiting::<SandboxFacts>(), test.shared.turns.len()), (0, 0));
}

#[test]
fn two_callers_that_pause_one_sandbox_both_succeed_by_one_event() {
    for_seeds(SEEDS, |seed| {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&pausing(running("s")));
        let (done, test_, seen_) = (Cell::new(0), &test, &seen);
        run(
            |scheduler| {
                for _ in 0..2 {
                    scheduler.spawn(async {
                        let turn = test_.turn(seen_, Action::Pause).unwrap();
                        step().await;
                        turn.wait(LONG).await.unwrap();
                        done.set(done.get() + 1);
                    });
                }
                scheduler.spawn(async {
                    step().await;
                    test_.show::<SandboxFacts>(&paused(running("s")));
                });
            },
            seed,
        );
        assert_eq!(done.get(), 2);
        is_at_rest(&test);
    });
}

/// What the review of the original called critical: a second waiter was given the first one's condition.
#[test]
fn each_of_two_waiters_has_its_own_condition_also_when_the_first_leaves() {
    for_seeds(SEEDS, |seed| {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&running("s"));
        let ends = RefCell::new(Vec::new());
        let (test_, seen_, ends_) = (&test, &seen, &ends);
        run(
            |scheduler| {
                for (label, timeout) in [("x", LONG), ("y", LONG), ("never", Duration::from_secs(1))] {
                    scheduler.spawn(async move {
                        step().await;
                        let ended = labelled(test_, seen_, Action::Pause, label).within(timeout).await;
                        ends_.borrow_mut().push((label, ended.map(|seen| seen.version.get())));
                    });
                }
                scheduler.spawn(async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    for label in ["x", "y"] {
                        step().await;
                        let mut object = running("s");
                        object["metadata"]["labels"] = json!({label: "yes"});
                        test_.show::<SandboxFacts>(&object);
                    }
                });
            },
            seed,
        );
        let first = seen.version.get();
        let mut ends = ends.into_inner();
        ends.sort_by_key(|(label, _)| *label);
        let expected = [("never", Err(WaitError::Timeout)), ("x", Ok(first + 1)), ("y", Ok(first + 2))];
        assert_eq!(ends, expected);
        is_at_rest(&test);
    });
}

#[test]
fn the_first_caller_may_give_up_and_the_second_keeps_the_turn() {
    for_seeds(SEEDS, |seed| {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&pausing(running("s")));
        let (test_, seen_) = (&test, &seen);
        run(
            |scheduler| {
                scheduler.spawn(async {
                    let turn = test_.turn(seen_, Action::Pause).unwrap();
                    assert!(tokio::time::timeout(Duration::from_secs(1), turn.wait(LONG)).await.is_err());
                });
                scheduler.spawn(async {
                    let turn = test_.turn(seen_, Action::Pause).unwrap();
                    turn.wait(LONG).await.unwrap();
                });
                scheduler.spawn(async {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    assert_eq!(test_.under_way(&seen_.uid), Some((Action::Pause, 1)));
                    assert!(matches!(test_.turn(seen_, Action::Resume), Err(WaitError::Conflict { .. })));
                    test_.show::<SandboxFacts>(&paused(running("s")));
                });
            },
            seed,
        );
        is_at_rest(&test);
    });
}

#[test]
fn of_two_waits_on_one_turn_exactly_one_wins() {
    for_seeds(SEEDS, |seed| {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&pausing(running("s")));
        let turn = test.turn(&seen, Action::Pause).unwrap();
        let ends = RefCell::new(Vec::new());
        let (turn_, ends_, test_) = (&turn, &ends, &test);
        run(
            |scheduler| {
                for _ in 0..2 {
                    scheduler.spawn(async move {
                        step().await;
                        let ended = turn_.wait(LONG).await.map(drop);
                        ends_.borrow_mut().push(ended);
                    });
                }
                scheduler.spawn(async {
                    step().await;
                    test_.show::<SandboxFacts>(&paused(running("s")));
                });
            },
            seed,
        );
        let ends = ends.into_inner();
        assert!(ends.contains(&Ok(())) && ends.contains(&Err(WaitError::Used)), "{ends:?}");
        is_at_rest(&test);
    });
}

#[test]
fn twenty_waits_for_twenty_objects_end_each_by_its_own() {
    for_seeds(SEEDS / 4, |seed| {
        let test = TestCache::new();
        let seen: Vec<_> =
            (0..20).map(|number| test.show::<SandboxFacts>(&running(&format!("s{number}")))).collect();
        let (test_, seen_) = (&test, &seen);
        run(
            |scheduler| {
                for seen in seen_ {
                    scheduler.spawn(async move {
                        step().await;
                        let ended = labelled(test_, seen, Action::Ready, "x").within(LONG).await.unwrap();
                        assert_eq!(ended.key, seen.key);
                    });
                }
                scheduler.spawn(async move {
                    for seen in seen_ {
                        step().await;
                        let mut object = running(&seen.key.name);
                        object["metadata"]["labels"] = json!({"x": "yes"});
                        test_.show::<SandboxFacts>(&object);
                    }
                });
            },
            seed,
        );
        is_at_rest(&test);
    });
}

#[test]
fn who_waits_for_a_turn_gets_it_though_others_come_and_go() {
    for_seeds(SEEDS, |seed| {
        let test = TestCache::new();
        let seen = test.show::<SandboxFacts>(&running("s"));
        let (test_, seen_, done) = (&test, &seen, Cell::new(0));
        run(
            |scheduler| {
                for action in [Action::Pause, Action::Resume, Action::Pause, Action::Resume] {
                    let done = &done;
                    scheduler.spawn(async move {
                        let turn = test_.turn_within(seen_, action, LONG).await.unwrap();
                        assert_eq!(test_.under_way(&seen_.uid).unwrap().0, action);
                        step().await;
                        drop(turn);
                        done.set(done.get() + 1);
                    });
                }
            },
            seed,
        );
        assert_eq!(done.get(), 4);
        is_at_rest(&test);
    });
}

/// One sandbox as the API server has it, and the events that each watch has not shown yet.
struct World {
    object: RefCell<Value>,
    version: Cell<u64>,
    events: RefCell<Vec<Value>>,
    is_over: Cell<bool>,
}

impl World {
    fn new() -> Self {
        let world = Self {
            object: RefCell::new(running("s")),
            version: Cell::new(100),
            events: RefCell::default(),
            is_over: Cell::new(false),
        };
        world.write(100, |_| {});
        world
    }

    fn read(&self) -> Value {
        self.object.borrow().clone()
    }

    /// A conditional write: none if the version is not the present one.
    fn write(&self, version: u64, change: impl FnOnce(&mut Value)) -> Option<Value> {
        if version != self.version.get() {
            return None;
        }
        self.version.set(version + 1);
        let mut object = self.object.borrow_mut();
        object["metadata"]["namespace"] = "default".into();
        object["metadata"]["uid"] = "u".into();
        object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
        change(&mut object);
        self.events.borrow_mut().push(object.clone());
        Some(object.clone())
    }

    fn set_paused(&self, version: u64, to: bool) -> Option<Value> {
        self.write(version, |object| {
            object["spec"]["paused"] = to.into();
            let generation = object["metadata"]["generation"].as_u64().unwrap() + 1;
            object["metadata"]["generation"] = generation.into();
        })
    }

    /// One step of the controller.
    fn control(&self) {
        let object = self.read();
        let is_paused = object["spec"]["paused"] == json!(true);
        let phase = object["status"]["phase"].as_str().unwrap().to_owned();
        let is_complete = object["status"]["conditions"][1]["status"] == json!("True");
        let ready = |holds| condition("Ready", holds, "PodReady");
        let (next, conditions) = match (phase.as_str(), is_paused) {
            ("Running", true) => {
                ("Paused", json!([ready(false), condition("SandboxPaused", false, "Pending")]))
            }
            ("Paused", _) if !is_complete => {
                ("Paused", json!([ready(false), condition("SandboxPaused", true, "StopPauseSucceed")]))
            }
            ("Paused", false) => ("Resuming", json!([ready(false)])),
            ("Resuming", _) => ("Running", json!([ready(true)])),
            (_, _) if object["status"]["observedGeneration"] != object["metadata"]["generation"] => {
                (phase.as_str(), object["status"]["conditions"].clone())
            }
            _ => return,
        };
        self.write(self.version.get(), |object| {
            object["status"]["phase"] = next.into();
            object["status"]["conditions"] = conditions;
            object["status"]["observedGeneration"] = object["metadata"]["generation"].clone();
        });
    }

    /// A watch that lags: shows the events one by one.
    async fn watch(&self, test: &TestCache) {
        let mut shown = 0;
        loop {
            let event = self.events.borrow().get(shown).cloned();
            match event {
                Some(event) => {
                    test.show::<SandboxFacts>(&event);
                    shown += 1;
                }
                None if self.is_over.get() => return,
                None => tokio::time::sleep(Duration::from_millis(1)).await,
            }
            step().await;
        }
    }

    /// What the manager does: read live, take the turn, write with the version, wait.
    async fn act(&self, test: &TestCache, action: Action) -> Result<Arc<Seen<SandboxFacts>>, WaitError> {
        let wanted = action == Action::Pause;
        loop {
            let object = self.read();
            step().await;
            let seen = test.answer::<SandboxFacts>(&object);
            let turn = test.turn(&seen, action)?;
            step().await;
            if object["spec"]["paused"].as_bool().unwrap_or_default() != wanted {
                let Some(answer) = self.set_paused(seen.version.get(), wanted) else { continue };
                step().await;
                test.answer::<SandboxFacts>(&answer);
            }
            return turn.wait(LONG).await;
        }
    }
}

/// Callers of `replicas` processes pause and resume one sandbox at random. Returns how each call ended.
fn simulate(seed: u64, replicas: usize) -> Vec<String> {
    let world = Rc::new(World::new());
    let caches: Vec<_> = (0..replicas).map(|_| TestCache::new()).collect();
    let (log, left) = (RefCell::new(Vec::new()), Cell::new(6));
    let (caches_, log_, left_) = (&caches, &log, &left);
    run(
        |scheduler| {
            for test in caches_ {
                let world = Rc::clone(&world);
                scheduler.spawn(async move { world.watch(test).await });
            }
            let controller = Rc::clone(&world);
            scheduler.spawn(async move {
                while !controller.is_over.get() {
                    controller.control();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
            for caller in 0..left_.get() {
                let (world, test) = (Rc::clone(&world), &caches_[caller % replicas]);
                scheduler.spawn(async move {
                    let mut random = Random::seeded(seed ^ (caller as u64) << 32);
                    for _ in 0..4 {
                        tokio::time::sleep(Duration::from_millis(random.number() % 40)).await;
                        let action = [Action::Pause, Action::Resume][below(&mut random, 2)];
                        let ended = world.act(test, action).await;
                        if let Ok(seen) = &ended {
                            let holds = if action == Action::Pause {
                                is_paused(seen)
                            } else {
                                is_ready(seen, test.now())
                            };
                            assert!(holds, "{action}");
                        }
                        let ended = ended.map(|seen| seen.version.get());
                        log_.borrow_mut().push(format!("{caller} {action} {ended:?}"));
                    }
                    left_.set(left_.get() - 1);
                    world.is_over.set(left_.get() == 0);
                });
            }
        },
        seed,
    );
    for test in &caches {
        is_at_rest(test);
    }
    log.into_inner()
}

#[test]
fn in_one_process_every_action_that_has_its_turn_succeeds() {
    let conflicts = Cell::new(0);
    for_seeds(SEEDS / 4, |seed| {
        for line in simulate(seed, 1) {
            let is_conflict = line.contains("Conflict");
            conflicts.set(conflicts.get() + u32::from(is_conflict));
            assert!(line.contains("Ok") || is_conflict, "{line}");
        }
    });
    assert!(conflicts.get() > 0 || std::env::var_os("SANDGATE_SEED").is_some(), "the seeds show no conflict");
}

#[test]
fn between_processes_the_first_write_wins_and_nobody_waits_for_ever() {
    for_seeds(SEEDS / 4, |seed| {
        for line in simulate(seed, 3) {
            let known = ["Ok", "Conflict", "undone"].iter().any(|word| line.contains(word));
            assert!(known, "{line}");
        }
    });
}

#[test]
fn one_seed_gives_one_run() {
    assert_eq!(simulate(7, 2), simulate(7, 2));
    assert_ne!(simulate(7, 2), simulate(8, 2));
}
