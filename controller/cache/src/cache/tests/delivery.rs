//! Who is told when, on real threads: whoever writes has told everybody, and a wait misses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_objects::openkruise::resources::SandboxFacts;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::labelled;
use crate::testing::{TestCache, key, running};
use crate::{Action, Cache, CacheBuilder, Change, Check, Seen, WaitError};

/// Far longer than it takes; a lost wake-up ends here.
const PATIENCE: Duration = Duration::from_secs(60);
/// Long enough for another thread to do what it should not.
const MOMENT: Duration = Duration::from_millis(50);

/// A cache with a handler that is held at one change until it may go on.
struct Held {
    test: TestCache,
    entered: Receiver<()>,
    go: Sender<()>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Held {
    fn at(builder: CacheBuilder, is_held: fn(&Change<SandboxFacts>) -> bool) -> Self {
        let (enter, entered) = channel();
        let (go, may_go) = channel();
        let (told, may_go) = (Arc::<Mutex<Vec<String>>>::default(), Mutex::new(may_go));
        let log = Arc::clone(&told);
        let handler = move |change: &Change<SandboxFacts>| {
            if is_held(change) {
                enter.send(()).unwrap();
                may_go.lock().recv().unwrap();
            }
            let seen = change.after.as_ref().or(change.before.as_ref()).unwrap();
            let what = if change.after.is_some() { "is" } else { "is gone" };
            log.lock().push(format!("{} {what}", seen.key.name));
        };
        Self { test: TestCache::built(builder.on(handler)), entered, go, told }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn with_labels(labels: Value) -> Value {
    let mut sandbox = running("s");
    sandbox["metadata"]["labels"] = labels;
    sandbox
}

fn until(what: &str, mut check: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !check() {
        assert!(began.elapsed() < PATIENCE, "did not happen: {what}");
        thread::yield_now();
    }
}

/// Whoever revokes a key relies on it: when the answer is in the cache, the key is refused.
#[test]
fn a_write_returns_when_handlers_have_been_told_though_another_thread_tells_them() {
    type Write = fn(&TestCache);
    let another: Write = |test| drop(test.answer::<SandboxFacts>(&running("other")));
    let deleted: Write = |test| test.deleted_by_us::<SandboxFacts>(&key("other"), &"uid-other".into());
    // The watch was faster, and its thread tells of it.
    let known: Write = |test| {
        let version = test.get::<SandboxFacts>(&key("held")).unwrap().version.to_string();
        let mut held = running("held");
        held["metadata"]["resourceVersion"] = version.into();
        test.answer::<SandboxFacts>(&held);
    };
    for (write, last) in [(another, Some("other is")), (deleted, Some("other is gone")), (known, None)] {
        let is_held = |change: &Change<SandboxFacts>| {
            change.after.as_ref().is_some_and(|seen| &*seen.key.name == "held")
        };
        let held = Held::at(Cache::builder(), is_held);
        held.test.show::<SandboxFacts>(&running("other"));
        let (returned, returns) = channel();
        thread::scope(|scope| {
            scope.spawn(|| held.test.show::<SandboxFacts>(&running("held")));
            held.entered.recv_timeout(PATIENCE).unwrap();
            scope.spawn(|| {
                write(&held.test);
                returned.send(held.told.lock().clone()).unwrap();
            });
            let early = returns.recv_timeout(MOMENT);
            held.go.send(()).unwrap();
            assert!(early.is_err(), "it returned before handlers were told: {early:?}");
            let expected: Vec<_> = ["other is", "held is"].into_iter().chain(last).collect();
            assert_eq!(returns.recv_timeout(PATIENCE).unwrap(), expected);
        });
    }
}

#[test]
fn a_version_that_arrives_during_the_first_look_of_a_wait_is_not_missed() {
    let test = TestCache::built(Cache::builder());
    let seen = test.show::<SandboxFacts>(&running("s"));
    let ((look, looks), (wrote, written)) = (channel(), channel::<()>());
    let mut is_first = true;
    let predicate = move |seen: &Seen<SandboxFacts>| {
        if std::mem::take(&mut is_first) {
            look.send(()).unwrap();
            // Writers wait for this look, so there is nothing to come.
            let _ = written.recv_timeout(MOMENT);
        }
        Check::holds(seen.labels.get("x").is_some())
    };
    let wait = test.wait(&seen.key, &seen.uid, Action::Ready, predicate);
    thread::scope(|scope| {
        let test = &test;
        scope.spawn(move || {
            looks.recv_timeout(PATIENCE).unwrap();
            test.show::<SandboxFacts>(&with_labels(json!({"x": "1"})));
            test.show::<SandboxFacts>(&running("s"));
            let _ = wrote.send(());
        });
        let ended = runtime().block_on(wait.within(Duration::from_secs(5)));
        assert!(ended.is_ok(), "the state that lasted for one version was missed: {ended:?}");
    });
}

#[test]
fn a_wait_that_begins_among_writes_is_asked_about_every_version_from_its_first_on() {
    let told = Arc::<Mutex<Vec<u64>>>::default();
    let log = Arc::clone(&told);
    let builder = Cache::builder().on(move |change: &Change<SandboxFacts>| {
        log.lock().extend(change.after.iter().map(|seen| seen.version.get()));
        // Between a version in the cache and the waits that are told of it there is time.
        thread::yield_now();
    });
    let test = TestCache::built(builder);
    let seen = test.show::<SandboxFacts>(&running("s"));
    let is_over = AtomicBool::new(false);
    let begin_waits = || {
        let (runtime, mut all) = (runtime(), Vec::new());
        while !is_over.load(Ordering::Acquire) {
            let asked = Arc::<Mutex<Vec<u64>>>::default();
            let log = Arc::clone(&asked);
            let wait = test.wait(&seen.key, &seen.uid, Action::Ready, move |seen: &Seen<SandboxFacts>| {
                log.lock().push(seen.version.get());
                Check::holds(log.lock().len() == 2)
            });
            let _ = runtime.block_on(wait.within(MOMENT));
            all.push(std::mem::take(&mut *asked.lock()));
        }
        all
    };
    let write = || {
        for _ in 0..2000 {
            let version = test.next_version();
            test.answered(&Arc::new(Seen { version, ..Seen::clone(&seen) }));
        }
    };
    let asked: Vec<_> = thread::scope(|scope| {
        let waits = [scope.spawn(begin_waits), scope.spawn(begin_waits)];
        let writers = [scope.spawn(write), scope.spawn(write)];
        for writer in writers {
            writer.join().unwrap();
        }
        is_over.store(true, Ordering::Release);
        waits.into_iter().flat_map(|wait| wait.join().unwrap()).collect()
    });
    // Of two writers one may come too late with its version: what counts is what was told.
    let told = told.lock();
    for asked in &asked {
        let from = told.iter().position(|version| version == &asked[0]).unwrap();
        assert_eq!(
            told[from..].iter().take(asked.len()).collect::<Vec<_>>(),
            asked.iter().collect::<Vec<_>>()
        );
    }
    assert!(asked.iter().filter(|asked| asked.len() > 1).count() > 1, "no wait began among the writes");
}

#[test]
fn an_end_that_is_told_late_does_not_end_a_wait_for_what_has_come_back() {
    let of_team = |team: &str, x: bool| {
        with_labels(if x { json!({"team": team, "x": "1"}) } else { json!({ "team": team }) })
    };
    let held = Held::at(Cache::builder().selector("team=a"), |change| change.after.is_none());
    let test = &held.test;
    let seen = test.show::<SandboxFacts>(&of_team("a", false));
    let back = test.next_version();
    let mut returned = of_team("a", false);
    returned["metadata"]["resourceVersion"] = "9".into();
    assert!(back.get() < 9);
    thread::scope(|scope| {
        scope.spawn(|| test.show::<SandboxFacts>(&of_team("b", false)));
        held.entered.recv_timeout(PATIENCE).unwrap();
        scope.spawn(|| test.show::<SandboxFacts>(&returned));
        until("it is back", || test.get::<SandboxFacts>(&key("s")).is_some());
        let wait = labelled(test, &seen, Action::Ready, "x").within(PATIENCE);
        let wait = scope.spawn(|| runtime().block_on(wait));
        until("the wait", || test.waiting::<SandboxFacts>() == 1);
        held.go.send(()).unwrap();
        until("all are told", || held.told.lock().len() == 3);
        let mut done = of_team("a", true);
        done["metadata"]["resourceVersion"] = "10".into();
        test.show::<SandboxFacts>(&done);
        let ended = wait.join().unwrap().map(|seen| seen.version.get());
        assert_eq!(ended, Ok::<_, WaitError>(10));
    });
}
