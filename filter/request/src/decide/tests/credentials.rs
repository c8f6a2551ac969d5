//! What sandboxes ask for.

use std::sync::Arc;

use sandgate_auth::{PER_SOURCE, SignedKeys};
use sandgate_routes::{Observation, RouteReader, Secret, State};

use super::door::{NOW, TestDoor};
use super::{AUTH, BOX, asked, decided, sandbox, table};
use crate::{ACCESS_TOKEN, Form, Part, Refusal, SECURE_ACCESS, Stop, TrafficJwt, Wait};

const TRAFFIC: &str = "e2b-traffic-access-token";
const JWT_MODE: &str = r#"{"enable-auth":true,"enable-jwt-auth":true}"#;

fn refused<T>(refusal: Refusal) -> Result<T, Stop> {
    Err(Stop::Refuse(refusal))
}

fn found(
    reader: &RouteReader,
    config: &str,
    headers: &[(&str, &str)],
    door: &TestDoor,
) -> Result<String, Stop> {
    asked(reader, config, headers, door).map(|pass| pass.0)
}

#[test]
fn whoever_may_not_reach_a_sandbox_does_not_learn_its_state() {
    for state in [State::Paused, State::Creating, State::Available, State::Unknown] {
        let closed = |token| Observation { state, token: Some(token), ..sandbox() };
        let (_writer, reader) = table([closed(Secret::secure_access("s3cret"))]);
        let unauthorized = Err(Refusal::Unauthorized { header: SECURE_ACCESS });
        assert_eq!(decided(&reader, "", &[BOX]), unauthorized);
        let right = [BOX, (SECURE_ACCESS, "s3cret")];
        assert_eq!(decided(&reader, "", &right), Err(Refusal::NotRunning(state)));
        let (_writer, reader) = table([closed(Secret::new("s3cret"))]);
        assert_eq!(decided(&reader, AUTH, &[BOX]), Err(Refusal::Unauthorized { header: ACCESS_TOKEN }));
        let jwt = Observation { state, require_traffic_auth: true, ..sandbox() };
        let (_writer, reader) = table([jwt]);
        assert_eq!(decided(&reader, "", &[BOX]), Err(Refusal::JwtVerifierNotReady));
    }
    // Nor whether a UID is that of the sandbox.
    let (_writer, reader) =
        table([Observation { token: Some(Secret::secure_access("s3cret")), ..sandbox() }]);
    for uid in ["uid-1", "uid-2"] {
        let unauthorized = Err(Refusal::Unauthorized { header: SECURE_ACCESS });
        assert_eq!(decided(&reader, "", &[BOX, ("x-sandbox-uid", uid)]), unauthorized);
    }
}

#[test]
fn a_sandbox_that_wants_a_traffic_jwt_gets_verified_traffic_only_with_or_without_a_switch() {
    let wants = Observation { require_traffic_auth: true, token: Some(Secret::new("s3cret")), ..sandbox() };
    let (_writer, reader) = table([wants]);
    let door = |answer| TestDoor { jwt: Some(("jwt", answer)), ..TestDoor::default() };
    for config in ["", AUTH, JWT_MODE] {
        let ask = |headers: &[(&str, &str)], answer| found(&reader, config, headers, &door(answer));
        let sent = [BOX, (TRAFFIC, " jwt ")];
        assert_eq!(ask(&sent, TrafficJwt::Good), Ok("box".into()), "{config}");
        assert_eq!(ask(&sent, TrafficJwt::Bad), refused(Refusal::Forbidden));
        assert_eq!(ask(&sent, TrafficJwt::Busy), refused(Refusal::AuthBusy));
        assert_eq!(ask(&sent, TrafficJwt::UnknownKey), Err(Stop::Wait(Wait::NewerKeys)));
        assert_eq!(ask(&[BOX], TrafficJwt::Good), refused(Refusal::Forbidden));
        let other = [BOX, (ACCESS_TOKEN, "s3cret")];
        assert_eq!(ask(&other, TrafficJwt::Good), refused(Refusal::Forbidden), "never the static token");
        let twice = ask(&[BOX, sent[1], sent[1]], TrafficJwt::Good);
        let repeated = Refusal::Malformed { form: Form::KruiseHeader, part: Part::Repeated };
        assert_eq!(twice, refused(repeated));
    }
    let named = r#"{"traffic-access-token-header":"X-Traffic"}"#;
    let sent = [BOX, ("x-traffic", "jwt")];
    assert_eq!(found(&reader, named, &sent, &door(TrafficJwt::Good)), Ok("box".into()));
    let default = [BOX, (TRAFFIC, "jwt")];
    assert_eq!(found(&reader, named, &default, &door(TrafficJwt::Good)), refused(Refusal::Forbidden));
}

