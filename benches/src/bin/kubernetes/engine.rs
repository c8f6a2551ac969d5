//! The processes that the bench starts of itself: a gateway without Envoy, or a table alone. Each writes its
//! progress to standard output and ends when its standard input does.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, Scope, State, Version};
use sandgate_watch::{Gateway, Settings};
use serde_json::json;

/// How long a first list may take.
const READY: Duration = Duration::from_secs(300);

/// A gateway that watches one namespace, without Envoy.
pub(crate) fn gateway(kubeconfig: &Path, namespace: &str) -> Gateway {
    let provider = json!({ "kind": "openkruise", "namespaces": [namespace] });
    let settings = json!({ "kubernetes": { "kubeconfig": kubeconfig, "providers": [provider] } });
    Gateway::new(&Settings::parse(settings.to_string().as_bytes()).expect("settings")).expect("a gateway")
}

/// Starts the gateway's threads and waits for the first list.
pub(crate) fn wait_until_ready(gateway: &Gateway) {
    let (announce, announced) = mpsc::channel();
    gateway.start(move || announce.send(()).unwrap_or_default()).expect("the gateway's threads");
    let deadline = Instant::now() + READY;
    while !gateway.reader().is_ready() {
        let left = deadline.saturating_duration_since(Instant::now());
        announced.recv_timeout(left).expect("the first list within five minutes");
    }
}

pub(crate) fn run(kubeconfig: &Path, namespace: &str) -> ExitCode {
    let gateway = gateway(kubeconfig, namespace);
    report("started");
    wait_for_the_parent();
    wait_until_ready(&gateway);
    report("ready");
    until_the_end()
}

/// A table like the one the watch makes, with nothing beside it.
pub(crate) fn table(size: usize) -> ExitCode {
    let (writer, _reader) = RouteTable::new(Limits::default());
    report("started");
    wait_for_the_parent();
    let version = Version::from(NonZeroU64::MIN);
    let mut relist = writer.begin_relist(Scope::new("openkruise", Some("fleet-1"), ""), version.clone());
    for number in 0..size {
        let name = format!("sandbox-{number:06}");
        let [_, a, b, c] = u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes();
        relist.observe(Observation {
            key: ObjectKey::new("openkruise", "fleet-1", &name).expect("a key"),
            id: format!("fleet-1--{name}"),
            uid: format!("00000000-0000-4000-8000-{number:012x}"),
            owner: String::new(),
            state: State::Running,
            version: version.clone(),
            ip: Some(IpAddr::V4(Ipv4Addr::new(10, a, b, c))),
            token: None,
            traffic_token: None,
            require_traffic_auth: false,
            clash: Clash::Rank,
            created: None,
            ip_is_claimed: false,
            own_id: true,
        });
    }
    relist.commit_at(version);
    report("ready");
    until_the_end()
}

fn report(word: &str) {
    let mut out = std::io::stdout().lock();
    // It fails only if the parent is gone.
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// Waits for one byte, which the parent sends when it has measured the process before the work.
fn wait_for_the_parent() {
    // An end of the input also means to go on.
    let _ = std::io::stdin().read(&mut [0]);
}

fn until_the_end() -> ExitCode {
    // An error also means that the parent is gone.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
