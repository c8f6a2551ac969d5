use std::net::{IpAddr, Ipv4Addr};

use sandgate_routes::{
    Clash, Limits, ObjectKey, Observation, RouteReader, RouteTable, RouteWriter, Secret, State, Version,
};

use super::{Decision, Stop, choose_reading, decide};
use crate::{
    ACCESS_TOKEN, Dialect, FilterConfig, Form, Part, Recognition, Refusal, SECURE_ACCESS, recognise,
};
use door::TestDoor;

mod callers;

mod credentials;
mod door;

const IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A sandbox `team/box` with the ID `box`, running, with no token.
fn sandbox() -> Observation {
    Observation {
        key: ObjectKey::new("test", "team", "box").expect("the key is valid"),
        id: "box".into(),
        uid: "uid-1".into(),
        owner: String::new(),
        state: State::Running,
        version: "1".parse::<Version>().expect("the version is valid"),
        ip: Some(IP),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

fn table(sandboxes: impl IntoIterator<Item = Observation>) -> (RouteWriter, RouteReader) {
    let (writer, reader) = RouteTable::new(Limits::default());
    for sandbox in sandboxes {
        assert!(writer.apply(sandbox).is_applied());
    }
    writer.set_ready();
    (writer, reader)
}

/// `Ok` with the ID of the route that serves and whether the request's `Authorization` was for the gateway,
/// or why none serves.
fn asked<V: AsRef<[u8]> + std::fmt::Debug>(
    reader: &RouteReader,
    config: &str,
    headers: &[(&str, V)],
    door: &TestDoor,
) -> Result<(String, bool), Stop> {
    let config = FilterConfig::parse(config.as_bytes()).expect("a config for a test is valid");
    let Recognition::Addressed(mut address) = recognise(headers, &config) else {
        panic!("{headers:?} is no address");
    };
    let ready = reader.is_ready();
    choose_reading(&mut address, &reader.pin(), headers, &config, door)?;
    match decide(&address, &reader.pin(), ready, headers, &config, door) {
        Decision::Forward(pass) => {
            assert!(pass.route.ip().is_some(), "what is forwarded has somewhere to go");
            Ok((pass.route.id().to_owned(), pass.authorization_is_ours))
        }
        Decision::Wait(wait) => Err(Stop::Wait(wait)),
        Decision::Refuse(refusal) => Err(Stop::Refuse(refusal)),
    }
}

/// The same without keys.
fn decided(reader: &RouteReader, config: &str, headers: &[(&str, &str)]) -> Result<String, Refusal> {
    asked(reader, config, headers, &TestDoor::default()).map(|pass| pass.0).map_err(|stop| match stop {
        Stop::Refuse(refusal) => refusal,
        Stop::Wait(wait) => panic!("nothing here waits for {wait:?}"),
    })
}

const AUTH: &str = r#"{"enable-auth":true}"#;
const BOX: (&str, &str) = ("e2b-sandbox-id", "box");

#[test]
fn a_running_sandbox_is_forwarded_to() {
    let (_writer, reader) = table([sandbox()]);
    assert_eq!(decided(&reader, "", &[BOX]), Ok("box".into()));
    assert_eq!(decided(&reader, "", &[("e2b-sandbox-id", "other")]), Err(Refusal::Unknown));
}

#[test]
fn nothing_is_served_before_the_table_is_complete_not_even_what_is_in_it() {
    let (writer, reader) = RouteTable::new(Limits::default());
    assert!(writer.apply(sandbox()).is_applied());
    assert_eq!(decided(&reader, "", &[BOX]), Err(Refusal::NotReady));
    writer.set_ready();
    assert_eq!(decided(&reader, "", &[BOX]), Ok("box".into()));
}

#[test]
fn no_state_but_running_is_served() {
    for state in [State::Creating, State::Available, State::Paused] {
        let (_writer, reader) = table([Observation { state, ..sandbox() }]);
        assert_eq!(decided(&reader, "", &[BOX]), Err(Refusal::NotRunning(state)));
    }
    let (_writer, reader) = table([Observation { ip: None, ..sandbox() }]);
    assert_eq!(decided(&reader, "", &[BOX]), Err(Refusal::NotRunning(State::Creating)));
    let (_writer, reader) = table([Observation { state: State::Dead, ..sandbox() }]);
    assert_eq!(decided(&reader, "", &[BOX]), Err(Refusal::Unknown));
}

#[test]
fn an_id_from_a_host_is_looked_up_in_lower_case_and_only_then_as_sent() {
    let upper = || Observation {
        key: ObjectKey::new("test", "team", "upper").expect("the key is valid"),
        id: "BOX".into(),
        uid: "uid-2".into(),
        ..sandbox()
    };
    let (_writer, reader) = table([sandbox(), upper()]);
    let host = |host| decided(&reader, "", &[(":authority", host)]);
    assert_eq!(host("80-box.example.com"), Ok("box".into()));
    assert_eq!(host("80-BOX.example.com"), Ok("box".into()), "a newcomer gets nothing by another case");
    assert_eq!(host("80-Box.example.com"), Ok("box".into()));
    assert_eq!(host("Box-80.example.com"), Ok("box".into()));
    assert_eq!(host("80-Boy.example.com"), Err(Refusal::Unknown));
    assert_eq!(decided(&reader, "", &[("e2b-sandbox-id", "Box")]), Err(Refusal::Unknown));
    assert_eq!(decided(&reader, "", &[(":path", "/kruise/Box/80/")]), Err(Refusal::Unknown));
    let (_writer, reader) = table([upper()]);
    let host = |host| decided(&reader, "", &[(":authority", host)]);
    assert_eq!(host("80-box.example.com"), Err(Refusal::Unknown));
    assert_eq!(host("80-BOX.example.com"), Ok("BOX".into()));
}

#[test]
fn an_agent_sandbox_request_gets_the_object_it_named_or_nothing() {
    let object = |namespace: &str, name: &str| Observation {
        key: ObjectKey::new("test", namespace, name).expect("the key is valid"),
        id: "a--b--c".into(),
        ..sandbox()
    };
    let ask = |reader: &RouteReader, namespace: &str, name: &str| {
        decided(reader, "", &[("x-sandbox-id", name), ("x-sandbox-namespace", namespace)])
    };
    let (_writer, reader) = table([object("a", "b--c")]);
    assert_eq!(ask(&reader, "a", "b--c"), Ok("a--b--c".into()));
    assert_eq!(ask(&reader, "a--b", "c"), Err(Refusal::Unknown));
    // An ID may be anything: here another object has taken one that looks composed.
    let (_writer, reader) = table([object("x", "y")]);
    assert_eq!(ask(&reader, "a", "b--c"), Err(Refusal::Unknown));
    assert_eq!(decided(&reader, "", &[("e2b-sandbox-id", "a--b--c")]), Ok("a--b--c".into()));
}

#[test]
fn a_uid_that_is_sent_must_be_the_sandboxs_in_every_form() {
    let (_writer, reader) = table([Observation { id: "team--box".into(), ..sandbox() }]);
    let forms: [&[(&str, &str)]; 9] = [
        &[(":path", "/kruise/team--box/80/")],
        &[("x-sandbox-id", "team--box"), ("x-sandbox-port", "80")],
        &[(":path", "/sandboxes/team--box/80/")],
        &[("e2b-sandbox-id", "team--box")],
        &[("opensandbox-ingress-to", "team--box-80")],
        &[("x-sandbox-id", "box"), ("x-sandbox-namespace", "team")],
        &[(":authority", "80-team--box.example.com")],
        &[(":authority", "team--box-80.example.com")],
        &[(":path", "/team--box/80/")],
    ];
    for form in forms {
        let ask = |uids: &[&'static str]| {
            let sent: Vec<_> = uids.iter().map(|uid| ("x-sandbox-uid", *uid)).collect();
            decided(&reader, "", &[form, &sent].concat())
        };
        for good in [&[][..], &["uid-1"], &[""]] {
            assert_eq!(ask(good), Ok("team--box".into()), "{form:?} {good:?}");
        }
        for uid in ["uid-2", "UID-1", "uid-11"] {
            assert_eq!(ask(&[uid]), Err(Refusal::Unknown), "{form:?} {uid:?}");
        }
        let twice = ask(&["uid-1", "uid-1"]);
        assert!(matches!(twice, Err(Refusal::Malformed { part: Part::Repeated, .. })), "{twice:?}");
    }
}

#[test]
fn of_two_readings_of_a_sandbox_id_the_one_that_is_known_is_meant_and_two_that_are_known_are_refused() {
    let called = |namespace: &str, name: &str, id: &str| Observation {
        key: ObjectKey::new("test", namespace, name).expect("the key is valid"),
        id: id.into(),
        ..sandbox()
    };
    let named = || called("default", "demo", "default--demo");
    let claimed = || called("team", "pool-x7k2p", "demo");
    let header = [("x-sandbox-id", "demo"), ("x-sandbox-port", "80")];
    let (writer, reader) = table([named(), claimed()]);
    assert_eq!(decided(&reader, "", &header), Err(Refusal::TwoReadings));
    let namespace = [header[0], header[1], ("x-sandbox-namespace", "default")];
    assert_eq!(decided(&reader, "", &namespace), Ok("default--demo".into()));
    assert_eq!(decided(&reader, "", &header[..1]), Ok("default--demo".into()), "an ID has no default port");
    let alone = r#"{"dialects":{"agent-sandbox":{"enabled":false}}}"#;
    assert_eq!(decided(&reader, alone, &header), Ok("demo".into()));
    writer.delete(&claimed().key, None);
    assert_eq!(decided(&reader, "", &header), Ok("default--demo".into()));
    let (_writer, reader) = table([claimed()]);
    assert_eq!(decided(&reader, "", &header), Ok("demo".into()));
    assert_eq!(decided(&reader, "", &namespace), Err(Refusal::Unknown));
    let (_writer, reader) = table([]);
    assert_eq!(decided(&reader, "", &header), Err(Refusal::Unknown));
    // An object that is not the one named, under an ID that looks composed, is not what is meant.
    let (_writer, reader) = table([called("x", "y", "default--demo"), claimed()]);
    assert_eq!(decided(&reader, "", &header), Ok("demo".into()));
    // One that is known and not running is what is meant, all the same.
    let (_writer, reader) = table([Observation { state: State::Unknown, ..claimed() }]);
    assert_eq!(decided(&reader, "", &header), Err(Refusal::NotRunning(State::Unknown)));
}

#[test]
fn of_two_readings_of_a_host_the_one_that_is_known_is_meant_and_two_that_are_known_are_refused() {
    let called = |id: &str| Observation {
        key: ObjectKey::new("test", "team", id).expect("the key is valid"),
        id: id.into(),
        ..sandbox()
    };
    let ask = |reader: &RouteReader, host: &str| decided(reader, "", &[(":authority", host)]);
    let (writer, reader) = table([called("web-3000")]);
    assert_eq!(ask(&reader, "80-web-3000.example.com"), Ok("web-3000".into()));
    assert_eq!(ask(&reader, "80-Web-3000.example.com"), Ok("web-3000".into()));
    assert!(writer.apply(called("80-web")).is_applied());
    assert_eq!(ask(&reader, "80-web-3000.example.com"), Err(Refusal::TwoReadings));
    assert_eq!(ask(&reader, "80-WEB-3000.example.com"), Err(Refusal::TwoReadings));
    assert!(writer.delete(&called("web-3000").key, None).is_applied());
    assert_eq!(ask(&reader, "80-web-3000.example.com"), Ok("80-web".into()));
    assert_eq!(ask(&reader, "81-web-3000.example.com"), Err(Refusal::Unknown));
    let uuid = "12345678-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
    let (_writer, reader) = table([called(uuid)]);
    assert_eq!(ask(&reader, &format!("{uuid}-8080.example.com")), Ok(uuid.into()));
    assert_eq!(ask(&reader, &format!("8080-{uuid}.example.com")), Ok(uuid.into()));
}

#[test]
fn a_settled_address_is_the_reading_that_is_known() {
    let (_writer, reader) = table([Observation { id: "80-web".into(), ..sandbox() }]);
    let host: &[(&str, &str)] = &[(":authority", "80-web-3000.example.com")];
    let Recognition::Addressed(mut address) = recognise(host, &FilterConfig::default()) else {
        panic!("a host is an address");
    };
    let config = FilterConfig::default();
    let chosen = choose_reading(&mut address, &reader.pin(), host, &config, &TestDoor::default());
    assert_eq!(chosen, Ok(()));
    assert_eq!((address.form(), address.id(), address.port()), (Form::OpenSandboxHost, "80-web", 3000));
    assert!(!address.has_two_readings());
}

#[test]
fn connect_and_trace_are_refused_whatever_they_address() {
    let (_writer, reader) = table([sandbox()]);
    for (method, expected) in [
        ("GET", Ok("box".to_owned())),
        ("OPTIONS", Ok("box".into())),
        ("PURGE", Ok("box".into())),
        ("CONNECT", Err(Refusal::Method)),
        ("TRACE", Err(Refusal::Method)),
    ] {
        assert_eq!(decided(&reader, "", &[BOX, (":method", method)]), expected, "{method}");
    }
}

#[test]
fn only_the_allowed_ports_are_reached_and_never_a_denied_one() {
    let (_writer, reader) = table([sandbox()]);
    let ask = |config, port| decided(&reader, config, &[BOX, ("e2b-sandbox-port", port)]).is_ok();
    let listed = r#"{"allowed-ports":[80,"443","3000-3999"],"denied-ports":["3500-3501"]}"#;
    for port in ["80", "443", "3000", "3499", "3502", "3999"] {
        assert!(ask(listed, port), "{port}");
    }
    for port in ["1", "79", "81", "2999", "3500", "3501", "4000", "65535"] {
        assert!(!ask(listed, port), "{port}");
    }
    assert!(ask(r#"{"denied-ports":[9901]}"#, "9902") && !ask(r#"{"denied-ports":[9901]}"#, "9901"));
    let refused = decided(&reader, listed, &[BOX]);
    assert_eq!(refused, Err(Refusal::PortNotAllowed), "the default port too");
}

#[test]
fn a_sandbox_that_its_owner_has_closed_is_served_with_its_token_only_without_any_switch() {
    let token = Some(Secret::secure_access("s3cret"));
    let (_writer, reader) = table([Observation { id: "team--box".into(), token, ..sandbox() }]);
    let forms: [&[(&str, &str)]; 4] = [
        &[("e2b-sandbox-id", "team--box")],
        &[("x-sandbox-id", "box"), ("x-sandbox-namespace", "team")],
        &[("opensandbox-ingress-to", "team--box-80")],
        &[(":authority", "80-team--box.example.com")],
    ];
    for config in ["", AUTH] {
        for form in forms {
            let ask =
                |tokens: &[(&'static str, &'static str)]| decided(&reader, config, &[form, tokens].concat());
            for right in ["s3cret", " s3cret\t"] {
                assert_eq!(ask(&[(SECURE_ACCESS, right)]), Ok("team--box".into()), "{form:?}");
            }
            for wrong in
                [&[][..], &[(SECURE_ACCESS, "")], &[(SECURE_ACCESS, "s3cre")], &[(ACCESS_TOKEN, "s3cret")]]
            {
                assert_eq!(
                    ask(wrong),
                    Err(Refusal::Unauthorized { header: SECURE_ACCESS }),
                    "{form:?} {wrong:?}"
                );
            }
        }
    }
}

#[test]
fn a_token_header_that_is_sent_twice_is_refused_even_if_both_are_right() {
    let (_writer, reader) = table([Observation { token: Some(Secret::new("s3cret")), ..sandbox() }]);
    for config in ["", AUTH] {
        for name in [ACCESS_TOKEN, SECURE_ACCESS] {
            let twice = [BOX, (name, "s3cret"), (name, "s3cret")];
            let refused = Refusal::Malformed { form: Form::KruiseHeader, part: Part::Repeated };
            assert_eq!(decided(&reader, config, &twice), Err(refused), "{config} {name}");
        }
    }
}

#[test]
fn of_two_sandboxes_with_one_id_that_will_not_share_it_none_is_served_in_any_dialect() {
    let claim = |name: &str, state: State| Observation {
        key: ObjectKey::new("test", "team", name).expect("the key is valid"),
        id: "team--box".into(),
        uid: format!("uid-{name}"),
        state,
        token: Some(Secret::new("s3cret")),
        clash: Clash::Refuse,
        ..sandbox()
    };
    let requests: [&[(&str, &str)]; 4] = [
        &[("e2b-sandbox-id", "team--box")],
        &[("x-sandbox-id", "box"), ("x-sandbox-namespace", "team")],
        &[("opensandbox-ingress-to", "team--box-80")],
        &[(":authority", "80-Team--Box.example.com")],
    ];
    // Whichever stands for both, and whatever its state.
    for other in ["another", "zebra"] {
        let (writer, reader) = table([claim("box", State::Running), claim(other, State::Paused)]);
        for headers in requests {
            assert_eq!(decided(&reader, AUTH, headers), Err(Refusal::Ambiguous), "{headers:?} {other}");
        }
        assert!(writer.delete(&claim(other, State::Paused).key, None).is_applied());
        for headers in requests {
            assert_eq!(decided(&reader, "", headers), Ok("team--box".into()), "{headers:?} {other}");
        }
    }
}

#[test]
fn with_auth_the_token_must_be_right_where_the_sandbox_has_one() {
    let (_writer, reader) = table([Observation { token: Some(Secret::new("s3cret")), ..sandbox() }]);
    let kruise = |config, token: Option<&'static str>| {
        let mut headers = vec![BOX];
        headers.extend(token.map(|token| ("x-access-token", token)));
        decided(&reader, config, &headers)
    };
    assert_eq!(kruise(AUTH, Some("s3cret")), Ok("box".into()));
    for token in [None, Some(""), Some("s3cre"), Some("s3crets"), Some("S3CRET"), Some("s3crex")] {
        let refused = Refusal::Unauthorized { header: ACCESS_TOKEN };
        assert_eq!(kruise(AUTH, token), Err(refused), "{token:?}");
        assert_eq!(kruise("", token), Ok("box".into()), "not checked unless asked for");
    }
    let (_writer, open) = table([sandbox()]);
    assert_eq!(decided(&open, AUTH, &[BOX]), Ok("box".into()));
    assert_eq!(decided(&open, AUTH, &[BOX, ("x-access-token", "any")]), Ok("box".into()));
}

#[test]
fn each_dialect_has_one_header_for_the_token_and_no_fallback() {
    let (_writer, reader) =
        table([Observation { id: "team--box".into(), token: Some(Secret::new("s3cret")), ..sandbox() }]);
    let ask = |address: &[(&'static str, &'static str)], tokens: &[(&'static str, &'static str)]| {
        decided(&reader, AUTH, &[address, tokens].concat())
    };
    let kruise = [("e2b-sandbox-id", "team--box")];
    let sig = [("x-sandbox-id", "box"), ("x-sandbox-namespace", "team")];
    let opensandbox = [("opensandbox-ingress-to", "team--box-80")];
    let env = [(":path", "/sandboxes/team--box/80/")];
    for (address, right, other) in [
        (kruise.as_slice(), "x-access-token", "opensandbox-secure-access"),
        (sig.as_slice(), "x-access-token", "opensandbox-secure-access"),
        (env.as_slice(), "x-access-token", "opensandbox-secure-access"),
        (opensandbox.as_slice(), "opensandbox-secure-access", "x-access-token"),
    ] {
        assert_eq!(ask(address, &[(right, "s3cret")]), Ok("team--box".into()));
        let refused = Refusal::Unauthorized { header: right };
        assert_eq!(ask(address, &[(other, "s3cret")]), Err(refused));
        assert_eq!(ask(address, &[(right, "wrong"), (other, "s3cret")]), Err(refused));
    }
}

#[test]
fn a_sandbox_that_wants_verified_traffic_gets_none_while_nobody_can_verify() {
    let (_writer, reader) =
        table([Observation { require_traffic_auth: true, token: Some(Secret::new("s3cret")), ..sandbox() }]);
    for config in ["", AUTH] {
        let headers = [BOX, ("x-access-token", "s3cret")];
        assert_eq!(decided(&reader, config, &headers), Err(Refusal::JwtVerifierNotReady), "{config}");
        assert_eq!(decided(&reader, config, &[BOX]), Err(Refusal::JwtVerifierNotReady), "{config}");
    }
}

#[test]
fn without_a_dialect_the_statuses_are_openkruises() {
    for refusal in [
        Refusal::NotReady,
        Refusal::Unknown,
        Refusal::Ambiguous,
        Refusal::NotRunning(State::Paused),
        Refusal::Panic,
    ] {
        assert_eq!(refusal.status(None), refusal.status(Some(Dialect::Kruise)));
    }
}
