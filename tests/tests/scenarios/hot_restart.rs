//! `sandgate run --hot-restart`: SIGHUP replaces Envoy, and nobody notices.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sandgate_tests::{
    Cli, Client, DEADLINE, Front, Load, Place, Request, Running, eventually, locations, refresh_request,
};
use serde_json::{Value, json};

use crate::cli::{address, get, one_sandbox};
use crate::support::ask;

const SERVES: &str = "the next Envoy serves";
const ENDED: &str = "the old Envoy has ended";

/// Ports that were free a moment ago: the next Envoy finds the sockets of the last one by them.
fn free_ports<const N: usize>() -> [u16; N] {
    let held: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port"));
    held.map(|listener| listener.local_addr().expect("a bound listener has an address").port())
}

/// A gateway that can be replaced, on an address of its own.
struct Standing {
    running: Running,
    gateway: SocketAddr,
    admin: SocketAddr,
    _place: Place,
}

impl Standing {
    async fn start(routes: &Path, config: &Path, drain_time: &str, more: &[&str]) -> Self {
        let (place, [port, admin]) = (Place::reserve(), free_ports());
        let (ip, port, admin_port) = (place.ip().to_string(), port.to_string(), admin.to_string());
        let mut options = vec!["run", "--hot-restart", "--concurrency", "2", "--drain-time", drain_time];
        options.extend(["--address", &ip, "--port", &port, "--admin-port", &admin_port]);
        options.extend(["--routes", text(routes), "--config", text(config)]);
        options.extend(more);
        let mut running = Running::start(&options);
        let gateway =
            running.printed("the address of the gateway", |output| address(output, "gateway")).await;
        Self { running, gateway, admin: ([127, 0, 0, 1], admin).into(), _place: place }
    }

    fn times_said(&self, words: &str) -> usize {
        self.running.stderr().matches(words).count()
    }

