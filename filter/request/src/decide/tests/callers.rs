//! Who may ask.

use sandgate_auth::{Caller, Reviewed, ScopedKey, StaticToken};
use sandgate_routes::{ObjectKey, Observation, RouteReader, State};

use super::door::{NOW, TestDoor};
use super::{asked, sandbox, table};
use crate::{Part, Refusal, Stop, Wait};

const BEARER: &str = r#"{"callers":{"mode":"bearer"}}"#;
const SCOPED: &str = r#"{"callers":{"mode":"scoped-token"}}"#;
const TOKEN: &str = "0123456789abcdef";

fn object(namespace: &str, name: &str) -> Observation {
    Observation {
        key: ObjectKey::new("agent-sandbox", namespace, name).expect("the key is valid"),
        id: format!("{namespace}--{name}"),
        ..sandbox()
    }
}

fn with_bearer() -> TestDoor {
    let mut door = TestDoor::default();
    door.keys.bearer = [StaticToken::new(TOKEN.as_bytes()).unwrap()].into();
    door
}

/// A request for `team/box` as agent-sandbox's clients send it.
const BOX: [(&str, &str); 2] = [("x-sandbox-id", "box"), ("x-sandbox-namespace", "team")];

fn bearing(token: &str) -> Vec<(&'static str, String)> {
    let mut headers: Vec<_> = BOX.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    headers.push(("authorization", format!("Bearer {token}")));
    headers
}

fn ask(reader: &RouteReader, config: &str, door: &TestDoor, token: &str) -> Result<String, Stop> {
    asked(reader, config, &bearing(token), door).map(|pass| pass.0)
}

fn refused<T>(refusal: Refusal) -> Result<T, Stop> {
    Err(Stop::Refuse(refusal))
}

#[test]
fn a_caller_without_a_good_token_does_not_learn_whether_a_sandbox_exists() {
    let (_writer, reader) = table([object("team", "box")]);
    let door = with_bearer();
    assert_eq!(ask(&reader, BEARER, &door, TOKEN), Ok("team--box".into()));
    for name in ["box", "nobody"] {
        for token in [None, Some("Bearer wrong-wrong-wrong"), Some("Basic 0123456789abcdef"), Some(TOKEN)] {
            let mut headers = vec![("x-sandbox-id", name), ("x-sandbox-namespace", "team")];
            headers.extend(token.map(|token| ("authorization", token)));
            let found = asked(&reader, BEARER, &headers, &door).map(|pass| pass.0);
            assert_eq!(found, refused(Refusal::CallerUnknown), "{name} {token:?}");
        }
    }
}

#[test]
fn the_callers_token_does_not_reach_the_sandbox_and_another_authorization_does() {
    let (_writer, reader) = table([object("team", "box")]);
    let pass = |config| asked(&reader, config, &bearing(TOKEN), &with_bearer()).unwrap().1;
    assert!(pass(BEARER), "it was for the gateway");
    assert!(!pass(""), "nobody asked for it here");
}

#[test]
fn no_other_dialect_is_a_way_around_the_check_of_callers() {
    let (_writer, reader) = table([object("team", "box")]);
    let forms: [&[(&str, &str)]; 6] = [
        &[("e2b-sandbox-id", "team--box")],
        &[("opensandbox-ingress-to", "team--box-80")],
        &[(":authority", "80-team--box.example.com")],
        &[(":path", "/kruise/team--box/80/")],
        &[(":path", "/team--box/80/")],
        &[("x-sandbox-id", "team--box"), ("x-sandbox-port", "80")],
    ];
    let door = with_bearer();
    let authorization = format!("Bearer {TOKEN}");
    for form in forms {
        assert_eq!(
            asked(&reader, BEARER, form, &door).map(|pass| pass.0),
            refused(Refusal::CallerUnknown),
            "{form:?}"
        );
        let known = [form, &[("authorization", authorization.as_str())]].concat();
        assert_eq!(asked(&reader, BEARER, &known, &door), Ok(("team--box".into(), true)), "{form:?}");
    }
    // An object of another provider asks for no caller there.
    let other = Observation {
        key: ObjectKey::new("openkruise", "team", "box").expect("the key is valid"),
        ..object("team", "box")
    };
    let (_writer, reader) = table([other]);
    assert_eq!(asked(&reader, BEARER, forms[0], &door), Ok(("team--box".into(), false)));
    let both = r#"{"callers":{"mode":"bearer","providers":["openkruise"]}}"#;
    assert_eq!(asked(&reader, both, forms[0], &door), refused(Refusal::CallerUnknown));
}

