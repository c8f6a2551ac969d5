//! Passes over executors that take their time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use sandgate_executor_wire::Task;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::fixture::{Executor, counts};
use crate::tasks::{
    BatchTasks, ExecutorError, Executors, FromTemplate, Intent, TaskMetrics, TaskPod, TaskSource, Tasks,
    WhenCompleted,
};
use crate::{Category, Key, Leadership, ManualClock, Term};

/// Executors that all take the same time.
#[derive(Default)]
struct Slow {
    takes: Duration,
    at_once: AtomicUsize,
    most: AtomicUsize,
    asked: AtomicUsize,
    executors: Mutex<std::collections::BTreeMap<String, Executor>>,
}

impl Slow {
    async fn answer(&self, ip: &str, set: Option<&[Task]>) -> Result<Vec<Task>, ExecutorError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let at_once = self.at_once.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(at_once, Ordering::Relaxed);
        sleep(self.takes).await;
        self.at_once.fetch_sub(1, Ordering::Relaxed);
        let mut executors = self.executors.lock();
        let executor = executors.entry(ip.to_owned()).or_default();
        if let Some(set) = set {
            executor.set(set);
        }
        Ok(executor.list())
    }
}

impl Executors for Arc<Slow> {
    fn tasks<'a>(&'a self, ip: &'a str) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        self.answer(ip, None).boxed()
    }

    fn set<'a>(&'a self, ip: &'a str, tasks: &'a [Task]) -> BoxFuture<'a, Result<Vec<Task>, ExecutorError>> {
        self.answer(ip, Some(tasks)).boxed()
    }
}

struct Site {
    slow: Arc<Slow>,
    tasks: Tasks,
    tenure: crate::Tenure,
    clock: Arc<ManualClock>,
    pods: Vec<TaskPod>,
    template: Value,
}

fn key() -> Key {
    Key::new("n", "bs")
}

impl Site {
    fn new(pods: usize, takes: Duration) -> Self {
        let slow = Arc::new(Slow { takes, ..Slow::default() });
        let clock = Arc::new(ManualClock::new(Timestamp::from_second(1_000_000).unwrap()));
        let (tenure, leadership) = Leadership::new();
        tenure.lead(Term(1), Instant::now() + Duration::from_secs(3600));
        let strategy = Box::new(FromTemplate);
        let executors = Arc::new(Arc::clone(&slow));
        let tasks = Tasks::new(strategy, executors, leadership, clock.clone(), TaskMetrics::default());
        let pod = |index: usize| TaskPod {
            uid: format!("uid{index}").into(),
            name: format!("p{index}").into(),
            index: Some(index),
            ip: Some(format!("ip{index}").into()),
            has_ended: false,
            is_leaving: false,
            is_deleting: false,
        };
        let template = json!({"spec": {"process": {"command": ["true"]}}});
        Self { slow, tasks, tenure, clock, pods: (0..pods).map(pod).collect(), template }
    }

    async fn pass_as(&self, intent: Intent, uid: &str) -> Result<crate::tasks::Report, crate::Failed> {
        let source = TaskSource {
            batch: "bs",
            replicas: self.pods.len(),
            template: Some(&self.template),
            patches: &[],
        };
        let batch = BatchTasks {
            key: &key(),
            uid: &uid.into(),
            source,
            pods: &self.pods,
            is_whole: true,
            intent,
            when_completed: WhenCompleted::Retain,
            done: None,
        };
        self.tasks.pass(&batch).await
    }

    async fn pass(&self) -> crate::tasks::Report {
        self.pass_as(Intent::Run, "u").await.unwrap()
    }

    fn begin(&self) {
        self.tasks.begin(&key(), &"u".into());
    }
}

#[tokio::test(start_paused = true)]
async fn a_pass_asks_at_most_ten_executors_at_a_time() {
    let site = Site::new(64, Duration::from_millis(10));
    site.begin();
    assert_eq!(counts(&site.pass().await), [0, 64, 0, 0, 0]);
    assert_eq!((site.slow.most.load(Ordering::Relaxed), site.slow.asked.load(Ordering::Relaxed)), (10, 128));
}