    async fn said(&self, words: &str, times: usize) {
        eventually(&format!("{words:?} is said {times} times"), DEADLINE, async || {
            (self.times_said(words) >= times).then_some(())
        })
        .await;
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// A gauge, while there is somebody to ask.
async fn gauge(admin: SocketAddr, name: &str) -> Option<u64> {
    let mut client = Client::http1(admin).await.ok()?;
    let stats = client.send(Request::get(&format!("/stats?format=json&filter=^{name}$"))).await.ok()?;
    let stats: Value = serde_json::from_slice(&stats.body).ok()?;
    stats["stats"].as_array()?.iter().find_map(|stat| stat["value"].as_u64())
}

/// Asks for the gauges until it is told to stop, and gives the highest values of each.
async fn highest(admin: SocketAddr, stop: Arc<AtomicBool>) -> (u64, u64) {
    let (mut ready, mut routes) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        ready = ready.max(gauge(admin, "sandgate.ready").await.unwrap_or_default());
        routes = routes.max(gauge(admin, "sandgate.routes").await.unwrap_or_default());
        tokio::task::yield_now().await;
    }
    (ready, routes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_is_replaced_twice_under_load_and_no_request_fails_and_no_gauge_is_doubled() {
    let (demo, folder, file) = one_sandbox().await;
    let [push_port] = free_ports();
    let config = folder.path().join("config.yaml");
    let settings = json!({ "gateway": {
        "pod-ranges": ["127.0.0.0/8"],
        "refresh": { "insecure": true, "address": "127.0.0.1", "port": push_port, "provider": "openkruise" },
    }});
    fs::write(&config, settings.to_string()).expect("write");
    let standing = Standing::start(&file, &config, "4", &[]).await;
    let push_port: SocketAddr = ([127, 0, 0, 1], push_port).into();
    let push = async |version: u32| {
        let message = json!({ "provider": "openkruise", "namespace": "team", "name": "pushed", "id": "team--pushed",
            "uid": "u", "ip": demo.ip(), "owner": "", "state": "running", "resourceVersion": version.to_string() });
        eventually("a push is acknowledged", DEADLINE, async || {
            let mut client = Client::http1(push_port).await.ok()?;
            let reply = client.send(refresh_request(&message)).await.ok()?;
            (reply.status == 204).then_some(())
        })
        .await;
    };
    let front = Front::to([standing.gateway]);
    let traffic = Load::new(&front).sandbox(&demo).http1(60).http2(40).websockets(3).start();
    traffic.more(50).await;
    let stop = Arc::new(AtomicBool::new(false));
    let gauges = tokio::spawn(highest(standing.admin, Arc::clone(&stop)));
    for restart in 1..=2 {
        let envoy = standing.running.children();
        standing.running.signal("HUP");
        standing.said(SERVES, restart).await;
        traffic.may_end(standing.gateway);
        traffic.more(50).await;
        standing.said(ENDED, restart).await;
        assert_ne!(standing.running.children(), envoy);
        // The port is the new one's, and what the old one alone has heard is not in its table.
        push(u32::try_from(restart).expect("few")).await;
        assert_eq!(get(standing.gateway, ask("team--pushed")).await.sandbox(), "demo");
        eventually("the new Envoy speaks for the gateway", DEADLINE, async || {
            (gauge(standing.admin, "sandgate.routes").await == Some(2)).then_some(())
        })
        .await;
        assert_eq!(gauge(standing.admin, "sandgate.ready").await, Some(1));
        traffic.more(50).await;
    }
    stop.store(true, Ordering::Relaxed);
    let (ready, routes) = gauges.await.expect("no panic");
    let outcome = traffic.finish().await;
    println!("two hot restarts {outcome}");
    outcome.assert_none_failed();
    assert!(outcome.websockets.left >= 3, "the WebSockets of the old Envoys were not ended: {outcome}");
    assert_eq!((ready, routes), (1, 2), "the highest values of sandgate.ready and sandgate.routes");
}

#[tokio::test]
async fn a_config_that_is_refused_changes_nothing_and_a_good_one_is_in_force_after_sighup() {
    let (_demo, folder, file) = one_sandbox().await;
    let config = folder.path().join("config.yaml");
    fs::write(&config, "filter: {}\n").expect("write");
    // A link, so that the module can be replaced as an upgrade does.
    let module = folder.path().join("libsandgate.so");
    symlink(locations::module(), &module).expect("link");
    let standing = Standing::start(&file, &config, "1", &["--module", text(&module)]).await;
    let envoy = standing.running.children();
    let refused = async |words: &str| {
        standing.running.signal("HUP");
        standing.said(words, 1).await;
        assert!(standing.running.stderr().contains("the gateway goes on as it was"));
        assert_eq!(get(standing.gateway, ask("default--demo")).await.sandbox(), "demo");
        assert_eq!(get(standing.admin, Request::get("/ready")).await.status, 200);
        assert_eq!(standing.running.children(), envoy);
    };
    fs::write(&config, "filter:\n  colour: blue\n").expect("write");
    refused("config.yaml:2:3").await;
    fs::write(&config, "filter: {}\n").expect("write");
    fs::remove_file(&module).expect("remove the link");
    fs::write(&module, "no module").expect("write");
    refused("Failed to load dynamic module").await;
    fs::remove_file(&module).expect("remove the file");
    symlink(locations::module(), &module).expect("link");
    fs::write(&config, "filter:\n  denied-ports: [8000]\n").expect("write");
    standing.running.signal("HUP");
    standing.said(SERVES, 1).await;
    assert_eq!(get(standing.gateway, ask("default--demo")).await.json()["reason"], "port_not_allowed");
}

#[tokio::test]
async fn a_restart_that_is_asked_for_during_another_follows_it_and_sigterm_ends_both_envoys() {
    let (_demo, folder, file) = one_sandbox().await;
    let config = folder.path().join("config.yaml");
    fs::write(&config, "filter: {}\n").expect("write");
    let mut standing = Standing::start(&file, &config, "1", &[]).await;
    standing.running.signal("HUP");
    standing.said(SERVES, 1).await;
    standing.running.signal("HUP");
    standing.said("a restart is under way", 1).await;
    standing.said(SERVES, 2).await;
    assert!(standing.times_said(ENDED) >= 1);
    assert_eq!(get(standing.gateway, ask("default--demo")).await.sandbox(), "demo");
    let envoys = standing.running.children();
    standing.running.terminate();
    assert_eq!(standing.running.ended().await, Some(0));
    for envoy in envoys {
        assert!(!sandgate_tests::process_exists(envoy), "an Envoy is still there");
    }
}

#[tokio::test]
async fn a_hot_restart_needs_fixed_ports_and_routes_that_outlive_it() {
    let (_demo, _folder, file) = one_sandbox().await;
    let done = Cli::run(&["run", "--hot-restart", "--port", "0", "--routes", text(&file)]).await;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--port") && done.stderr.contains("--admin-port"), "{}", done.stderr);
    let done = Cli::run(&["run", "--hot-restart", "--demo"]).await;
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--demo"), "{}", done.stderr);
}
