mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;
use sandgate_cache::ManualClock;
use sandgate_objects::keys::{KeyMeta, KeyText, sdk_form, secret_name};
use serde_json::json;

use super::used::due;
use super::*;

const NAMESPACE: &str = "sandgate-system";

fn start() -> Timestamp {
    "2026-11-18T08:00:00Z".parse().unwrap()
}

fn fixture() -> (KeyStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(start()));
    let store = KeyStore::new(clock.clone(), Some(Key::new(NAMESPACE, "e2b-key-store")));
    (store, clock)
}

fn stored(id: &str, text: &KeyText) -> StoredKey {
    let meta = KeyMeta {
        id: id.to_owned(),
        name: "ci".to_owned(),
        team: "web".to_owned(),
        namespace: Some("web".to_owned()),
        mask: text.mask(),
        created_at: start(),
        created_by: String::new(),
        expires_at: None,
        quota: "sandbox.count=2".parse().unwrap(),
    };
    StoredKey { meta, digest: text.digest(), previous: Vec::new() }
}

fn facts(data: BTreeMap<String, Vec<u8>>) -> SecretFacts {
    let labels = BTreeMap::from([(KIND_LABEL.to_owned(), KIND.to_owned())]);
    SecretFacts { labels, data, ..SecretFacts::default() }
}

fn seen(name: &str, object: SecretFacts) -> Arc<Seen<SecretFacts>> {
    let version = "7".parse().unwrap();
    Arc::new(Seen { key: Key::new(NAMESPACE, name), uid: name.into(), version, object })
}

fn put(store: &KeyStore, key: &StoredKey) {
    let after = Some(seen(&secret_name(&key.meta.id), facts(key.data())));
    store.changed(&Change { before: None, after });
}

#[test]
fn a_key_is_good_from_its_secrets_event_to_the_event_of_its_end() {
    let (store, _) = fixture();
    let (mine, other) = (KeyText::generate().unwrap(), KeyText::generate().unwrap());
    assert_eq!(store.authenticate(mine.reveal()), None);
    put(&store, &stored("one", &mine));
    let caller = store.authenticate(mine.reveal()).unwrap();
    assert_eq!((&*caller.owner, &*caller.team, caller.namespace.as_deref()), ("one", "web", Some("web")));
    assert_eq!(caller.quota.len(), 1);
    let nearly = format!("{}0", &mine.reveal()[..mine.reveal().len() - 1]);
    for wrong in [other.reveal(), "", "e2b_", &nearly[1..], &mine.digest().to_string()] {
        assert_eq!(store.authenticate(wrong), None, "{wrong}");
    }
    let before = Some(seen(&secret_name("one"), facts(stored("one", &mine).data())));
    store.changed(&Change { before, after: None });
    assert_eq!(store.authenticate(mine.reveal()), None);
    assert_eq!(store.counts(), (0, 0));
}

#[test]
fn a_secret_that_waits_for_a_finalizer_is_revoked() {
    let (store, _) = fixture();
    let text = KeyText::generate().unwrap();
    put(&store, &stored("one", &text));
    let deleting = SecretFacts { is_deleting: true, ..facts(stored("one", &text).data()) };
    store.changed(&Change { before: None, after: Some(seen(&secret_name("one"), deleting)) });
    assert_eq!(store.authenticate(text.reveal()), None);
}

#[test]
fn a_key_ends_at_its_time() {
    let (store, clock) = fixture();
    let text = KeyText::generate().unwrap();
    let mut key = stored("one", &text);
    key.meta.expires_at = Some(start() + SignedDuration::from_mins(1));
    put(&store, &key);
    assert!(store.authenticate(text.reveal()).is_some());
    clock.advance(SignedDuration::from_mins(1));
    assert_eq!(store.authenticate(text.reveal()), None);
}

