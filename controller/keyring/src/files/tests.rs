use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::{TempDir, tempdir};

use super::*;

const ONE: &str = "a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
const TWO: &str = "b=ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";
const TOKEN: &str = "a-token-of-thirty-two-characters";

fn write(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn only(files: Result<Vec<KeyFiles>, KeyringError>) -> KeyFiles {
    let mut files = files.unwrap();
    assert_eq!(files.len(), 1);
    files.remove(0)
}

fn signed_of(paths: Vec<PathBuf>) -> Result<Vec<KeyFiles>, KeyringError> {
    KeyFiles::all(&AuthSettings { signed: paths, ..AuthSettings::default() })
}

fn ids(files: &KeyFiles) -> String {
    let mut keys = Keys::default();
    files.put(&mut keys);
    keys.signed.unwrap().ids().collect()
}

#[test]
fn keys_of_several_files_verify_together() {
    let folder = tempdir().unwrap();
    let paths = vec![write(&folder, "one", ONE), write(&folder, "two", TWO)];
    let files = only(signed_of(paths));
    assert_eq!(ids(&files), "ab");
    let status = files.status().read();
    assert_eq!((status.keys, status.key_ids, status.reads), (2, vec!["a".to_owned(), "b".to_owned()], 1));
    let secrets = vec![write(&folder, "s1", &"x".repeat(32)), write(&folder, "s2", &"y".repeat(40))];
    let tokens = vec![
        write(&folder, "t1", &format!("{TOKEN}\n{TOKEN}2\n")),
        write(&folder, "t2", &format!("{TOKEN}3")),
    ];
    let settings = AuthSettings { scoped: secrets, bearer: tokens, ..AuthSettings::default() };
    let mut keys = Keys::default();
    KeyFiles::all(&settings).unwrap().iter().for_each(|files| files.put(&mut keys));
    assert_eq!((keys.scoped.len(), keys.bearer.len()), (2, 3));
    assert!(keys.signed.is_none());
    assert!(sandgate_auth::any_matches(&keys.bearer, format!("{TOKEN}3").as_bytes()));
}

#[test]
fn a_bad_file_is_named_and_quoted_nowhere() {
    let folder = tempdir().unwrap();
    let secret = "a=c2VjcmV0IQ==x";
    let (good, bad) = (write(&folder, "good", ONE), write(&folder, "bad", secret));
    let (short, empty) = (write(&folder, "short", "secret"), write(&folder, "empty", "\n"));
    let large = write(&folder, "large", &"x".repeat((1 << 20) + 1));
    let none = folder.path().join("none");
    let settings = AuthSettings::default;
    for (settings, name, reason) in [
        (AuthSettings { signed: vec![good.clone(), bad], ..settings() }, "/bad: ", "expected"),
        (AuthSettings { signed: vec![none.clone()], ..settings() }, "/none: ", "No such file"),
        (AuthSettings { signed: vec![good.clone(), good.clone()], ..settings() }, "/good, /", "given twice"),
        (AuthSettings { signed: vec![folder.path().to_owned()], ..settings() }, ": ", "not a file"),
        (AuthSettings { scoped: vec![short.clone()], ..settings() }, "/short: ", "at least 32 bytes"),
        (AuthSettings { scoped: vec![large], ..settings() }, "/large: ", "larger than 1 MiB"),
        (AuthSettings { bearer: vec![short], ..settings() }, "/short: ", "expected"),
        (AuthSettings { bearer: vec![empty], ..settings() }, "/empty: ", "at least one"),
    ] {
        let error = KeyFiles::all(&settings).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains(reason), "{error}");
        assert!(!error.contains("secret") && !error.contains("c2Vj"), "{error}");
    }
}

#[test]
fn a_changed_file_counts_a_broken_one_does_not_and_the_status_says_so() {
    let folder = tempdir().unwrap();
    let path = write(&folder, "keys", ONE);
    let files = only(signed_of(vec![path.clone()]));
    assert!(!files.check());
    std::fs::write(&path, "nonsense").unwrap();
    assert!(!files.check());
    assert_eq!(ids(&files), "a");
    let status = files.status().read();
    assert!(status.error.as_ref().is_some_and(|error| error.contains("/keys: ")), "{status:?}");
    assert_eq!((status.keys, status.failures), (1, 1));
    // It is still wrong at the next look, and counted once.
    assert!(!files.check());
    let status = files.status().read();
    assert!(status.error.is_some() && status.failures == 1);
    std::fs::write(&path, format!("{ONE}\n{TWO}\n")).unwrap();
    assert!(files.check());
    assert_eq!(ids(&files), "ab");
    let status = files.status().read();
    assert_eq!((status.error, status.reads, status.keys), (None, 2, 2));
    std::fs::remove_file(&path).unwrap();
    assert!(!files.check());
    assert!(ids(&files) == "ab" && files.status().read().error.is_some());
}

/// A Secret as the kubelet mounts it: the names are links through `..data`, which is replaced as one.
fn mount(folder: &Path, version: &str, keys: &str) {
    std::fs::create_dir(folder.join(version)).unwrap();
    std::fs::write(folder.join(version).join("keys"), keys).unwrap();
    let fresh = folder.join("..data_tmp");
    symlink(version, &fresh).unwrap();
    std::fs::rename(fresh, folder.join("..data")).unwrap();
}

#[test]
fn a_mounted_secret_that_is_swapped_as_one_is_followed() {
    let folder = tempdir().unwrap();
    mount(folder.path(), "..1", ONE);
    let path = folder.path().join("keys");
    symlink("..data/keys", &path).unwrap();
    let files = only(signed_of(vec![path]));
    assert_eq!(ids(&files), "a");
    mount(folder.path(), "..2", &format!("{ONE},{TWO}"));
    std::fs::remove_dir_all(folder.path().join("..1")).unwrap();
    assert!(files.check());
    assert_eq!(ids(&files), "ab");
}
