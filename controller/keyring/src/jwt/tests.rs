//! When keys are fetched, on the paused clock, from an issuer that answers as it is told to.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

use super::waiters::{MAX_WAITING, PATIENCE};
use super::*;

/// A key set with these IDs.
pub(crate) fn key_set(ids: &[&str]) -> String {
    let key = |id| json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" });
    json!({ "keys": ids.iter().map(key).collect::<Vec<_>>() }).to_string()
}

const ISSUER: &str = "https://issuer.example";
const LEEWAY: Duration = Duration::from_secs(60);

/// The issuer, and when it was asked.
struct World {
    jwt: Jwt,
    keys: Mutex<JwtKeys>,
    issuer: Arc<ScriptedIssuer>,
}

struct ScriptedIssuer {
    /// What it answers; `None` is a failure.
    answer: Mutex<(String, Option<String>)>,
    begun: Mutex<VecDeque<Instant>>,
    arrived: Notify,
    /// How many fetches may end.
    may_end: Semaphore,
}

impl ScriptedIssuer {
    fn has(&self, ids: &[&str]) {
        *self.answer.lock() = (ISSUER.to_owned(), Some(key_set(ids)));
    }

    fn fails(&self) {
        self.answer.lock().1 = None;
    }

    fn count(&self) -> usize {
        self.begun.lock().len()
    }
}

impl World {
    fn with(timing: Timing) -> Arc<Self> {
        let issuer = Arc::new(ScriptedIssuer {
            answer: Mutex::new((ISSUER.to_owned(), None)),
            begun: Mutex::default(),
            arrived: Notify::new(),
            may_end: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let asked = Arc::clone(&issuer);
        let fetch: Fetch = Box::new(move || {
            let issuer = Arc::clone(&asked);
            Box::pin(async move {
                issuer.begun.lock().push_back(Instant::now());
                issuer.arrived.notify_one();
                // What it has when it is asked is what it answers, however late.
                let (name, answer) = issuer.answer.lock().clone();
                issuer.may_end.acquire().await.unwrap().forget();
                let what = "out of order";
                let url = ISSUER.to_owned();
                answer
                    .map(|keys| Fetched { issuer: name, keys: keys.into() })
                    .ok_or(OriginError::Json { url, what })
            })
        });
        let jwt = Jwt {
            fetch,
            timing,
            leeway: LEEWAY,
            waiters: Waiters::default(),
            status: SourceStatus::new(KeySource::TrafficJwt, vec![ISSUER.to_owned()]),
            failures: LogLimit::default(),
        };
        Arc::new(Self { jwt, keys: Mutex::new(JwtKeys::NotReady), issuer })
    }

    fn new() -> Arc<Self> {
        Self::with(Timing {
            refresh: Duration::from_secs(300),
            jitter: true,
            min_refetch: Duration::from_secs(5),
            retry_cap: RETRY_CAP,
        })
    }

    fn run(self: &Arc<Self>) -> JoinHandle<()> {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            world.jwt.run(|| world.keys.lock().clone(), |newer| *world.keys.lock() = newer).await;
        })
    }

    fn verifier(&self) -> Option<Arc<Verifier>> {
        match &*self.keys.lock() {
            JwtKeys::Ready(verifier) => Some(Arc::clone(verifier)),
            _ => None,
        }
    }

    fn ids(&self) -> Vec<String> {
        self.verifier().iter().flat_map(|verifier| verifier.keys().kids()).map(ToOwned::to_owned).collect()
    }

    /// Waits for newer keys; the counter goes up when the wait is over. `None`: it was refused.
    fn ask(&self) -> Option<Arc<AtomicUsize>> {
        let woken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&woken);
        let asked = self.jwt.newer_keys(Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }));
        asked.then_some(woken)
    }
}

