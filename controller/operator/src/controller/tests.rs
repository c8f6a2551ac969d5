use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ObjectReference;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::*;
use crate::{Metrics, Pace, Random, RecordedEvents, Tenure, Term};

/// Does what the name of the object says.
#[derive(Default)]
struct Actor {
    looks: Mutex<Vec<String>>,
    deadline: Mutex<Option<Instant>>,
    running: AtomicUsize,
    most: AtomicUsize,
}

struct Shared(Arc<Actor>);

impl Reconciler for Shared {
    const NAME: &'static str = "actor";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let running = self.0.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(running, Ordering::SeqCst);
        self.0.looks.lock().push(key.name.to_string());
        let looks = self.0.looks.lock().iter().filter(|name| **name == *key.name).count();
        let fail = |category| Failed { category, message: "because".to_owned(), source: None };
        let result = match &*key.name {
            "hang" => std::future::pending().await,
            "panic" if looks < 3 => panic!("as asked"),
            "slow" => {
                sleep(Duration::from_secs(3)).await;
                Ok(Again::Forget)
            }
            "refused" if looks < 5 => Err(fail(Category::Refused)),
            "doomed" if self.deadline(key).is_some() => Err(fail(Category::Invalid)),
            "conflict" if looks < 5 => Err(fail(Category::Conflict)),
            _ => Ok(Again::Forget),
        };
        self.0.running.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn deadline(&self, key: &Key) -> Option<Duration> {
        let deadline = self.0.deadline.lock().filter(|_| *key.name == *"doomed")?;
        Some(deadline.saturating_duration_since(Instant::now())).filter(|wait| !wait.is_zero())
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        Some(ObjectReference { name: Some(key.name.to_string()), ..ObjectReference::default() })
    }
}

struct Fixture {
    actor: Arc<Actor>,
    queue: Queue,
    tenure: Tenure,
    leadership: Leadership,
    events: Arc<RecordedEvents>,
    registry: Registry,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Fixture {
    fn new(workers: usize) -> Self {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry).controller("actor");
        let (tenure, leadership) = Leadership::new();
        let (actor, events) = (Arc::new(Actor::default()), Arc::new(RecordedEvents::default()));
        let (queue, stop) = (Queue::new(Pace::default(), Random::seeded(1)), CancellationToken::new());
        let limits = Limits { workers, ..Limits::default() };
        let reconciler = Shared(Arc::clone(&actor));
        let sink: Arc<dyn Events> = events.clone();
        let workers = Workers::new(reconciler, queue.clone(), leadership.clone(), sink, metrics, limits);
        let task = tokio::spawn(workers.run(stop.clone()));
        Self { actor, queue, tenure, leadership, events, registry, stop, task }
    }

    fn leading(workers: usize) -> Self {
        let fixture = Self::new(workers);
        fixture.lead();
        fixture
    }

    fn lead(&self) {
        self.tenure.lead(Term(1), Instant::now() + Duration::from_secs(100_000));
    }

    fn add(&self, name: &str) {
        self.queue.add(Key::new("ns", name));
    }

    async fn empty(&self) {
        while !self.queue.is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    }

