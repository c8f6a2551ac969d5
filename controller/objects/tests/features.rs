//! The gateway does not carry the whole objects: what Envoy loads is built without the feature `resources`.
//! Asks cargo for the dependencies, offline and without building anything.

#![forbid(unsafe_code)]

use std::process::Command;

/// The crates of a build of one package alone, each with its own features.
fn dependencies(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", package])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}|{f}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(ToOwned::to_owned).collect()
}

fn has_crate(lines: &[String], name: &str) -> bool {
    lines.iter().any(|line| line.split(' ').next() == Some(name))
}

fn has_whole_objects(lines: &[String]) -> bool {
    let features = |line: &str| line.rsplit('|').next().unwrap_or_default().to_owned();
    let is_on =
        |line: &&String| features(line).trim_end_matches(" (*)").split(',').any(|on| on == "resources");
    lines.iter().filter(|line| line.starts_with("sandgate-objects v")).any(|line| is_on(&line))
}

#[test]
fn the_gateway_links_no_whole_objects() {
    for package in ["sandgate-filter", "sandgate"] {
        let gateway = dependencies(package);
        assert!(has_crate(&gateway, "sandgate-objects"), "{gateway:#?}");
        assert!(!has_whole_objects(&gateway) && !has_crate(&gateway, "kube-derive"), "{gateway:#?}");
    }
    // The same questions find them where they are.
    let operator = dependencies("sandgate-operator");
    assert!(has_whole_objects(&operator) && has_crate(&operator, "kube-derive"), "{operator:#?}");
}