#[test]
fn both_keys_are_good_while_a_rotation_overlaps_and_are_one_owner() {
    let (store, clock) = fixture();
    let (old, new) = (KeyText::generate().unwrap(), KeyText::generate().unwrap());
    let mut key = stored("one", &old);
    put(&store, &key);
    key.rotate(&new, start(), Duration::from_secs(60));
    put(&store, &key);
    assert_eq!(store.authenticate(old.reveal()), store.authenticate(new.reveal()));
    assert!(store.authenticate(new.reveal()).is_some());
    clock.advance(SignedDuration::from_mins(1));
    assert_eq!(store.authenticate(old.reveal()), None);
    assert!(store.authenticate(new.reveal()).is_some());
}

#[test]
fn a_secret_that_is_no_key_takes_itself_out_and_is_counted() {
    let (store, _) = fixture();
    let text = KeyText::generate().unwrap();
    let mut data = stored("one", &text).data();
    put(&store, &stored("two", &text));
    data.remove("meta");
    store.changed(&Change { before: None, after: Some(seen(&secret_name("one"), facts(data))) });
    // Without the label it is somebody else's Secret.
    let other = SecretFacts { labels: BTreeMap::new(), ..facts(BTreeMap::new()) };
    store.changed(&Change { before: None, after: Some(seen("other", other)) });
    assert_eq!(store.counts(), (1, 1));
    put(&store, &stored("one", &text));
    assert_eq!(store.counts(), (2, 0));
}

#[test]
fn two_secrets_of_one_key_are_revoked_one_by_one() {
    let (store, _) = fixture();
    let text = KeyText::generate().unwrap();
    put(&store, &stored("one", &text));
    put(&store, &stored("two", &text));
    assert_eq!(&*store.authenticate(text.reveal()).unwrap().owner, "one");
    let before = Some(seen(&secret_name("one"), facts(BTreeMap::new())));
    store.changed(&Change { before, after: None });
    assert_eq!(&*store.authenticate(text.reveal()).unwrap().owner, "two");
}

#[test]
fn openkruises_keys_are_good_as_they_are_and_in_the_form_for_the_sdk() {
    let (store, _) = fixture();
    let entry = |key: &str, team: &str| {
        json!({ "id": "", "key": key, "name": "old", "team": { "name": team } }).to_string().into_bytes()
    };
    let data = BTreeMap::from([
        ("id-1".to_owned(), entry("raw key of one", "admin")),
        ("id-2".to_owned(), entry("raw key of two", "red")),
        ("id-3".to_owned(), b"no key".to_vec()),
    ]);
    let after = Some(seen("e2b-key-store", SecretFacts { data, ..SecretFacts::default() }));
    store.changed(&Change { before: None, after });
    assert_eq!(store.counts(), (2, 1));
    let one = store.authenticate("raw key of one").unwrap();
    assert_eq!((&*one.owner, one.namespace), ("id-1", None));
    let two = store.authenticate(&sdk_form("raw key of two")).unwrap();
    assert_eq!((&*two.owner, two.namespace.as_deref()), ("id-2", Some("red")));
    assert_eq!(store.authenticate(&sdk_form("raw key of three")), None);
    // Nothing is written into a Secret that is not ours.
    assert!(due(&store, start()).is_empty());
}

#[test]
fn the_last_use_is_due_at_once_and_then_every_ten_minutes_if_there_is_one() {
    let (store, clock) = fixture();
    let text = KeyText::generate().unwrap();
    put(&store, &stored("one", &text));
    let is_due = |store: &KeyStore| {
        let due = due(store, store.shared.clock.now());
        due.first().map(|(known, used)| (known.caller.owner.to_string(), *used))
    };
    assert_eq!(is_due(&store), None, "it was never used");
    store.authenticate(text.reveal());
    assert_eq!(is_due(&store), Some(("one".to_owned(), start())));
    // Whichever replica wrote it.
    let written = BTreeMap::from([(LAST_USED.to_owned(), start().to_string())]);
    let secret = SecretFacts { annotations: written, ..facts(stored("one", &text).data()) };
    store.changed(&Change { before: None, after: Some(seen(&secret_name("one"), secret)) });
    clock.advance(SignedDuration::from_mins(9));
    store.authenticate(text.reveal());
    assert_eq!(is_due(&store), None);
    clock.advance(SignedDuration::from_mins(1));
    assert_eq!(is_due(&store), Some(("one".to_owned(), start() + SignedDuration::from_mins(9))));
}
