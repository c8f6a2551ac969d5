use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use serde_json::json;

use super::{Drain, Epoch, Launch, exit_number, listener_address};

fn launch() -> Launch {
    Launch {
        program: "/x/envoy".into(),
        config: "/x/envoy.json".into(),
        admin_address: "/x/admin".into(),
        log_level: None,
        concurrency: None,
        drain: Drain { delay: Duration::ZERO, time: Duration::ZERO },
        epoch: Epoch::Only,
        extra: vec!["--extra".into()],
    }
}

fn shown(launch: &Launch) -> String {
    launch.args().iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[test]
fn envoy_is_quiet_unless_asked() {
    let quiet = shown(&launch());
    assert!(quiet.contains("--log-level warning --component-log-level dynamic_modules:info"), "{quiet}");
    assert!(!quiet.contains("--concurrency"), "{quiet}");
    let asked = shown(&Launch { log_level: Some("debug".to_owned()), concurrency: Some(3), ..launch() });
    assert!(asked.contains("--log-level debug") && !asked.contains("component"), "{asked}");
    assert!(asked.contains("--concurrency 3"), "{asked}");
}

#[test]
fn a_persons_own_arguments_come_last() {
    let args = shown(&launch());
    assert!(args.starts_with("--config-path /x/envoy.json ") && args.ends_with(" --extra"), "{args}");
}

#[test]
fn the_address_is_that_of_our_listener() {
    let listener = |name: &str, ip: &str, port: u32| json!({ "name": name, "local_address": { "socket_address": { "address": ip, "port_value": port } } });
    let all =
        json!({ "listener_statuses": [listener("other", "127.0.0.1", 1), listener("gateway", "::1", 7788)] });
    assert_eq!(listener_address(&all).unwrap().to_string(), "[::1]:7788");
    assert!(listener_address(&json!({ "listener_statuses": [listener("other", "127.0.0.1", 1)] })).is_none());
    assert!(
        listener_address(&json!({ "listener_statuses": [listener("gateway", "127.0.0.1", 70000)] }))
            .is_none()
    );
}

#[test]
fn a_signal_is_told_as_a_shell_would() {
    assert_eq!(exit_number(ExitStatus::from_raw(7 << 8)), 7);
    assert_eq!(exit_number(ExitStatus::from_raw(9)), 137);
}

#[test]
fn an_envoy_that_takes_over_is_told_from_whom_and_for_how_long_that_one_goes_on() {
    assert!(shown(&launch()).contains("--disable-hot-restart"));
    let drain = Drain { delay: Duration::from_secs(5), time: Duration::from_secs(60) };
    let first = shown(&Launch { epoch: Epoch::First { base_id: "/x/base-id".into() }, drain, ..launch() });
    assert!(first.contains("--use-dynamic-base-id --base-id-path /x/base-id"), "{first}");
    assert!(!first.contains("--disable-hot-restart"), "{first}");
    let next = shown(&Launch { epoch: Epoch::Next { base_id: 7, number: 2 }, drain, ..launch() });
    assert!(next.contains("--base-id 7 --restart-epoch 2 --parent-shutdown-time-s 65"), "{next}");
}
