use clap::Parser as _;
use sandgate_objects::keys::Digest;

use super::*;
use crate::args::{Cli, Command};

pub(super) fn stored(id: &str) -> StoredKey {
    let meta = KeyMeta {
        id: id.to_owned(),
        name: "ci".to_owned(),
        team: "web".to_owned(),
        namespace: None,
        mask: "e2b_1234...abcd".to_owned(),
        created_at: "2026-11-18T08:00:00.123Z".parse().unwrap(),
        created_by: String::new(),
        expires_at: None,
        quota: "sandbox.count=3".parse().unwrap(),
    };
    StoredKey { meta, digest: Digest::of(id.as_bytes()), previous: Vec::new() }
}

fn create(words: &str) -> Result<CreateKey, clap::Error> {
    let words = format!("sandgate keys create {words}");
    let Command::Keys(Keys { command: KeysCommand::Create(args) }) =
        Cli::try_parse_from(words.split_whitespace())?.command
    else {
        panic!("not keys create")
    };
    Ok(*args)
}

fn made(words: &str) -> Result<(StoredKey, KeyText), String> {
    let now = "2026-11-18T08:00:00Z".parse().unwrap();
    new_key(&create(words).unwrap(), now).map_err(|error| error.to_string())
}

#[test]
fn a_new_key_has_what_was_asked_for_and_only_its_hash_is_kept() {
    let (key, text) = made("--name ci --team web -n web --quota limits.cpu=4 --expires 30d").unwrap();
    assert_eq!((key.meta.name.as_str(), key.meta.team.as_str()), ("ci", "web"));
    assert_eq!(key.meta.namespace.as_deref(), Some("web"));
    assert_eq!(key.meta.expires_at, Some("2026-12-18T08:00:00Z".parse().unwrap()));
    assert_eq!(key.meta.quota.to_string(), "limits.cpu=4000m");
    assert_eq!(key.digest, text.digest());
    let (plain, _) = made("--name me").unwrap();
    assert_eq!((plain.meta.team.as_str(), &plain.meta.namespace), ("default", &None));
    assert!(plain.meta.quota.is_empty() && plain.meta.expires_at.is_none());
    assert_ne!(plain.meta.id, key.meta.id);
}

#[test]
fn what_is_wrong_is_named_with_what_was_expected() {
    assert!(made("--name a\u{7}b").unwrap_err().starts_with("--name: expected"));
    assert!(made("--name a --team x=y").unwrap_err().starts_with("--team: expected"));
    assert!(made("--name a --expires 0s").unwrap_err().starts_with("--expires: expected"));
    assert!(made("--name a --expires 9999999w").unwrap_err().starts_with("--expires: "));
    for (words, expected) in [
        ("", "--name"),
        ("--name a --quota pods=3", "expected sandbox.count, limits.cpu or limits.memory"),
        ("--name a --expires tomorrow", "expected a number and a unit"),
        ("--name a --json --quiet", "cannot be used with"),
    ] {
        let error = create(words).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn no_report_but_the_first_has_the_key() {
    let (key, text) = made("--name ci --quota sandbox.count=2 --expires 1w").unwrap();
    assert_eq!(with_key(&key, &text)["key"], text.reveal());
    let line = describe(&key);
    assert!(line.contains(&key.meta.id) && line.contains("quota sandbox.count=2"), "{line}");
    assert!(line.contains("until 2026-11-25T08:00:00Z") && !line.contains(text.reveal()), "{line}");
}