fn woken(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

/// Lets every task that can run do so, without a step of the clock.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_after_a_second_that_doubles_to_thirty_until_there_are_keys() {
    let world = World::new();
    let start = Instant::now();
    let task = world.run();
    sleep(Duration::from_millis(91_500)).await;
    let begun: Vec<u64> = world.issuer.begun.lock().iter().map(|at| (*at - start).as_secs()).collect();
    assert_eq!(begun, [0, 1, 3, 7, 15, 31, 61, 91]);
    let status = world.jwt.status.read();
    assert_eq!((status.failures, status.keys, status.loaded_at), (8, 0, None));
    assert!(status.error.is_some_and(|error| error.ends_with("out of order")));
    assert_eq!(status.age.as_secs(), 91);
    world.issuer.has(&["a"]);
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.ids(), ["a"]);
    let verifier = world.verifier().unwrap();
    assert_eq!((verifier.issuer(), verifier.leeway()), (ISSUER, LEEWAY));
    let status = world.jwt.status.read();
    assert_eq!(
        (status.keys, status.key_ids, status.issuer),
        (1, vec!["a".to_owned()], Some(ISSUER.to_owned()))
    );
    assert_eq!((status.error, status.reads), (None, 1));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn keys_are_fetched_again_on_the_timer_give_or_take_a_tenth() {
    let world = World::new();
    world.issuer.has(&["a"]);
    let task = world.run();
    sleep(Duration::from_secs(20 * 330)).await;
    task.abort();
    let begun = world.issuer.begun.lock();
    let waits: Vec<Duration> = begun.iter().zip(begun.iter().skip(1)).map(|(a, b)| *b - *a).collect();
    assert!(waits.len() >= 20);
    assert!(waits.iter().all(|wait| (270..=331).contains(&wait.as_secs())), "{waits:?}");
    assert!(waits.iter().any(|wait| wait.as_secs() != waits[0].as_secs()), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_good_keys_stay_whatever_the_issuer_does_and_equal_ones_are_the_same_value() {
    let world = World::new();
    world.issuer.has(&["a"]);
    let task = world.run();
    settle().await;
    let first = world.verifier().unwrap();
    for wrong in [None, Some("{"), Some(r#"{"keys":[]}"#), Some("[]")] {
        world.issuer.answer.lock().1 = wrong.map(ToOwned::to_owned);
        sleep(Duration::from_secs(400)).await;
        assert!(Arc::ptr_eq(&first, &world.verifier().unwrap()));
        let status = world.jwt.status.read();
        assert!(status.error.is_some() && status.age.as_secs() >= 400 && status.keys == 1);
    }
    world.issuer.has(&["a"]);
    sleep(Duration::from_secs(31)).await;
    assert!(Arc::ptr_eq(&first, &world.verifier().unwrap()), "caches of verified tokens stay");
    assert_eq!(world.jwt.status.read().error, None);
    assert!(world.jwt.status.read().age.as_secs() <= 31);
    world.issuer.has(&["a", "b"]);
    sleep(Duration::from_secs(331)).await;
    assert_eq!(world.ids(), ["a", "b"]);
    world.issuer.answer.lock().0 = "https://other.example".to_owned();
    sleep(Duration::from_secs(331)).await;
    assert_eq!(world.verifier().unwrap().issuer(), "https://other.example");
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_looked_for_once_for_all_who_wait_and_seldom() {
    let world = World::new();
    world.issuer.has(&["a"]);
    let task = world.run();
    settle().await;
    advance(Duration::from_secs(60)).await;
    world.issuer.has(&["a", "b"]);
    let waits: Vec<_> = (0..100).map(|_| world.ask().unwrap()).collect();
    settle().await;
    assert!(waits.iter().all(|wait| woken(wait) == 1));
    assert_eq!((world.issuer.count(), world.ids()), (2, vec!["a".to_owned(), "b".to_owned()]));
    // The news allow another fetch at once, which brings none; from then on there is one in five seconds.
    let begun = Instant::now();
    for _ in 0..10 {
        let wait = world.ask().unwrap();
        while woken(&wait) == 0 {
            sleep(Duration::from_millis(100)).await;
        }
    }
    assert_eq!(world.issuer.count(), 12);
    assert!(begun.elapsed() >= Duration::from_secs(45), "{:?}", begun.elapsed());
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn who_asks_during_a_fetch_waits_for_the_next_which_follows_news_at_once() {
    let world = World::new();
    world.issuer.has(&["a"]);
    let task = world.run();
    settle().await;
    advance(Duration::from_secs(60)).await;
    world.issuer.has(&["a", "b"]);
    world.issuer.may_end.forget_permits(Semaphore::MAX_PERMITS);
    let first = world.ask().unwrap();
    settle().await;
    // The issuer has answered, and the answer is on its way, when the next key is there.
    world.issuer.has(&["a", "b", "c"]);
    let late = world.ask().unwrap();
    world.issuer.may_end.add_permits(1);
    settle().await;
    assert_eq!((woken(&first), woken(&late)), (1, 0));
    assert_eq!(world.ids(), ["a", "b"]);
    world.issuer.may_end.add_permits(1);
    settle().await;
    assert_eq!((woken(&late), world.ids().len(), world.issuer.count()), (1, 3, 3));
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_fetch_fails_and_when_the_thread_dies() {
    let world = World::new();
    assert!(world.ask().is_none(), "nobody fetches");
    world.issuer.has(&["a"]);
    let task = world.run();
    settle().await;
    advance(Duration::from_secs(60)).await;
    world.issuer.fails();
    let wait = world.ask().unwrap();
    settle().await;
    assert_eq!(woken(&wait), 1);
    let early = world.ask().unwrap();
    world.issuer.may_end.forget_permits(Semaphore::MAX_PERMITS);
    sleep(Duration::from_secs(6)).await;
    let late = world.ask().unwrap();
    assert_eq!((woken(&early), woken(&late)), (0, 0));
    task.abort();
    settle().await;
    assert_eq!((woken(&early), woken(&late)), (1, 1));
    assert!(world.ask().is_none());
    // A next life goes on from the keys that there are.
    world.issuer.may_end.add_permits(100);
    world.issuer.has(&["a", "b"]);
    let task = world.run();
    settle().await;
    assert_eq!(world.ids(), ["a", "b"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_fetch_that_is_far_off_and_no_more_than_there_is_room_for() {
    let world = World::with(Timing {
        refresh: Duration::from_secs(3600),
        jitter: false,
        min_refetch: Duration::from_secs(60),
        retry_cap: RETRY_CAP,
    });
    world.issuer.has(&["a"]);
    let task = world.run();
    settle().await;
    // The first fetch brought keys, so another is allowed; it brings none.
    let wait = world.ask().unwrap();
    settle().await;
    assert_eq!(woken(&wait), 1);
    assert!(world.ask().is_none());
    advance(Duration::from_secs(60) - PATIENCE).await;
    let waits: Vec<_> = (0..MAX_WAITING).map(|_| world.ask().unwrap()).collect();
    assert!(world.ask().is_none());
    sleep(PATIENCE + Duration::from_millis(10)).await;
    assert!(waits.iter().all(|wait| woken(wait) == 1));
    // Who comes during a fetch that brings nothing is not kept for a minute.
    world.issuer.may_end.forget_permits(Semaphore::MAX_PERMITS);
    advance(Duration::from_secs(60)).await;
    let (first, late) = (world.ask().unwrap(), {
        settle().await;
        world.ask().unwrap()
    });
    world.issuer.may_end.add_permits(1);
    settle().await;
    assert_eq!((woken(&first), woken(&late)), (1, 1));
    task.abort();
}
