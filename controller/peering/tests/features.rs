//! What sends links no server: a manager pays for the HTTP client alone. Asks cargo for the dependencies of
//! each feature, offline and without building anything.

#![forbid(unsafe_code)]

use std::process::Command;

/// The crates of a build with one feature, each with its own features.
fn dependencies(feature: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "sandgate-peering", "--no-default-features"])
        .args(["--features", feature, "--edges", "normal", "--prefix", "none", "--format", "{p}|{f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

fn has_crate(lines: &[String], name: &str) -> bool {
    lines.iter().any(|line| line.split(' ').next() == Some(name))
}

fn has_server(lines: &[String]) -> bool {
    let is_hyper = |line: &&String| line.starts_with("hyper v") || line.starts_with("hyper-util v");
    let features = |line: &String| line.rsplit('|').next().unwrap_or_default().to_owned();
    let is_server = |feature: &str| feature.starts_with("server");
    lines
        .iter()
        .filter(is_hyper)
        .any(|line| features(line).trim_end_matches(" (*)").split(',').any(is_server))
}

#[test]
fn what_sends_links_no_server() {
    let send = dependencies("send");
    assert!(has_crate(&send, "hyper") && has_crate(&send, "sandgate-routes"), "{send:#?}");
    assert!(!has_crate(&send, "axum") && !has_server(&send), "{send:#?}");
    assert!(!has_crate(&send, "sandgate-watch") && !has_crate(&send, "schemars"), "{send:#?}");
    // The same questions find the server where there is one.
    let receive = dependencies("receive");
    assert!(has_crate(&receive, "axum") && has_server(&receive), "{receive:#?}");
}