#[test]
fn in_openkruises_jwt_mode_runtime_tokens_are_not_compared_and_all_others_are() {
    let door = TestDoor::default();
    let (_writer, reader) = table([Observation { token: Some(Secret::new("s3cret")), ..sandbox() }]);
    assert_eq!(found(&reader, JWT_MODE, &[BOX], &door), Ok("box".into()));
    assert_eq!(found(&reader, AUTH, &[BOX], &door), refused(Refusal::Unauthorized { header: ACCESS_TOKEN }));
    let (_writer, reader) =
        table([Observation { token: Some(Secret::secure_access("s3cret")), ..sandbox() }]);
    assert_eq!(
        found(&reader, JWT_MODE, &[BOX], &door),
        refused(Refusal::Unauthorized { header: SECURE_ACCESS })
    );
}

#[test]
fn a_sandbox_with_e2bs_traffic_token_asks_for_it_on_every_port_but_envds() {
    let private = Observation { traffic_token: Some(Secret::new("tr4ffic")), ..sandbox() };
    let (_writer, reader) = table([private]);
    let port = ("e2b-sandbox-port", "8000");
    for config in ["", AUTH] {
        assert_eq!(decided(&reader, config, &[BOX, port, (TRAFFIC, "tr4ffic")]), Ok("box".into()));
        for wrong in [None, Some(""), Some("tr4ffi"), Some("tr4fficx")] {
            let mut headers = vec![BOX, port];
            headers.extend(wrong.map(|wrong| (TRAFFIC, wrong)));
            assert_eq!(decided(&reader, config, &headers), Err(Refusal::TrafficToken), "{wrong:?}");
        }
        assert_eq!(decided(&reader, config, &[BOX]), Ok("box".into()), "envd checks its own token");
        let twice = decided(&reader, config, &[BOX, port, (TRAFFIC, "tr4ffic"), (TRAFFIC, "tr4ffic")]);
        assert!(matches!(twice, Err(Refusal::Malformed { part: Part::Repeated, .. })), "{twice:?}");
    }
}

#[test]
fn what_a_sandbox_asks_for_is_asked_for_altogether() {
    let both = Observation {
        traffic_token: Some(Secret::new("tr4ffic")),
        token: Some(Secret::secure_access("s3cret")),
        ..sandbox()
    };
    let (_writer, reader) = table([both]);
    let [port, traffic, secure] =
        [("e2b-sandbox-port", "8000"), (TRAFFIC, "tr4ffic"), (SECURE_ACCESS, "s3cret")];
    assert_eq!(decided(&reader, "", &[BOX, port, traffic, secure]), Ok("box".into()));
    assert_eq!(decided(&reader, "", &[BOX, port, secure]), Err(Refusal::TrafficToken));
    let unauthorized = Err(Refusal::Unauthorized { header: SECURE_ACCESS });
    assert_eq!(decided(&reader, "", &[BOX, port, traffic]), unauthorized);
}

