//! The program as it is started from a shell.

#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sandgate_follow::testing::Server;

fn operator(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandgate-operator"));
    command.args(args).stdin(Stdio::null());
    command
}

#[test]
fn wrong_options_are_explained_and_end_with_2() {
    for (args, word) in [
        (&["--controllers", "pools"][..], "[possible values: sandbox, sandboxset, batchsandbox, pool,"),
        (&["--renew-deadline", "15"], "shorter than the lease duration"),
        (&["--log", "sandgate_operator=loud"], "--log"),
        (&["--workers", "0"], "--workers"),
    ] {
        let output = operator(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word), "{word} is not in\n{text}");
    }
}

#[test]
fn the_version_is_the_workspace_s() {
    let output = operator(&["--version"]).output().unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        format!("sandgate-operator {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_kubeconfig_that_is_missing_ends_it_with_1() {
    let output = operator(&["--kubeconfig", "/nowhere", "--listen", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("/nowhere"), "{text}");
}

#[test]
fn controllers_of_environments_do_not_start_without_the_name_of_their_cluster() {
    let server = Server::start();
    for controller in ["sandboxenv", "pooladoption"] {
        let mut command = operator(&["--listen", "127.0.0.1:0", "--controllers", controller, "--kubeconfig"]);
        let output = command.arg(server.kubeconfig()).env_remove("LOCAL_CLUSTER_ID").output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("--local-cluster-id") && text.contains(controller), "{text}");
    }
}

#[test]
fn a_signal_ends_it_cleanly_and_the_log_is_json_if_asked_for() {
    let server = Server::start();
    let kubeconfig = server.kubeconfig();
    let args = ["--listen", "127.0.0.1:0", "--leader-elect=false", "--log-format", "json", "--kubeconfig"];
    let mut child = operator(&args).arg(kubeconfig).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("/readyz") {
        line.clear();
        assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended");
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(parsed["fields"]["message"].is_string(), "{line}");
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let mut rest = String::new();
    log.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
}
