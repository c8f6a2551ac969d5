//! A pool that scales by itself, on hollow pods: 800 that wait and are not needed go; then 500 are asked for
//! at once and get theirs. What the pool wants, has and gives is written down every second.

use std::time::Duration;

use futures_util::future::join_all;
use sandgate_benches::record::Record;
use sandgate_tests::cluster::{Manager, api_request, new_sandbox};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::Common;
use crate::plot::{self, Line};
use crate::site::{CLUSTER, Site, TEMPLATE};

const POOL: &str = "burst";
/// The longest that a part may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// What is written down, and as what: of the pool's spec, its status, and the bench's own count.
const SEEN: [(&str, &str); 4] = [
    ("wanted", "/spec/replicas"),
    ("idle", "/status/idleReplicas"),
    ("running", "/status/runningReplicas"),
    ("waiting", "/status/pendingRequests"),
];

pub(crate) async fn run(common: &Common, record: &mut Record) {
    let site = Site::start().await;
    let manager = site.manager().await;
    let key = site.place.cluster.api_key("bench").await;
    let idle = common.size(800);
    let demand = idle * 5 / 8;
    site.place.envs.create(&env(idle)).await;
    site.levels(POOL, idle, 0).await;
    let began = Instant::now();
    let mut rows: Vec<(f64, Vec<f64>)> = Vec::new();

    // It scales from now on.
    site.place.envs.patch(POOL, &json!({ "spec": { "autoscaling": groups(true, idle) } })).await;
    follow(&site, began, &mut rows, |pool| {
        pool["spec"]["replicas"] == 0 && pool["status"]["idleReplicas"] == 0
    })
    .await;
    let drained = began.elapsed();
    println!("{idle} idle pods went in {:.0} s (wanted: 1800 at most)", drained.as_secs_f64());
    record.add("drain, s", POOL, idle as usize, "", 0, drained.as_secs_f64());

    let asked = Instant::now();
    let creates = creates(&manager, &key, demand);
    let seen = follow(&site, began, &mut rows, |pool| pool["status"]["runningReplicas"] == demand);
    let (mut times, ()) = tokio::join!(creates, seen);
    let served = asked.elapsed();
    times.sort_by(f64::total_cmp);
    println!(
        "{demand} sandboxes from nothing in {:.0} s; the last create was answered after {:.0} s",
        served.as_secs_f64(),
        times.last().copied().unwrap_or_default()
    );
    record.add("grow, s", POOL, demand as usize, "", 0, served.as_secs_f64());

    let most = rows.iter().map(|(_, values)| values[0]).fold(0.0, f64::max);
    assert!(most <= f64::from(idle), "{most} wanted, above the ceiling of {idle}");
    for (at, (time, values)) in rows.iter().enumerate() {
        record.add("time, s", POOL, 0, "", at, *time);
        for ((what, _), value) in SEEN.iter().zip(values) {
            record.add(what, POOL, 0, "", at, *value);
        }
    }
    let Some(out) = &common.out else { return };
    let lines: Vec<Line> = SEEN
        .iter()
        .enumerate()
        .map(|(at, (name, _))| Line {
            name,
            points: rows.iter().map(|(time, values)| (*time, values[at])).collect(),
        })
        .collect();
    let title = format!("{idle} idle pods that nobody needs, then {demand} sandboxes at once");
    let plot = out.with_extension("svg");
    if let Err(error) = std::fs::write(&plot, plot::draw(&title, &lines)) {
        eprintln!("{}: {error}", plot.display());
    }
}

/// Looks every second until it is so.
async fn follow(site: &Site, began: Instant, rows: &mut Vec<(f64, Vec<f64>)>, is: impl Fn(&Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let pool = site.place.pools.get(POOL).await.expect("the pool");
        let number = |path: &str| pool.pointer(path).and_then(Value::as_f64).unwrap_or_default();
        let values = SEEN.iter().map(|(_, path)| number(path)).collect();
        rows.push((began.elapsed().as_secs_f64(), values));
        if is(&pool) {
            return;
        }
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {pool:#}");
        sleep(Duration::from_secs(1)).await;
    }
}

/// Asks for so many at once, again and again where there is no room: how long each took, in seconds.
async fn creates(manager: &Manager, key: &str, count: u32) -> Vec<f64> {
    let one = async || {
        let began = Instant::now();
        let body = new_sandbox(POOL, &json!({ "secure": false, "timeout": 3600 }));
        loop {
            let reply =
                manager.send(api_request(key, "POST", "/sandboxes", Some(&body))).await.expect("an answer");
            if reply.status == 201 {
                return began.elapsed().as_secs_f64();
            }
            assert!(matches!(reply.status, 429 | 503 | 504), "{} {}", reply.status, reply.text());
            sleep(Duration::from_millis(200)).await;
        }
    };
    join_all((0..count).map(|_| one())).await
}

fn groups(enabled: bool, most: u32) -> Value {
    json!({ "groups": [{
        "name": "g", "enabled": enabled, "minReplicas": 0, "maxReplicas": most,
        "scaleUpPolicy": { "mode": "Aggressive", "cooldownSeconds": 5, "saturationCooldownSeconds": 5 },
        "scaleDownPolicy": { "idleTimeoutSeconds": 30, "stabilizationSeconds": 10, "protectionWindowSeconds": 10 },
    }] })
}

fn env(idle: u32) -> Value {
    json!({
        "apiVersion": "agents.navix.sh/v1alpha1",
        "kind": "SandboxEnv",
        "metadata": { "name": POOL },
        "spec": {
            "templateRef": { "name": TEMPLATE },
            "clusters": [{ "clusterID": CLUSTER, "members": [
                { "name": POOL, "spec": { "replicas": idle }, "config": { "scalingGroup": "g" } },
            ] }],
            "autoscaling": groups(false, idle),
        },
    })
}