#[test]
fn a_signed_url_of_a_file_needs_no_header_on_envds_port_alone() {
    let (_writer, reader) = table([Observation { token: Some(Secret::new("s3cret")), ..sandbox() }]);
    let ask = |method: &'static str, port: &'static str, path: &'static str| {
        let host: &'static str = if port == "49983" { "49983-box.example.com" } else { "80-box.example.com" };
        decided(&reader, AUTH, &[(":authority", host), (":method", method), (":path", path)]).is_ok()
    };
    let signed = "/files?path=%2Fa&signature=v1_abc&signature_expiration=1";
    assert!(ask("GET", "49983", signed) && ask("POST", "49983", signed));
    assert!(!ask("GET", "80", signed), "another server knows no signatures");
    assert!(!ask("DELETE", "49983", signed));
    for path in [
        "/files?path=%2Fa",
        "/files?path=%2Fa&signature=",
        "/files?x_signature=v1_abc",
        "/files/x?signature=v1_abc",
        "/process.Process/Start?signature=v1_abc",
        "/?signature=v1_abc",
    ] {
        assert!(!ask("GET", "49983", path), "{path}");
    }
    let path = [(":method", "GET"), (":path", "/kruise/box/49983/files?signature=v1_abc")];
    assert_eq!(decided(&reader, AUTH, &path), Ok("box".into()));
    // Whoever has closed the sandbox has closed this port too.
    let (_writer, reader) =
        table([Observation { token: Some(Secret::secure_access("s3cret")), ..sandbox() }]);
    assert!(decided(&reader, AUTH, &path).is_err());
}

#[test]
fn with_require_token_a_sandbox_that_asks_for_nothing_is_refused() {
    let config = r#"{"require-token":true,"enable-auth":true}"#;
    let (_writer, reader) = table([sandbox()]);
    assert_eq!(decided(&reader, config, &[BOX]), Err(Refusal::TokenRequired));
    assert_eq!(decided(&reader, "", &[BOX]), Ok("box".into()));
    let (_writer, reader) = table([Observation { token: Some(Secret::new("s3cret")), ..sandbox() }]);
    assert_eq!(decided(&reader, config, &[BOX, (ACCESS_TOKEN, "s3cret")]), Ok("box".into()));
    // A token that nobody here compares protects nothing.
    let alone = r#"{"require-token":true}"#;
    assert_eq!(decided(&reader, alone, &[BOX, (ACCESS_TOKEN, "s3cret")]), Err(Refusal::TokenRequired));
    let (_writer, reader) =
        table([Observation { token: Some(Secret::secure_access("s3cret")), ..sandbox() }]);
    assert_eq!(decided(&reader, alone, &[BOX, (SECURE_ACCESS, "s3cret")]), Ok("box".into()));
}