#[tokio::test(start_paused = true)]
async fn an_executor_has_three_seconds_for_an_answer() {
    let site = Site::new(1, Duration::from_secs(60));
    site.begin();
    let began = Instant::now();
    let report = site.pass().await;
    assert_eq!((began.elapsed(), counts(&report)), (Duration::from_secs(3), [1, 0, 0, 0, 0]));
    assert!(report.trouble.unwrap().contains("no answer within 3 s"));
}

#[tokio::test(start_paused = true)]
async fn a_pass_over_many_silent_executors_ends_in_time_and_the_next_one_goes_on() {
    let site = Site::new(200, Duration::from_secs(60));
    site.begin();
    let began = Instant::now();
    site.pass().await;
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    for _ in 0..6 {
        site.clock.advance(SignedDuration::from_millis(1));
        site.pass().await;
    }
    // Each was asked before any was asked twice.
    let asked = site.slow.asked.load(Ordering::Relaxed);
    assert!(asked >= 200, "{asked}");
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_is_cut_off_is_remembered_and_nothing_is_started_twice() {
    let site = Site::new(3, Duration::from_secs(1));
    site.begin();
    for cut in [500, 1500, 1700, 2500] {
        let cut = tokio::time::timeout(Duration::from_millis(cut), site.pass()).await;
        site.clock.advance(SignedDuration::from_secs(5));
        drop(cut);
    }
    assert_eq!(counts(&site.pass().await), [0, 3, 0, 0, 0]);
    for (ip, executor) in &*site.slow.executors.lock() {
        let index = &ip[2..];
        assert_eq!(executor.starts.iter().collect::<Vec<_>>(), [(&format!("bs-{index}"), &1)]);
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_by_a_process_that_does_not_lead() {
    let site = Site::new(2, Duration::from_millis(10));
    site.begin();
    site.tenure.end();
    let failed = site.pass_as(Intent::Run, "u").await.unwrap_err();
    assert_eq!((failed.category, site.slow.asked.load(Ordering::Relaxed)), (Category::NotLeading, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pass_during_which_the_leadership_ends_sends_nothing_after_it() {
    let site = Site::new(64, Duration::from_secs(1));
    site.begin();
    let end = async {
        sleep(Duration::from_millis(1500)).await;
        site.tenure.end();
    };
    let (failed, ()) = tokio::join!(site.pass_as(Intent::Run, "u"), end);
    assert_eq!(failed.unwrap_err().category, Category::NotLeading);
    assert_eq!(site.slow.asked.load(Ordering::Relaxed), 20);
}

#[tokio::test(start_paused = true)]
async fn a_later_leadership_and_another_batch_of_the_name_ask_all_pods_first() {
    let site = Site::new(1, Duration::ZERO);
    site.begin();
    assert_eq!(counts(&site.pass().await), [0, 1, 0, 0, 0]);
    // Somebody else leads meanwhile, and stops the task.
    site.slow.executors.lock().clear();
    site.tenure.lead(Term(3), Instant::now() + Duration::from_secs(3600));
    let report = site.pass().await;
    assert_eq!((counts(&report), report.retried), ([1, 0, 0, 0, 0], 0));
    site.clock.advance(SignedDuration::from_secs(4));
    assert_eq!(counts(&site.pass().await), [0, 1, 0, 0, 0]);
    site.slow.executors.lock().clear();
    assert_eq!(counts(&site.pass_as(Intent::Run, "another").await.unwrap()), [1, 0, 0, 0, 0]);
    site.tasks.forget(&key());
    assert_eq!(counts(&site.pass().await), [1, 0, 0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_template_without_a_process_is_reported_and_stops_nothing() {
    let mut site = Site::new(2, Duration::ZERO);
    site.begin();
    site.pass().await;
    site.template = json!({"spec": {}});
    site.clock.advance(SignedDuration::from_secs(4));
    let report = site.pass().await;
    assert_eq!(counts(&report), [0, 2, 0, 0, 0]);
    assert!(report.invalid.unwrap().to_string().contains("has no process"));
    // It can be deleted all the same.
    site.clock.advance(SignedDuration::from_secs(4));
    assert!(site.pass_as(Intent::Delete, "u").await.unwrap().all_released);
}
