//! The hidden step between `sandgate run` and Envoy, which ties Envoy's life to its parent's.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SANDGATE: &str = env!("CARGO_BIN_EXE_sandgate");

#[test]
fn it_becomes_the_program() {
    let parent = std::process::id().to_string();
    let output = Command::new(SANDGATE)
        .args(["__exec", "--parent", &parent, "/bin/echo", "--", "-c", "x"])
        .output()
        .unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"-c x\n".as_slice(), Some(0)));
}

#[test]
fn the_program_may_open_as_many_files_as_the_system_allows() {
    let parent = std::process::id().to_string();
    let script = format!(
        "ulimit -Sn 100; ulimit -Hn 300; exec {SANDGATE} __exec --parent {parent} /bin/sh -- -c 'ulimit -Sn'"
    );
    let output = Command::new("/bin/sh").args(["-c", &script]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "300\n");
}

#[test]
fn it_starts_nothing_for_a_parent_that_is_gone() {
    let output =
        Command::new(SANDGATE).args(["__exec", "--parent", "1", "/bin/echo", "--", "x"]).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (b"".as_slice(), Some(1)));
}

#[test]
fn the_program_ends_when_its_parent_is_killed() {
    let script = format!("{SANDGATE} __exec --parent $$ /bin/sleep -- 1000 & echo $!; wait");
    let mut parent = Command::new("/bin/sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let process = PathBuf::from(format!("/proc/{}", pid.trim()));

    let patience = Instant::now() + Duration::from_secs(20);
    let is_sleep = || std::fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim() == "sleep");
    while !is_sleep() {
        assert!(Instant::now() < patience, "it never became the program");
        std::thread::yield_now();
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    // Gone, or a zombie whose new parent has not looked yet.
    let ended = || match std::fs::read_to_string(process.join("stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    };
    while !ended() {
        assert!(Instant::now() < patience, "it outlived its parent");
        std::thread::yield_now();
    }
}