    fn metric(&self, labels: &str) -> Option<u64> {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let start = format!("{labels} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map(|value| value.parse().unwrap())
    }

    fn outcome(&self, outcome: &str) -> Option<u64> {
        let name = "sandgate_operator_reconciles_total";
        self.metric(&format!("{name}{{controller=\"actor\",outcome=\"{outcome}\"}}"))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_without_leadership_and_everything_once_it_is_there() {
    let fixture = Fixture::new(2);
    fixture.add("a");
    fixture.add("b");
    sleep(Duration::from_secs(100)).await;
    assert!(fixture.actor.looks.lock().is_empty());
    fixture.lead();
    fixture.empty().await;
    assert_eq!(*fixture.actor.looks.lock(), ["a", "b"]);
    assert_eq!(fixture.outcome("ok"), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_lost_leadership_begins_nothing_more_and_lets_the_rest_end() {
    let fixture = Fixture::leading(1);
    fixture.add("slow");
    fixture.add("next");
    sleep(Duration::from_secs(1)).await;
    fixture.tenure.end();
    assert!(fixture.leadership.check().is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(*fixture.actor.looks.lock(), ["slow"]);
    assert_eq!(fixture.outcome("ok"), Some(1));
    fixture.lead();
    fixture.empty().await;
    assert_eq!(*fixture.actor.looks.lock(), ["slow", "next"]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_end_after_a_loss_is_cancelled_counted_and_tried_again() {
    let fixture = Fixture::leading(1);
    fixture.add("hang");
    sleep(Duration::from_secs(1)).await;
    fixture.tenure.end();
    sleep(Duration::from_secs(4)).await;
    assert_eq!(fixture.outcome("Cancelled"), None);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(fixture.outcome("Cancelled"), Some(1));
    fixture.lead();
    sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.actor.looks.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs_and_no_longer_than_the_grace() {
    let fixture = Fixture::leading(3);
    fixture.add("slow");
    fixture.add("hang");
    sleep(Duration::from_secs(1)).await;
    let stopped = Instant::now();
    fixture.stop.cancel();
    fixture.add("late");
    fixture.task.await.unwrap();
    assert_eq!(stopped.elapsed().as_secs(), 5);
    assert_eq!(*fixture.actor.looks.lock(), ["slow", "hang"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_queue_ends_the_workers() {
    let fixture = Fixture::leading(3);
    fixture.queue.stop();
    timeout(Duration::from_secs(1), fixture.task).await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_tried_again_by_the_same_worker() {
    let fixture = Fixture::leading(1);
    fixture.add("panic");
    fixture.empty().await;
    assert_eq!((fixture.outcome("Panicked"), fixture.outcome("ok")), (Some(2), Some(1)));
    let retries = fixture.metric("sandgate_operator_retries_total{controller=\"actor\"}");
    assert_eq!(retries, Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_run_without_end_is_cut_off() {
    let fixture = Fixture::leading(1);
    fixture.add("hang");
    sleep(Duration::from_secs(61)).await;
    assert_eq!(fixture.outcome("TimedOut"), Some(1));
    assert_eq!(fixture.actor.looks.lock().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_on_the_object_at_the_first_second_and_fourth_time() {
    let fixture = Fixture::leading(1);
    fixture.add("refused");
    fixture.add("conflict");
    fixture.empty().await;
    let events = fixture.events.take();
    assert_eq!(events.len(), 3);
    assert!(events.iter().all(|event| event.reason == "Refused" && event.note == "because"));
    assert_eq!(events[0].on.name.as_deref(), Some("refused"));
    assert_eq!((fixture.outcome("Refused"), fixture.outcome("Conflict")), (Some(4), Some(4)));
}

#[tokio::test(start_paused = true)]
async fn a_back_off_ends_when_the_deadline_of_the_object_comes() {
    let fixture = Fixture::leading(1);
    let deadline = Instant::now() + Duration::from_secs(100);
    *fixture.actor.deadline.lock() = Some(deadline);
    fixture.add("doomed");
    fixture.empty().await;
    assert!(deadline.elapsed() < Duration::from_millis(10), "{:?}", deadline.elapsed());
    assert!(fixture.actor.looks.lock().len() > 10, "until then it backed off");
}

#[tokio::test(start_paused = true)]
async fn as_many_run_at_a_time_as_there_are_workers() {
    let fixture = Fixture::leading(3);
    for number in 0..10 {
        fixture.queue.add(Key::new(&number.to_string(), "slow"));
    }
    fixture.empty().await;
    assert_eq!(fixture.actor.most.load(Ordering::SeqCst), 3);
}

#[test]
fn causes_are_told_once() {
    let cause = std::io::Error::other("disk full");
    let failed = Failed {
        category: Category::Unanswered,
        message: "not written".to_owned(),
        source: Some(Box::new(cause)),
    };
    assert_eq!(with_causes(&failed), "not written: disk full");
}
