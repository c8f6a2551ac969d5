use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{find, in_path, parse_version, pinned, version};

fn program(folder: &Path, script: &str) -> std::path::PathBuf {
    fs::create_dir_all(folder).unwrap();
    let path = folder.join("envoy");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_first_program_in_path_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    fs::create_dir_all(root.join("folder/envoy")).unwrap();
    program(&root.join("plain"), "");
    fs::set_permissions(root.join("plain/envoy"), fs::Permissions::from_mode(0o644)).unwrap();
    let first = program(&root.join("first"), "");
    program(&root.join("second"), "");
    let path = |names: &[&str]| std::env::join_paths(names.iter().map(|name| root.join(name))).unwrap();
    assert_eq!(in_path(Some(&path(&["none", "folder", "plain", "first", "second"]))), Some(first));
    assert_eq!(in_path(Some(&path(&["none", "folder", "plain"]))), None);
    assert_eq!(in_path(Some("".as_ref())), None);
    assert_eq!(in_path(None), None);
}

#[test]
fn the_version_is_the_second_part_of_the_build() {
    let text = "\n/x/envoy  version: 49c1/1.40.0/Clean/RELEASE/BoringSSL\n";
    assert_eq!(parse_version(text).as_deref(), Some("1.40.0"));
    assert_eq!(parse_version("GNU something 1.0"), None);
    assert_eq!(parse_version("version: "), None);
}

#[test]
fn the_pin_is_a_version() {
    assert_eq!(pinned().split('.').count(), 3);
    assert!(pinned().split('.').all(|part| part.parse::<u32>().is_ok()), "{}", pinned());
}

#[tokio::test]
async fn a_named_envoy_must_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let missing = find(Some(&folder.path().join("envoy"))).await.unwrap_err().to_string();
    assert!(missing.contains("--envoy") && missing.contains("SANDGATE_ENVOY"), "{missing}");
    let other = program(folder.path(), "echo something else 1.0");
    assert!(find(Some(&other)).await.unwrap_err().to_string().contains("does not look like Envoy"));
    let envoy = program(folder.path(), "echo \"envoy  version: c/9.9.9/Clean/RELEASE/BoringSSL\"");
    assert_eq!(version(&envoy).await.unwrap(), "9.9.9");
    assert_eq!(find(Some(&envoy)).await.unwrap(), envoy);
}
