use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandgate_cache::{Change, Key, Seen};
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{EnvPod, decode};
use sandgate_routes::Version;
use serde_json::json;

use super::world::*;
use crate::router::{EnvRouter, FEW, IdleCounts, Loads};
use crate::scheduler::{Candidate, Pods, Scheduler, Settings, Settled, SwapError};

/// Pods that nobody gets: whoever asks for one waits.
struct Nobody;

impl Pods for Nobody {
    type Request = ();
    type Pod = ();
    type Claimed = ();
    type Refusal = ();

    fn idle(&self, _: &Key, _: &mut dyn FnMut(&Key, &Version) -> bool) -> Option<Candidate<()>> {
        None
    }

    async fn swap(&self, _: &Candidate<()>, (): &()) -> Result<(), SwapError<()>> {
        Err(SwapError::Gone)
    }

    async fn settle(&self, _: &Candidate<()>, (): &()) -> Settled<()> {
        Settled::NotOurs
    }

    async fn give_back(&self, (): ()) {}

    fn demand(&self, _: &Key, _: usize) {}
}

/// A pod of a pool, idle or running.
fn pod(pool: &str, name: &str, is_idle: bool) -> Arc<Seen<EnvPod>> {
    let phase = if is_idle { names::PHASE_IDLE } else { "running" };
    let labels = json!({(names::LABEL_POOL): pool, (names::LABEL_PHASE): phase});
    let object = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1", "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "idle:1"}]},
        "status": {
            "phase": "Running", "podIP": "10.0.0.7", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "image": "idle:1", "containerID": "c", "ready": true,
                "restartCount": 0, "imageID": "i", "state": {"running": {}}}],
        },
    });
    let object: EnvPod = decode(object.to_string().as_bytes()).unwrap();
    assert_eq!(object.is_claimable(), is_idle);
    Arc::new(Seen { key: Key::new("ns", name), uid: name.into(), version: "1".parse().unwrap(), object })
}

/// Runs a test with lines that some claims stand in, and with idle pods.
fn with_loads(test: impl FnOnce(&Loads<'_, Nobody>)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (lines, idle) = (Scheduler::new(Nobody, Settings::default()), IdleCounts::default());
        for number in 0..1000 {
            let pool = format!("env-{number}-0");
            let after = Some(pod(&pool, &pool, true));
            idle.changed(&Change { before: None, after });
            let (lines, pool) = (lines.clone(), Key::new("ns", &format!("env-{number}-1")));
            tokio::spawn(async move {
                let _ = lines.claim(&pool, (), tokio::time::Instant::now() + Duration::from_secs(600)).await;
            });
        }
        tokio::task::yield_now().await;
        assert_eq!((lines.queued("ns", "env-7-1"), idle.of("ns", "env-7-0")), (1, 1));
        test(&Loads { idle: &idle, lines: &lines });
    });
}

#[test]
fn idle_pods_are_counted_by_pool_as_they_come_and_go() {
    let counts = IdleCounts::default();
    let is = || (counts.of("ns", "p"), counts.of("ns", "q"), counts.of("other", "p"));
    let change = |before: Option<(&str, &str, bool)>, after: Option<(&str, &str, bool)>| {
        let seen = |of: Option<(&str, &str, bool)>| of.map(|(pool, name, is_idle)| pod(pool, name, is_idle));
        counts.changed(&Change { before: seen(before), after: seen(after) });
    };
    change(None, Some(("p", "1", true)));
    change(None, Some(("p", "2", true)));
    change(None, Some(("p", "3", false)));
    assert_eq!(is(), (2, 0, 0));
    change(Some(("p", "1", true)), Some(("p", "1", true)));
    assert_eq!(is(), (2, 0, 0), "it was counted before");
    change(Some(("p", "1", true)), Some(("p", "1", false)));
    change(Some(("p", "2", true)), Some(("q", "2", true)));
    assert_eq!(is(), (0, 1, 0));
    change(Some(("q", "2", true)), None);
    change(Some(("p", "1", false)), Some(("p", "1", true)));
    assert_eq!(is(), (1, 0, 0));
}

fn thousand(members: usize) -> EnvRouter {
    let router = router();
    for number in 0..1000 {
        let name = format!("env-{number}");
        let pools: Vec<Of> =
            (0..members).map(|pool| member(&format!("{name}-{pool}")).max(9).desired(3)).collect();
        tell(&router, &grouped(env(&name, number + 1, &pools), "g", Some(99)));
    }
    router
}

#[test]
fn a_decision_does_not_allocate() {
    let router = thousand(FEW);
    with_loads(|loads| {
        // The first read of a thread makes what its later reads use.
        black_box(router.route(&wish("env-1"), now(), loads));
        let counted = allocation_counter::measure(|| {
            for name in ["env-1", "env-500", "env-999"] {
                black_box(router.route(&wish(name), now(), loads));
            }
            black_box(router.route(&wish("nowhere"), now(), loads));
        });
        assert_eq!(counted.count_total, 0);
    });
}

#[test]
#[ignore = "measures: run it with --release --nocapture"]
fn how_long_a_decision_takes() {
    for members in [1, 4, FEW] {
        let router = thousand(members);
        let names: Vec<String> = (0..1000).map(|number| format!("env-{number}")).collect();
        with_loads(|loads| {
            let began = Instant::now();
            for _ in 0..1000 {
                for name in &names {
                    black_box(router.route(&wish(name), now(), loads));
                }
            }
            println!("{members} members: {:?} a decision", began.elapsed() / 1_000_000);
        });
    }
}