/// A closed sandbox, and a gateway with the key `a`.
fn closed() -> (sandgate_routes::RouteWriter, RouteReader, TestDoor, SignedKeys) {
    let (writer, reader) = table([Observation { token: Some(Secret::secure_access("s3cret")), ..sandbox() }]);
    let keys = SignedKeys::parse(b"a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap();
    let mut door = TestDoor::default();
    door.keys.signed = Some(Arc::new(keys.clone()));
    (writer, reader, door, keys)
}

/// `NOW` plus a minute, in base 36.
const EXPIRES: &str = "s44wfw";

fn tag(keys: &SignedKeys, id: &str, port: u16, expires: &str) -> String {
    let tag = keys.sign('a', id.as_bytes(), port, expires.as_bytes()).unwrap();
    String::from_utf8(tag.to_vec()).unwrap()
}

#[test]
fn a_signed_route_is_let_in_in_all_three_forms_until_its_time_is_over() {
    let (_writer, reader, door, keys) = closed();
    assert_eq!(u64::from_str_radix(EXPIRES, 36), Ok(NOW + 60));
    let tag = tag(&keys, "box", 8080, EXPIRES);
    let label = format!("box-8080-{EXPIRES}-{tag}");
    let host = format!("{label}.example.com");
    let path = format!("/box/8080/{EXPIRES}/{tag}/x");
    let forms: [&[(&str, &str)]; 4] = [
        &[(":authority", &host)],
        &[("opensandbox-ingress-to", &label)],
        &[("opensandbox-ingress-to", &host)],
        &[(":path", &path)],
    ];
    for form in forms {
        door.now.set(NOW + 60);
        assert_eq!(found(&reader, "", form, &door), Ok("box".into()), "{form:?}");
        door.now.set(NOW + 61);
        assert_eq!(found(&reader, "", form, &door), refused(Refusal::SignatureExpired), "{form:?}");
    }
}

#[test]
fn a_signed_route_is_for_its_sandbox_and_port_and_a_wrong_token_beside_it_decides() {
    let (_writer, reader, door, keys) = closed();
    let good = tag(&keys, "box", 8080, EXPIRES);
    let unauthorized = || refused(Refusal::Unauthorized { header: SECURE_ACCESS });
    let ask = |label: String, more: &[(&str, &str)]| {
        found(&reader, "", &[&[("opensandbox-ingress-to", label.as_str())], more].concat(), &door)
    };
    assert_eq!(ask(format!("box-8080-{EXPIRES}-{good}"), &[]), Ok("box".into()));
    assert_eq!(ask(format!("box-8081-{EXPIRES}-{good}"), &[]), unauthorized());
    for token in ["", "wrong"] {
        let sent = [(SECURE_ACCESS, token)];
        assert_eq!(ask(format!("box-8080-{EXPIRES}-{good}"), &sent), unauthorized(), "{token:?}");
    }
    assert_eq!(ask(format!("box-8080-{EXPIRES}-{good}"), &[(SECURE_ACCESS, "s3cret")]), Ok("box".into()));
    assert_eq!(ask("box-8080".into(), &[]), unauthorized());
    let none = TestDoor::default();
    let label = format!("box-8080-{EXPIRES}-{good}");
    let sent = [("opensandbox-ingress-to", label.as_str())];
    assert_eq!(found(&reader, "", &sent, &none), refused(Refusal::RouteKeysMissing));
}

#[test]
fn who_guesses_at_tags_has_to_wait_even_when_one_is_right_and_others_do_not() {
    let (_writer, reader, door, keys) = closed();
    let [known, right] = [8080, 9090].map(|port| (port, tag(&keys, "box", port, EXPIRES)));
    let ask = |port: u16, tag: &str| {
        let label = format!("box-{port}-{EXPIRES}-{tag}");
        found(&reader, "", &[("opensandbox-ingress-to", label.as_str())], &door)
    };
    assert_eq!(ask(known.0, &known.1), Ok("box".into()));
    for _ in 0..PER_SOURCE {
        assert_eq!(ask(9090, "00000000a"), refused(Refusal::Unauthorized { header: SECURE_ACCESS }));
    }
    let limited = ask(9090, "00000000a");
    assert!(matches!(limited, Err(Stop::Refuse(Refusal::TooManyFailures { seconds: 1..=7 }))), "{limited:?}");
    let limited = ask(right.0, &right.1);
    assert!(matches!(limited, Err(Stop::Refuse(Refusal::TooManyFailures { .. }))), "{limited:?}");
    assert_eq!(ask(known.0, &known.1), Ok("box".into()), "it was good before");
    door.source.set(Some([192, 0, 2, 2].into()));
    assert_eq!(ask(right.0, &right.1), Ok("box".into()));
    door.source.set(Some([192, 0, 2, 1].into()));
    door.now.set(NOW + 6);
    assert_eq!(ask(9090, "00000000a"), refused(Refusal::Unauthorized { header: SECURE_ACCESS }));
}

#[test]
fn a_signature_means_nothing_to_a_sandbox_that_is_open() {
    let (_writer, reader) = table([sandbox()]);
    let sent = [("opensandbox-ingress-to", "box-8080-1-00000000a")];
    assert_eq!(found(&reader, "", &sent, &TestDoor::default()), Ok("box".into()));
}