#[test]
fn a_scoped_token_is_good_for_its_sandbox_in_every_dialect_and_403_for_another() {
    let (_writer, reader) = table([object("team", "box"), object("team", "other")]);
    let [old, new] = [b'a', b'b'].map(|byte| ScopedKey::new(&[byte; 32]).unwrap());
    let mut door = TestDoor::default();
    door.keys.scoped = [old.clone(), new.clone()].into();
    let end = i64::try_from(NOW).unwrap() + 1;
    for key in [&old, &new] {
        let token = key.sign("team", "box", end);
        assert_eq!(ask(&reader, SCOPED, &door, &token), Ok("team--box".into()));
        let authorization = format!("bearer {token}");
        let in_header = [("e2b-sandbox-id", "team--box"), ("authorization", &authorization)];
        assert_eq!(asked(&reader, SCOPED, &in_header, &door), Ok(("team--box".into(), true)));
        let other = [("e2b-sandbox-id", "team--other"), ("authorization", &authorization)];
        assert_eq!(asked(&reader, SCOPED, &other, &door), refused(Refusal::CallerForbidden));
    }
    for other in [old.sign("team", "other", end), old.sign("default", "box", end)] {
        assert_eq!(ask(&reader, SCOPED, &door, &other), refused(Refusal::CallerForbidden));
    }
    let late = old.sign("team", "box", end - 1);
    assert_eq!(ask(&reader, SCOPED, &door, &late), refused(Refusal::CallerUnknown));
    door.keys.scoped = [new].into();
    let token = old.sign("team", "box", end);
    assert_eq!(ask(&reader, SCOPED, &door, &token), refused(Refusal::CallerUnknown), "the key has gone");
}

#[test]
fn a_uid_beside_a_scoped_token_must_be_the_sandboxs() {
    let (_writer, reader) = table([object("team", "box"), object("team", "other")]);
    let key = ScopedKey::new(&[b'a'; 32]).unwrap();
    let mut door = TestDoor::default();
    door.keys.scoped = [key.clone()].into();
    let mut headers = bearing(&key.sign("team", "box", i64::MAX));
    headers.push(("x-sandbox-uid", "uid-1".into()));
    assert_eq!(asked(&reader, SCOPED, &headers, &door), Ok(("team--box".into(), true)));
    headers.last_mut().unwrap().1 = "uid-2".into();
    assert_eq!(asked(&reader, SCOPED, &headers, &door), refused(Refusal::Unknown));
}

