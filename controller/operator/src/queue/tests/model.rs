//! The queue against a naive model: a list that is searched from its start for everything.

use proptest::prelude::*;
use tokio::runtime::Builder;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Add(u8),
    Press(u8),
    AddAfter(u8, u16),
    Pass(u16),
    Take,
    /// Ends one of the jobs that run, counted from the oldest.
    End(u8, Ending),
}

#[derive(Clone, Debug)]
enum Ending {
    Forget,
    After(u16),
    Failed,
    Conflicted,
    Dropped,
    PutBack,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ending = prop_oneof![
        Just(Ending::Forget),
        (0..50_u16).prop_map(Ending::After),
        Just(Ending::Failed),
        Just(Ending::Conflicted),
        Just(Ending::Dropped),
        Just(Ending::PutBack),
    ];
    let step = prop_oneof![
        3 => (0..6_u8).prop_map(Step::Add),
        1 => (0..6_u8).prop_map(Step::Press),
        2 => (0..6_u8, 0..50_u16).prop_map(|(key, wait)| Step::AddAfter(key, wait)),
        2 => (0..40_u16).prop_map(Step::Pass),
        4 => Just(Step::Take),
        4 => (any::<u8>(), ending).prop_map(|(job, ending)| Step::End(job, ending)),
    ];
    proptest::collection::vec(step, 1..120)
}

/// One key of the model. Those that wait stand in the list in the order of their arrival.
struct Known {
    key: Key,
    due: Instant,
    /// The time whose place it has.
    place: Instant,
    failures: u32,
    /// Where it runs: when it is to run again, and in which place.
    running: Option<Option<(Instant, Instant)>>,
}

#[derive(Default)]
struct Model(Vec<Known>);

impl Model {
    fn add(&mut self, key: Key, due: Instant, place: Instant) {
        let Some(at) = self.0.iter().position(|known| known.key == key) else {
            return self.0.push(Known { key, due, place, failures: 0, running: None });
        };
        if let Some(again) = &mut self.0[at].running {
            let (earlier, before) = again.unwrap_or((due, place));
            *again = Some((earlier.min(due), before.min(place)));
        } else if due < self.0[at].due || place < self.0[at].place {
            let known = self.0.remove(at);
            self.0.push(Known { due: due.min(known.due), place: place.min(known.place), ..known });
        }
    }

    fn take(&mut self, now: Instant) -> Option<(Key, u32)> {
        let waiting = self.0.iter_mut().filter(|known| known.running.is_none() && known.due <= now);
        // The first of equal ones: `min_by_key` keeps the earliest element.
        let found = waiting.min_by_key(|known| known.place)?;
        found.running = Some(None);
        Some((found.key.clone(), found.failures))
    }

    /// Ends a run. `drawn` is when the queue wants to try a failed key again.
    fn end(&mut self, key: &Key, ending: &Ending, now: Instant, drawn: Option<Instant>) {
        let at = self.0.iter().position(|known| known.key == *key).unwrap();
        if let Ending::PutBack = ending {
            self.0[at].running = None;
            return;
        }
        let known = self.0.remove(at);
        let again = known.running.expect("it runs");
        let (due, failures) = match ending {
            Ending::Forget => (None, 0),
            Ending::After(wait) => (Some(now + millis(u64::from(*wait))), 0),
            _ => {
                let cap = if let Ending::Conflicted = ending { 1_000 } else { 60_000 };
                let bound = millis((5 << known.failures).min(cap));
                let drawn = drawn.expect("a failed key waits");
                let range = now + bound / 2..=now + bound;
                let is_added = again.is_some_and(|(due, _)| due == drawn);
                assert!(range.contains(&drawn) || is_added, "{:?} of {bound:?}", drawn - now);
                (Some(drawn), known.failures + 1)
            }
        };
        let waits = [due.map(|due| (due, due)), again].into_iter().flatten();
        if let Some((due, place)) = waits.reduce(|one, two| (one.0.min(two.0), one.1.min(two.1))) {
            self.0.push(Known { key: known.key, due, place, failures, running: None });
        }
    }
}

async fn compare(steps: Vec<Step>) {
    let (queue, mut model, mut jobs) = (queue(), Model::default(), Vec::<Job>::new());
    let named = |key: u8| key_of(key);
    for step in steps {
        let now = Instant::now();
        match step {
            Step::Add(key) => {
                queue.add(named(key));
                model.add(named(key), now, now);
            }
            Step::Press(key) => {
                queue.add_in(named(key), Haste::Pressing);
                model.add(named(key), now, now - HEAD_START);
            }
            Step::AddAfter(key, wait) => {
                let wait = millis(u64::from(wait));
                queue.add_after(named(key), wait);
                model.add(named(key), now + wait, now + wait);
            }
            Step::Pass(time) => advance(millis(u64::from(time))).await,
            Step::Take => {
                let expected = model.take(now);
                let found = match queue.try_next(now) {
                    Next::Job(job) => Some(job),
                    _ => None,
                };
                assert_eq!(found.as_ref().map(|job| (job.key().clone(), job.failures())), expected);
                jobs.extend(found);
            }
            Step::End(job, ending) => {
                if jobs.is_empty() {
                    continue;
                }
                let job = jobs.remove(usize::from(job) % jobs.len());
                let key = job.key().clone();
                match ending {
                    Ending::Forget => job.done(Again::Forget),
                    Ending::After(wait) => job.done(Again::After(millis(u64::from(wait)))),
                    Ending::Failed => job.failed(),
                    Ending::Conflicted => job.conflicted(),
                    Ending::Dropped => drop(job),
                    Ending::PutBack => job.put_back(),
                }
                let drawn = queue.shared.schedule.lock().due(&key);
                model.end(&key, &ending, now, drawn);
            }
        }
        let now = Instant::now();
        let depth = model.0.iter().filter(|known| known.running.is_none() && known.due <= now).count();
        assert_eq!((queue.depth(), queue.len()), (depth, model.0.len()));
    }
}

fn key_of(number: u8) -> Key {
    key(&number.to_string())
}

proptest! {
    #[test]
    fn the_queue_hands_out_what_a_naive_list_would(steps in steps()) {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(compare(steps));
    }
}
