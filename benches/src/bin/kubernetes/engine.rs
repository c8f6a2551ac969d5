//! What the bench starts itself as: the watch alone with its table, or a table alone. Each tells its parent on standard output
//! what happens, and ends when its standard input does.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::path::Path;
use std::process::ExitCode;
use std::thread;

use sandgate_routes::{
    Clash, Limits, ObjectKey, Observation, RouteTable, RouteWriter, Scope, State, Version,
};
use sandgate_watch::{KubernetesSettings, KubernetesSource, Settings};
use serde_json::json;

/// The watch of one namespace, as a gateway is configured.
pub(crate) fn settings(kubeconfig: &Path, namespace: &str) -> KubernetesSettings {
    let provider = json!({ "kind": "openkruise", "namespaces": [namespace] });
    let settings = json!({ "kubernetes": { "kubeconfig": kubeconfig, "providers": [provider] } });
    let settings = Settings::parse(settings.to_string().as_bytes()).expect("settings");
    settings.kubernetes().expect("a cluster").clone()
}

/// Runs the watch on a thread of its own with a runtime of one thread, as the gateway does.
pub(crate) fn watch(
    settings: KubernetesSettings,
    writer: RouteWriter,
    ready: impl Fn() + Send + Sync + 'static,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let run = move || {
        let source = KubernetesSource::new(&settings, writer).on_first_lists(ready);
        runtime.block_on(source.run());
    };
    thread::Builder::new().name("sandgate".to_owned()).spawn(run).expect("a thread");
}

pub(crate) fn run(kubeconfig: &Path, namespace: &str) -> ExitCode {
    let (writer, _reader) = RouteTable::new(Limits::default());
    let settings = settings(kubeconfig, namespace);
    say("started");
    until_told();
    watch(settings, writer, || say("ready"));
    until_the_end()
}

/// A table like the one the watch makes, with nothing beside it.
pub(crate) fn table(size: usize) -> ExitCode {
    let (writer, _reader) = RouteTable::new(Limits::default());
    say("started");
    until_told();
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
            require_traffic_auth: false,
            clash: Clash::Rank,
            created: None,
            ip_is_claimed: false,
            own_id: true,
        });
    }
    relist.commit_at(version);
    say("ready");
    until_the_end()
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    // Without a parent there is nobody to tell.
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

/// Waits for one byte: the parent has looked at what it wanted to look at.
fn until_told() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn until_the_end() -> ExitCode {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}
