//! The two forms of a kind, borrowed on the gateway's wire path and owned elsewhere, give the same answers.

#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::{
    FINISHED, Kind, READY, SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN, Text, agent_sandbox, decode,
    openkruise, opensandbox, sandbox_env,
};
use sandgate_routes::MAX_TOKEN;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const TOKENS: [&str; 4] = ["s3cret", " s3cret ", "e\"\u{e9}\n", "x"];

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_808_800)
}

/// Every answer of an object in one text. A token is shown by the texts that it matches.
fn answers(object: &impl Kind) -> String {
    let [token, traffic_token] = [object.token(), object.traffic_token()].map(|token| {
        token.map(|token| {
            let matches =
                |text: &&str| token.as_ref().is_some_and(|token| token.matches(text.trim().as_bytes()));
            (token.is_some(), TOKENS.iter().filter(|text| matches(text)).copied().collect::<Vec<_>>())
        })
    });
    format!(
        "{:?}",
        (
            (object.identity(), object.id(), object.state(now()), object.pool(), object.owner()),
            object.identity().map(|identity| object.identity_uid(&identity)),
            (object.address(), token, traffic_token, object.requires_traffic_auth(), object.ends()),
        )
    )
}

/// Decodes an object in both forms and compares them. The owned form must also survive being written and
/// read.
fn compare<'a, B, O>(json: &'a [u8]) -> Result<(), TestCaseError>
where
    B: Kind + Default + serde::Deserialize<'a>,
    O: Kind + Default + DeserializeOwned + Serialize + PartialEq + Debug,
{
    match (decode::<B>(json), decode::<O>(json)) {
        (Ok(borrowed), Ok(owned)) => {
            prop_assert_eq!(answers(&borrowed), answers(&owned));
            let written = serde_json::to_vec(&owned).unwrap();
            prop_assert_eq!(decode::<O>(&written).unwrap(), owned);
        }
        (Err(borrowed), Err(owned)) => prop_assert_eq!(borrowed, owned),
        (borrowed, owned) => prop_assert!(
            false,
            "the borrowed form is {:?}, the owned one {:?}",
            borrowed.map(|_| ()),
            owned.map(|_| ())
        ),
    }
    Ok(())
}

fn compare_all(json: &[u8]) -> Result<(), TestCaseError> {
    compare::<openkruise::Sandbox<Text<'_>>, openkruise::Sandbox>(json)?;
    compare::<agent_sandbox::Sandbox<Text<'_>>, agent_sandbox::Sandbox>(json)?;
    compare::<opensandbox::BatchSandbox<Text<'_>>, opensandbox::BatchSandbox>(json)?;
    compare::<sandbox_env::Pod<Text<'_>>, sandbox_env::Pod>(json)
}

/// One of these values; now and then a null, a value of another type, a text with escapes or a very long one.
fn field(values: &[&str]) -> impl Strategy<Value = Value> + use<> {
    let values: Vec<Value> = values.iter().map(|text| json!(text)).collect();
    prop_oneof![
        16 => prop::sample::select(values),
        1 => Just(Value::Null),
        1 => prop::sample::select(vec![json!(7), json!(true), json!([]), json!({}), json!(["x"]), json!(1.5)]),
        1 => prop::sample::select(vec![json!(""), json!("a\"\\\n\u{7}"), json!("\u{e9}\u{1f600}"), json!("a/b")]),
        1 => (0_usize..100_000).prop_map(|length| json!("x".repeat(length))),
    ]
}

/// An object with these fields, each missing now and then, and one that nobody knows.
fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let (keys, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let values: Vec<_> = values.into_iter().map(|value| prop::option::weighted(0.9, value)).collect();
    let whole = values.prop_map(move |values| {
        let known = keys.iter().zip(values).filter_map(|(key, value)| Some(((*key).to_owned(), value?)));
        Value::Object(known.chain([("unknown".to_owned(), json!({ "deep": [[{}]] }))]).collect())
    });
    prop_oneof![24 => whole, 1 => Just(Value::Null), 1 => Just(json!([])), 1 => Just(json!("x"))].boxed()
}

fn list(element: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![
        16 => prop::collection::vec(element, 0..4).prop_map(Value::from),
        1 => Just(Value::Null),
        1 => Just(json!({})),
    ]
    .boxed()
}

const TIMES: [&str; 4] =
    ["2026-11-16T05:00:00Z", "2026-11-16T08:00:00+01:00", "2027-01-01T00:00:00Z", "soon"];

