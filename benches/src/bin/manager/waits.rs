//! 10,000 waits at once: from an event to the one who waits for it.
//!
//! Each wait is for another sandbox. Events come as a watch brings them, one after the other, from a thread
//! of its own; the clock starts before the event is given to the cache and stops in the task that waited.
//! *All for one* are as many waits for one sandbox, and one event. *Bare* are as many tasks that wait for a
//! channel each, woken at the same pace by the same thread: what the scheduler of this machine takes, without
//! a cache.

use std::time::{Duration, Instant};

use sandgate_benches::record::Record;
use sandgate_benches::rng::Rng;
use sandgate_benches::stats::{Spread, percentile};
use sandgate_cache::Cache;
use sandgate_follow::Sink as _;
use sandgate_objects::openkruise::resources::SandboxFacts;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::Common;
use crate::objects::{self, key, sandbox, uid};
use crate::pace::Pace;

/// Events a second.
const RATE: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let size = common.sandboxes(10_000);
    for round in 0..common.rounds(10) {
        let mut times = each_its_own(size).await;
        for percent in [50.0, 99.0, 100.0] {
            let measure = format!("wake-up, p{percent:.0}, µs");
            record.add(&measure, "cache", size, "each its own", round, percentile(&mut times, percent));
        }
        let mut times = bare(size).await;
        for percent in [50.0, 99.0, 100.0] {
            let measure = format!("wake-up, p{percent:.0}, µs");
            record.add(&measure, "bare", size, "each its own", round, percentile(&mut times, percent));
        }
        let mut times = all_for_one(size).await;
        for percent in [50.0, 99.0, 100.0] {
            let measure = format!("wake-up, p{percent:.0}, µs");
            record.add(&measure, "cache", size, "all for one", round, percentile(&mut times, percent));
        }
    }
    let spread = Spread::of(&record.rounds("wake-up, p99, µs", "cache", size, "each its own"));
    let bare = Spread::of(&record.rounds("wake-up, p99, µs", "bare", size, "each its own"));
    let all = Spread::of(&record.rounds("wake-up, p99, µs", "cache", size, "all for one"));
    println!("p99 of a wake-up among {size}: {spread} µs (wanted: 2000); without a cache {bare} µs");
    println!("p99 of {size} wake-ups by one event: {all} µs");
}

/// Starts a wait for each of these sandboxes; returns when all of them wait.
async fn start(cache: &Cache, of: impl Iterator<Item = usize>) -> JoinSet<(usize, Instant)> {
    let mut waits = JoinSet::new();
    let (waiting, mut begun) = mpsc::unbounded_channel();
    for number in of {
        let (cache, waiting) = (cache.clone(), waiting.clone());
        waits.spawn(async move {
            let wait = cache.ready(&key(number), &uid(number)).within(PATIENCE);
            let mut wait = std::pin::pin!(wait);
            // The first poll is what makes it wait.
            let first = std::future::poll_fn(|context| {
                std::task::Poll::Ready(wait.as_mut().poll(context).is_pending())
            });
            assert!(first.await, "the sandbox is not ready yet");
            let _open = waiting.send(());
            drop(waiting);
            wait.await.expect("the sandbox becomes ready");
            (number, Instant::now())
        });
    }
    drop(waiting);
    while begun.recv().await.is_some() {}
    waits
}

async fn each_its_own(size: usize) -> Vec<f64> {
    // Those that are claimed: one that waits in a pool does not run.
    let mut order: Vec<usize> = (0..).filter(|number| number % 10 != 0).take(size).collect();
    let count = order.last().map_or(0, |last| last + 1);
    let cache = objects::cache(count, false);
    let waits = start(&cache, order.iter().copied()).await;
    Rng::new(3).shuffle(&mut order);
    let mut feed = cache.feed::<SandboxFacts>();
    // What the API server would do, beforehand.
    let events = order.into_iter().enumerate();
    let events: Vec<_> = events
        .map(|(event, number)| (number, sandbox(number, count + 2 + event, true).to_string()))
        .collect();
    let sent = std::thread::spawn(move || {
        let mut sent = vec![Instant::now(); count];
        let mut pace = Pace::of(RATE);
        for (number, bytes) in events {
            let (_, object) = feed.decode(bytes.as_bytes()).expect("a sandbox");
            pace.wait();
            sent[number] = Instant::now();
            feed.apply(object).expect("a sandbox");
        }
        sent
    });
    let woken = waits.join_all().await;
    let sent = sent.join().expect("the feeder");
    woken.into_iter().map(|(number, at)| micros(sent[number], at)).collect()
}

/// The same without a cache: a channel for each task, and the events decoded for nothing.
async fn bare(size: usize) -> Vec<f64> {
    let mut waits = JoinSet::new();
    let mut senders = Vec::new();
    for number in 0..size {
        let (sender, receiver) = oneshot::channel::<()>();
        senders.push(sender);
        waits.spawn(async move {
            receiver.await.expect("an event");
            (number, Instant::now())
        });
    }
    let cache = objects::cache(1, false);
    let feed = cache.feed::<SandboxFacts>();
    let bytes = sandbox(1, 2, true).to_string();
    let sent = std::thread::spawn(move || {
        let mut pace = Pace::of(RATE);
        let send = |sender: oneshot::Sender<()>| {
            let _decoded = feed.decode(bytes.as_bytes()).expect("a sandbox");
            pace.wait();
            let at = Instant::now();
            sender.send(()).expect("a task waits");
            at
        };
        senders.into_iter().map(send).collect::<Vec<_>>()
    });
    let woken = waits.join_all().await;
    let sent = sent.join().expect("the feeder");
    woken.into_iter().map(|(number, at)| micros(sent[number], at)).collect()
}

async fn all_for_one(size: usize) -> Vec<f64> {
    let cache = objects::cache(10, false);
    let waits = start(&cache, std::iter::repeat_n(1, size)).await;
    let mut feed = cache.feed::<SandboxFacts>();
    let bytes = sandbox(1, 1000, true).to_string();
    let (_, object) = feed.decode(bytes.as_bytes()).expect("a sandbox");
    let sent = Instant::now();
    feed.apply(object).expect("a sandbox");
    waits.join_all().await.into_iter().map(|(_, at)| micros(sent, at)).collect()
}

fn micros(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() * 1e6
}
