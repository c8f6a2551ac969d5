//! The systemd unit says what this command understands.

use std::fs;
use std::process::Command;

const SANDGATE: &str = env!("CARGO_BIN_EXE_sandgate");
const UNIT: &str = include_str!("../../../envoy/deploy/systemd/sandgate.service");
const PROGRAM: &str = "/usr/local/bin/sandgate";
const CONFIG: &str = "/etc/sandgate/gateway.yaml";

fn values(key: &str) -> Vec<&'static str> {
    UNIT.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

#[test]
fn its_commands_take_the_options_it_gives() {
    let folder = tempfile::tempdir().unwrap();
    let (routes, config) = (folder.path().join("routes.yaml"), folder.path().join("gateway.yaml"));
    fs::write(&routes, "routes: []\n").unwrap();
    fs::write(&config, format!("gateway: {{ routes-file: {} }}\n", routes.display())).unwrap();
    for (key, more) in [("ExecStartPre", None), ("ExecStart", Some("--print-config"))] {
        let [line] = values(key)[..] else { panic!("one {key} is expected") };
        let mut words = line.split(' ');
        assert_eq!(words.next(), Some(PROGRAM), "{line}");
        let mut command = Command::new(SANDGATE);
        for word in words {
            if word == CONFIG {
                command.arg(&config)
            } else {
                command.arg(word)
            };
        }
        let output = command.args(more).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn it_waits_longer_than_a_drain_takes_and_leaves_the_draining_to_the_command() {
    let seconds =
        |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("{text} is no number of seconds"));
    let [start] = values("ExecStart")[..] else { panic!("one ExecStart is expected") };
    let words: Vec<&str> = start.split(' ').collect();
    let drain: u64 =
        words.windows(2).filter(|pair| pair[0].starts_with("--drain-")).map(|pair| seconds(pair[1])).sum();
    assert!(drain > 0, "{start}");
    // What Envoy may take to end after that, and some.
    assert!(seconds(values("TimeoutStopSec")[0]) >= drain + 15, "{drain}");
    assert_eq!(values("KillMode"), ["mixed"]);
    assert_eq!(values("RestartPreventExitStatus"), ["2"]);
}

#[test]
fn systemd_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("sandgate.service");
    // It looks whether the programs are there.
    fs::write(&unit, UNIT.replace(PROGRAM, SANDGATE)).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let output =
        verify.arg("verify").arg(&unit).output().expect("systemd-analyze, which `make test` installs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}