fn metadata() -> BoxedStrategy<Value> {
    let owner = object(vec![
        ("apiVersion", field(&[openkruise::API_VERSION, "v1"]).boxed()),
        ("kind", field(&[openkruise::SANDBOX_SET, "Node"]).boxed()),
        ("name", field(&["pool"]).boxed()),
        ("controller", prop_oneof![4 => any::<bool>().prop_map(Value::from), 1 => field(&["true"])].boxed()),
    ]);
    let labels = object(vec![
        (openkruise::SANDBOX_ID, field(&["id-1", "team-a--demo", "a b"]).boxed()),
        (agent_sandbox::WARM_POOL_SANDBOX, field(&["5f3a"]).boxed()),
        (names::SANDBOX_ID, field(&["id-1", "a b"]).boxed()),
        (names::LABEL_PHASE, field(&["idle", "starting", "running", "stopping", "other"]).boxed()),
        (names::LABEL_POOL, field(&["pool"]).boxed()),
    ]);
    let long = "t".repeat(MAX_TOKEN + 1);
    let annotations = object(vec![
        (openkruise::RUNTIME_ACCESS_TOKEN, field(&TOKENS).boxed()),
        (openkruise::ENVD_ACCESS_TOKEN, field(&[TOKENS[0], &long]).boxed()),
        (openkruise::OWNER, field(&["alice", "a\u{7}"]).boxed()),
        (openkruise::ENABLE_JWT_AUTH, field(&["true", "false"]).boxed()),
        (SECURE_ACCESS_TOKEN, field(&TOKENS).boxed()),
        (TRAFFIC_ACCESS_TOKEN, field(&[TOKENS[0], TOKENS[1], &long]).boxed()),
        (names::SANDBOX_ID, field(&["id-1", "id-2"]).boxed()),
        (names::ANNOTATION_ARMED, field(&["id-1", "id-2"]).boxed()),
        (names::ANNOTATION_ACCESS_TOKEN, field(&TOKENS).boxed()),
        (names::ANNOTATION_OWNER, field(&["alice", "a\u{7}"]).boxed()),
        (
            opensandbox::ENDPOINTS,
            field(&["[\"\", \"10.0.0.1\"]", "[null]", "[1]", "no", "[\"\\u0031::1\"]"]).boxed(),
        ),
    ]);
    object(vec![
        ("name", field(&["demo", "demo-2"]).boxed()),
        ("namespace", field(&["team-a"]).boxed()),
        ("uid", field(&["8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b"]).boxed()),
        ("resourceVersion", field(&["41", "18446744073709551615"]).boxed()),
        ("creationTimestamp", field(&TIMES).boxed()),
        ("deletionTimestamp", prop_oneof![4 => Just(Value::Null), 1 => field(&TIMES)].boxed()),
        ("labels", labels),
        ("annotations", annotations),
        ("ownerReferences", list(owner)),
    ])
}

fn any_object() -> impl Strategy<Value = Value> {
    let condition = object(vec![
        ("type", field(&[READY, FINISHED, "Other"]).boxed()),
        ("status", field(&["True", "False"]).boxed()),
        ("reason", field(&["PodFailed", "SandboxExpired", "Other"]).boxed()),
    ]);
    let addresses = ["10.0.0.1", "fd00::1", "0.0.0.0", "nowhere"];
    let spec = object(vec![
        ("paused", prop_oneof![8 => any::<bool>().prop_map(Value::from), 1 => field(&["no"])].boxed()),
        ("shutdownTime", field(&TIMES).boxed()),
        ("expireTime", field(&TIMES).boxed()),
        ("operatingMode", field(&["Running", "Suspended", "Other"]).boxed()),
        ("poolRef", field(&["pool", "*"]).boxed()),
    ]);
    let phases = ["Pending", "Running", "Paused", "Failed", "Succeed", "Pausing", "Resuming", "Other"];
    let status = object(vec![
        ("phase", field(&phases).boxed()),
        ("ready", prop_oneof![8 => (-1_i64..3).prop_map(Value::from), 1 => field(&["1"])].boxed()),
        ("podIPs", list(field(&addresses).boxed())),
        ("podIP", field(&addresses).boxed()),
        ("podInfo", object(vec![("podIP", field(&addresses).boxed())])),
        ("conditions", list(condition)),
    ]);
    object(vec![("metadata", metadata()), ("spec", spec), ("status", status)])
}

/// The same JSON with every letter of every text escaped: nothing of it can be borrowed.
fn escaped(value: &Value) -> String {
    let text = value.to_string();
    text.chars()
        .map(|c| if c.is_ascii_alphabetic() { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() })
        .collect::<String>()
        .replace(&escape("null"), "null")
        .replace(&escape("true"), "true")
        .replace(&escape("false"), "false")
}

