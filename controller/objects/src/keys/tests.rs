use serde_json::json;

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

const ID: &str = "8c1f0a52-94c1-4d2e-9a53-0a6a5e1f7b11";

fn stored(text: &KeyText) -> StoredKey {
    let meta = KeyMeta {
        id: ID.to_owned(),
        name: "ci".to_owned(),
        team: "red".to_owned(),
        namespace: Some("red-sandboxes".to_owned()),
        mask: text.mask(),
        created_at: at("2026-11-18T08:00:00Z"),
        created_by: "somebody".to_owned(),
        expires_at: None,
        quota: "sandbox.count=3".parse().unwrap(),
    };
    StoredKey { meta, digest: text.digest(), previous: Vec::new() }
}

fn read(name: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<StoredKey, KeyError> {
    StoredKey::read(name, |entry| data.get(entry).map(Vec::as_slice))
}

#[test]
fn a_key_is_what_the_sdk_accepts_and_no_two_are_alike() {
    let (one, two) = (KeyText::generate().unwrap(), KeyText::generate().unwrap());
    let digits = one.reveal().strip_prefix("e2b_").unwrap();
    assert!(digits.len() == 40 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    assert_ne!(one, two);
    let shown = format!("{one:?}");
    assert!(!shown.contains(digits) && shown.contains(&digits[..4]), "{shown}");
}

#[test]
fn an_id_is_a_random_uuid() {
    let id = new_id().unwrap();
    let lengths: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(&id[14..15], "4");
    assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
    assert_ne!(id, new_id().unwrap());
}

#[test]
fn a_secret_has_the_hash_and_everything_but_the_key() {
    let text = KeyText::generate().unwrap();
    let key = stored(&text);
    let data = key.data();
    assert_eq!(read(&secret_name(ID), &data), Ok(key));
    let digits = text.reveal().strip_prefix("e2b_").unwrap();
    assert!(data.values().all(|value| !String::from_utf8_lossy(value).contains(digits)));
}

#[test]
fn a_secret_that_is_no_key_says_what_is_wrong_with_it() {
    let good = stored(&KeyText::generate().unwrap()).data();
    let name = secret_name(ID);
    let wrong = |entry: &str, value: Option<&str>| {
        let mut data = good.clone();
        data.remove(entry);
        data.extend(value.map(|value| (entry.to_owned(), value.as_bytes().to_vec())));
        read(&name, &data).unwrap_err().to_string()
    };
    assert_eq!(wrong("hash", None), "hash: missing");
    assert_eq!(wrong("hash", Some("zz")), "hash: expected a SHA-256 in hexadecimal");
    assert_eq!(wrong("hash", Some("abcd")), "hash: expected a SHA-256 in hexadecimal");
    assert_eq!(wrong("meta", None), "meta: missing");
    assert!(wrong("meta", Some("{}")).starts_with("meta: missing field `id`"));
    assert!(wrong("previous", Some("7")).starts_with("previous: "));
    let twice = json!({
        "id": ID, "name": "", "createdAt": "2026-11-18T08:00:00Z",
        "quota": { "limits": [
            { "dimension": "limits.cpu", "limit": 1 }, { "dimension": "limits.cpu", "scope": "all", "limit": 2 },
        ] },
    });
    assert_eq!(wrong("meta", Some(&twice.to_string())), "meta: limits.cpu has two limits");
    assert_eq!(read("another", &good), Err(KeyError::Name));
    let copied = read(&secret_name("another"), &good).unwrap_err().to_string();
    assert_eq!(copied, "meta: the ID is not that of the name");
}

#[test]
fn a_rotated_key_is_good_for_the_overlap_and_not_longer_than_the_key_itself() {
    let [first, second, third] = [(); 3].map(|()| KeyText::generate().unwrap());
    let mut key = stored(&first);
    let (start, hour) = (at("2026-11-18T08:00:00Z"), Duration::from_secs(3600));
    key.rotate(&second, start, hour);
    key.rotate(&third, start + hour / 2, hour);
    assert_eq!(key, read(&secret_name(ID), &key.data()).unwrap());
    let digests: Vec<_> = key.digests().collect();
    assert_eq!(
        digests,
        [
            (third.digest(), None),
            (first.digest(), Some(at("2026-11-18T09:00:00Z"))),
            (second.digest(), Some(at("2026-11-18T09:30:00Z"))),
        ]
    );
    key.meta.expires_at = Some(at("2026-11-18T09:10:00Z"));
    assert!(key.digests().all(|(_, end)| end <= key.meta.expires_at));
    // What has ended goes, and without an overlap nothing comes.
    key.rotate(&first, at("2026-11-18T09:20:00Z"), Duration::ZERO);
    assert_eq!(key.previous.len(), 1);
    assert_eq!(key.meta.mask, first.mask());
}

#[test]
fn quotas_are_read_as_people_write_them() {
    let text =
        "sandbox.count=10,limits.cpu=2.5,limits.memory=8Gi,sandbox.count:running=4,limits.cpu:running=500m";
    let quota: Quota = text.parse().unwrap();
    let limits: Vec<u64> = quota.limits.iter().map(|limit| limit.limit).collect();
    assert_eq!(limits, [10, 2500, 8192, 4, 500]);
    assert_eq!(quota.to_string().parse::<Quota>().unwrap(), quota);
    let json = serde_json::to_value(&quota).unwrap();
    assert_eq!(json["limits"][1], json!({ "dimension": "limits.cpu", "scope": "all", "limit": 2500 }));
    for (text, expected) in [
        ("", "\"\": expected NAME=AMOUNT, such as sandbox.count=10"),
        ("pods=1", "\"pods\": expected sandbox.count, limits.cpu or limits.memory"),
        ("sandbox.count:paused=1", "\"paused\": expected all or running"),
        ("sandbox.count=-1", "sandbox.count: \"-1\" is no amount; expected a number"),
        ("limits.cpu=0.0005", "limits.cpu: \"0.0005\" is no amount; expected cores such as 4, 0.5 or 500m"),
        ("limits.memory=1", "limits.memory: \"1\" is no amount; expected memory such as 512Mi or 8Gi"),
        ("limits.memory=1.", "limits.memory: \"1.\" is no amount; expected memory such as 512Mi or 8Gi"),
        ("limits.cpu=1,limits.cpu=2", "limits.cpu has two limits"),
    ] {
        assert_eq!(text.parse::<Quota>().unwrap_err().to_string(), expected);
    }
}

#[test]
fn the_form_for_the_sdk_is_undone_and_a_wrong_checksum_is_not() {
    let raw = "8d7a5a8a-key of OpenKruise";
    let form = sdk_form(raw);
    assert!(form.strip_prefix("e2b_6f6b6167010000001a").is_some(), "{form}");
    assert_eq!(unwrap_sdk_form(&form).as_deref(), Some(raw));
    let mut broken = form.clone();
    broken.replace_range(30..31, if &form[30..31] == "0" { "1" } else { "0" });
    for text in [
        broken.as_str(),
        &form[..form.len() - 2],
        &format!("{form}00"),
        raw,
        "",
        "e2b_6f6b6167",
        "e2b_6f6b616701ffffffff",
    ] {
        assert_eq!(unwrap_sdk_form(text), None, "{text}");
    }
}

#[test]
fn openkruises_entries_keep_their_id_and_work_in_the_namespace_of_their_team() {
    let entry = |team: serde_json::Value| {
        let json = json!({
            "id": ID, "key": "some-raw-key-of-openkruise", "mask": "", "name": "old", "team": team,
            "createdAt": "2026-01-02T03:04:05Z", "lastUsed": null,
            "quota": { "limits": [{ "dimension": "sandbox.count", "scope": "running", "limit": 2 }] },
        });
        read_entry(ID, json.to_string().as_bytes()).unwrap()
    };
    let key = entry(json!({ "id": "x", "name": "red" }));
    assert_eq!((key.meta.id.as_str(), key.meta.namespace.as_deref()), (ID, Some("red")));
    assert_eq!(key.digest, Digest::of(b"some-raw-key-of-openkruise"));
    assert_eq!(key.meta.quota.limits[0].scope, Scope::Running);
    assert!(!format!("{key:?}").contains("raw-key"));
    for admin in [json!(null), json!({ "name": "admin" })] {
        assert_eq!(entry(admin).meta.namespace, None);
    }
    let error = read_entry(ID, br#"{"key": ["secret"]}"#).unwrap_err().to_string();
    assert!(!error.contains("secret"), "{error}");
    assert!(read_entry(ID, br#"{"key": ""}"#).is_err());
}
