//! The program as it is started from a shell.

#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use sandgate_follow::testing::Server;

fn manager(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandgate-manager"));
    command.args(["--listen", "127.0.0.1:0", "--probe-listen", "127.0.0.1:0"]).args(args);
    command.stdin(Stdio::null());
    command
}

fn fails(args: &[&str], code: i32, word: &str) {
    let output = manager(args).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert!(text.contains(word), "{word} is not in\n{text}");
}

#[test]
fn wrong_options_are_explained_and_end_with_2() {
    fails(&["--gateway", "service:a"], 2, "expected NAMESPACE/NAME");
    fails(&["--log", "sandgate_manager=loud"], 2, "--log");
    fails(&["--tls-cert", "f"], 2, "--tls-key");
    fails(&["--push-hmac-key", "x", "--gateway", "a"], 2, "expected ID=FILE");
}

#[test]
fn what_cannot_start_is_said_and_ends_with_1() {
    fails(&["--kubeconfig", "/nowhere"], 1, "/nowhere");
    fails(&["--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.key"], 1, "/nowhere.pem");
}

#[test]
fn a_port_that_is_taken_ends_it_before_anything_else() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_sandgate-manager"))
        .args(["--probe-listen", &address, "--kubeconfig", "/nowhere"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(&format!("cannot listen on {address}")), "{text}");
}

#[test]
fn a_signal_while_it_waits_for_the_cluster_ends_it_cleanly_and_the_log_is_json_if_asked_for() {
    let server = Server::start();
    let kubeconfig = server.kubeconfig();
    let args = ["--log-format", "json", "--kubeconfig"];
    let mut child = manager(&args).arg(kubeconfig).stderr(Stdio::piped()).spawn().unwrap();
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