fn escape(word: &str) -> String {
    word.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn both_forms_of_an_object_give_the_same_answers(object in any_object()) {
        compare_all(object.to_string().as_bytes())?;
    }

    #[test]
    fn both_forms_of_any_bytes_give_the_same_answers(
        object in any_object(),
        cut in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = object.to_string().into_bytes();
        let at = cut.index(bytes.len());
        bytes[at] = byte;
        compare_all(&bytes)?;
        compare_all(&bytes[..at])?;
    }
}

#[test]
fn an_object_of_which_no_text_can_be_borrowed_says_the_same() {
    let object = json!({
        "metadata": {
            "name": "demo", "namespace": "team-a", "uid": "u", "resourceVersion": "41",
            "annotations": { openkruise::OWNER: "alice" },
        },
        "status": { "phase": "Running", "podInfo": { "podIP": "10.0.0.1" } },
    });
    let plain = object.to_string();
    let hidden = escaped(&object);
    let (plain, hidden) =
        (decode::<openkruise::Sandbox<Text<'_>>>(plain.as_bytes()), decode(hidden.as_bytes()));
    let hidden: openkruise::Sandbox<Text<'_>> = hidden.unwrap();
    assert_eq!(answers(&plain.unwrap()), answers(&hidden));
}

/// The keys that serde knows are those of the constants.
#[test]
fn the_constants_are_the_keys() {
    let text = || Some("x".to_owned());
    let mut kruise = openkruise::Sandbox::default();
    kruise.metadata.labels.sandbox_id = text();
    kruise.metadata.annotations = openkruise::Annotations {
        runtime_access_token: text(),
        envd_access_token: text(),
        owner: text(),
        enable_jwt_auth: text(),
        traffic_access_token: text(),
    };
    let mut agent = agent_sandbox::Sandbox::default();
    agent.metadata.labels.warm_pool_sandbox = text();
    agent.metadata.annotations =
        agent_sandbox::Annotations { secure_access_token: text(), traffic_access_token: text() };
    let mut batch = opensandbox::BatchSandbox::default();
    batch.metadata.annotations = opensandbox::Annotations {
        endpoints: text(),
        secure_access_token: text(),
        traffic_access_token: text(),
    };
    let mut pod = sandbox_env::Pod::default();
    pod.metadata.labels =
        sandbox_env::Labels { sandbox_id: text(), sandbox_pool: text(), sandbox_phase: text() };
    pod.metadata.annotations = sandbox_env::Annotations {
        sandbox_id: text(),
        sandbox_armed: text(),
        access_token: text(),
        owner: text(),
        traffic_access_token: text(),
    };
    let keys = |object: Value, of: &str| -> Vec<String> {
        object["metadata"][of].as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let sorted = |keys: &[&str]| {
        let mut keys: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
        keys.sort();
        keys
    };
    let kruise = json!(kruise);
    assert_eq!(keys(kruise.clone(), "labels"), [openkruise::SANDBOX_ID]);
    use openkruise::{ENABLE_JWT_AUTH, ENVD_ACCESS_TOKEN, OWNER, RUNTIME_ACCESS_TOKEN};
    let expected =
        sorted(&[RUNTIME_ACCESS_TOKEN, ENVD_ACCESS_TOKEN, OWNER, ENABLE_JWT_AUTH, TRAFFIC_ACCESS_TOKEN]);
    assert_eq!(keys(kruise, "annotations"), expected);
    assert_eq!(keys(json!(agent), "labels"), [agent_sandbox::WARM_POOL_SANDBOX]);
    assert_eq!(keys(json!(agent), "annotations"), sorted(&[SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN]));
    let expected = sorted(&[opensandbox::ENDPOINTS, SECURE_ACCESS_TOKEN, TRAFFIC_ACCESS_TOKEN]);
    assert_eq!(keys(json!(batch), "annotations"), expected);
    assert_eq!(json!(batch)["metadata"].get("labels"), None);
    use names::{ANNOTATION_ACCESS_TOKEN, ANNOTATION_ARMED, ANNOTATION_OWNER, LABEL_PHASE, LABEL_POOL};
    let expected = sorted(&[names::SANDBOX_ID, LABEL_PHASE, LABEL_POOL]);
    assert_eq!(keys(json!(pod), "labels"), expected);
    let expected = sorted(&[
        names::SANDBOX_ID,
        ANNOTATION_ARMED,
        ANNOTATION_ACCESS_TOKEN,
        ANNOTATION_OWNER,
        names::ANNOTATION_TRAFFIC_ACCESS_TOKEN,
    ]);
    assert_eq!(keys(json!(pod), "annotations"), expected);
}