#[test]
fn a_token_that_nobody_has_reviewed_waits_and_what_was_said_of_it_decides() {
    let (_writer, reader) = table([object("team", "box")]);
    let caller = |name: &str| Reviewed::Good(Caller { username: name.into(), groups: vec!["agents".into()] });
    let door = TestDoor {
        reviewed: vec![
            ("own", caller("system:serviceaccount:team:agent")),
            ("other", caller("system:serviceaccount:elsewhere:agent")),
            ("jane", caller("jane")),
            ("bad", Reviewed::Bad),
            ("failed", Reviewed::Failed),
        ],
        ..TestDoor::default()
    };
    let config = |more: &str| format!(r#"{{"callers":{{"mode":"token-review"{more}}}}}"#);
    let found = |more: &str, token: &str| ask(&reader, &config(more), &door, token);
    assert_eq!(found("", "new"), Err(Stop::Wait(Wait::Review)));
    assert_eq!(found("", "bad"), refused(Refusal::CallerUnknown));
    assert_eq!(found("", "failed"), refused(Refusal::ReviewFailed));
    for token in ["own", "other", "jane"] {
        assert_eq!(found("", token), Ok("team--box".into()), "{token}");
    }
    let rules: [(&str, [bool; 3]); 6] = [
        (r#","subjects":["jane"]"#, [false, false, true]),
        (r#","subjects":["system:serviceaccount:team:*"]"#, [true, false, false]),
        (r#","subjects":["jan","*jane"]"#, [false, false, false]),
        (r#","groups":["agents"]"#, [true, true, true]),
        (r#","groups":["nobody"],"subjects":["jane"]"#, [false, false, true]),
        (r#","bind-namespace":true"#, [true, false, false]),
    ];
    for (rule, expected) in rules {
        for (token, is_good) in ["own", "other", "jane"].into_iter().zip(expected) {
            let expected = if is_good { Ok("team--box".into()) } else { refused(Refusal::CallerForbidden) };
            assert_eq!(found(rule, token), expected, "{rule} {token}");
        }
    }
}

#[test]
fn only_who_sends_no_authorization_at_all_is_anonymous() {
    let (_writer, reader) = table([object("team", "box")]);
    let config = r#"{"callers":{"mode":"bearer","allow-anonymous":true}}"#;
    let door = with_bearer();
    assert_eq!(asked(&reader, config, &BOX, &door), Ok(("team--box".into(), true)));
    for wrong in ["", "Bearer", "Bearer wrong-wrong-wrong", "Basic eA=="] {
        let headers = [BOX[0], BOX[1], ("authorization", wrong)];
        assert_eq!(asked(&reader, config, &headers, &door), refused(Refusal::CallerUnknown), "{wrong:?}");
    }
}

#[test]
fn an_authorization_that_is_sent_twice_is_refused() {
    let (_writer, reader) = table([object("team", "box")]);
    let mut headers = bearing(TOKEN);
    headers.push(("authorization", format!("Bearer {TOKEN}")));
    let found = asked(&reader, BEARER, &headers, &with_bearer());
    assert!(matches!(found, Err(Stop::Refuse(Refusal::Malformed { part: Part::Repeated, .. }))), "{found:?}");
}

#[test]
fn which_readings_of_a_header_exist_is_for_known_callers_only() {
    let claimed = Observation { id: "box".into(), ..object("team", "pool-x7k2p") };
    let (_writer, reader) = table([object("default", "box"), claimed]);
    let header = [("x-sandbox-id", "box"), ("x-sandbox-port", "80")];
    let door = with_bearer();
    assert_eq!(asked(&reader, BEARER, &header, &door), refused(Refusal::CallerUnknown));
    let authorization = format!("Bearer {TOKEN}");
    let known = [header[0], header[1], ("authorization", authorization.as_str())];
    assert_eq!(asked(&reader, BEARER, &known, &door), refused(Refusal::TwoReadings));
}

#[test]
fn the_address_that_a_client_believes_in_is_compared_and_never_followed() {
    let ask = |sandbox: Observation, sent: &[&str]| {
        let (_writer, reader) = table([sandbox]);
        let sent: Vec<_> = sent.iter().map(|ip| ("x-sandbox-pod-ip", *ip)).collect();
        asked(&reader, "", &[&BOX[..], &sent].concat(), &TestDoor::default()).map(|pass| pass.0)
    };
    let running = || object("team", "box");
    for good in [&[][..], &[""], &["127.0.0.1"], &["::ffff:127.0.0.1"]] {
        assert_eq!(ask(running(), good), Ok("team--box".into()), "{good:?}");
    }
    for other in ["127.0.0.2", "169.254.169.254", "::1"] {
        assert_eq!(ask(running(), &[other]), refused(Refusal::OtherPodIp), "{other}");
    }
    for sent in ["localhost", "127.0.0.1:80"] {
        let found = ask(running(), &[sent]);
        let is_malformed = matches!(found, Err(Stop::Refuse(Refusal::Malformed { part: Part::PodIp, .. })));
        assert!(is_malformed, "{sent}: {found:?}");
    }
    let paused = Observation { state: State::Paused, ip: None, ..running() };
    assert_eq!(ask(paused, &["127.0.0.2"]), refused(Refusal::NotRunning(State::Paused)));
}
