//! The request path makes no allocation of its own: from the headers to the decision and the upstream
//! address.

use sandgate_request::{Decision, FilterConfig, Keyless, Recognition, choose_reading, decide, recognise};
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, Secret, State};

#[test]
fn recognising_and_deciding_allocate_nothing() {
    let config = FilterConfig::parse(
        br#"{"enable-auth":true,"domains":["example.com","localhost"],
          "dialects":{"kruise":{"path":true},"opensandbox":{"path":true,"agent-sandbox-namespaces":["default","team"]},
            "sandbox-env":{"path":true}},"allowed-ports":["1-65535"]}"#,
    )
    .expect("the config is valid");
    let (writer, reader) = RouteTable::new(Limits::default());
    for (id, state) in [("default--demo", State::Running), ("default--asleep", State::Paused)] {
        let name = id.trim_start_matches("default--");
        let outcome = writer.apply(Observation {
            key: ObjectKey::new("test", "default", name).expect("the key is valid"),
            id: id.into(),
            uid: format!("uid-{name}"),
            owner: String::new(),
            state,
            version: "1".parse().expect("the version is valid"),
            ip: Some([127, 0, 0, 1].into()),
            token: Some(Secret::new("s3cret")),
            traffic_token: None,
            require_traffic_auth: false,
            clash: Clash::Rank,
            created: None,
            ip_is_claimed: false,
            own_id: false,
        });
        assert!(outcome.is_applied());
    }
    writer.set_ready();
    let door = Keyless::default();
    let token = ("x-access-token", "s3cret");
    let secure = ("opensandbox-secure-access", "s3cret");
    let long = "a".repeat(4096);
    let requests: [(&str, Vec<(&str, &str)>); 25] = [
        ("forward", vec![(":path", "/kruise/default--demo/80/x"), token]),
        ("forward", vec![("e2b-sandbox-id", "default--demo"), ("e2b-sandbox-port", "80"), token]),
        ("forward", vec![(":path", "/"), (":authority", "80-default--demo.example.com:8080"), token]),
        ("forward", vec![(":authority", "80-Default--Demo.LOCALHOST."), token]),
        ("forward", vec![("x-sandbox-id", "demo"), ("x-sandbox-uid", "uid-demo"), token]),
        (
            "forward",
            vec![("opensandbox-ingress-to", "default--demo-80"), ("opensandbox-secure-access", "s3cret")],
        ),
        ("forward", vec![(":path", "/default--demo/80/x"), ("opensandbox-secure-access", "s3cret")]),
        (
            "forward",
            vec![
                ("e2b-sandbox-id", "default--demo"),
                (":authority", "49983-default--demo.example.com"),
                token,
            ],
        ),
        ("forward", vec![("x-sandbox-id", "demo"), ("x-sandbox-port", "80"), token]),
        ("forward", vec![("x-sandbox-id", "default--demo"), ("x-sandbox-port", "80"), token]),
        (
            "forward",
            vec![
                ("x-sandbox-id", "default--demo"),
                ("x-sandbox-port", "80"),
                (":authority", "80-default--demo.example.com"),
                token,
            ],
        ),
        ("forward", vec![(":path", "/sandboxes/default--demo/80/x"), token]),
        // Signed, and an object found by its name.
        ("forward", vec![(":path", "/default--demo/80/1vuhmo0/0a1b2c3dk/x"), secure]),
        ("forward", vec![(":authority", "default--demo-80-1vuhmo0-0a1b2c3dk.example.com"), secure]),
        ("forward", vec![("opensandbox-ingress-to", "https://Demo-80"), secure]),
        ("forward", vec![(":path", "/v1/sandboxes/demo/proxy/80/x"), secure]),
        (
            "refuse",
            vec![(":path", "/nobody-has-this-name-which-is-longer-than-any-label-of-dns-can-be/80/x")],
        ),
        ("refuse", vec![("x-sandbox-id", "nobody"), ("x-sandbox-port", "80")]),
        ("conflicting", vec![("e2b-sandbox-id", "default--demo"), (":authority", "80-other.example.com")]),
        ("refuse", vec![(":authority", "80-nobody-3000.example.com")]),
        ("refuse", vec![("e2b-sandbox-id", "default--demo")]),
        ("refuse", vec![("e2b-sandbox-id", "default--asleep")]),
        ("refuse", vec![("e2b-sandbox-id", "nobody")]),
        ("malformed", vec![("e2b-sandbox-id", &long)]),
        ("unaddressed", vec![(":path", "/index.html"), (":authority", "www.example.com")]),
    ];
    for (expected, headers) in &requests {
        let headers = headers.as_slice();
        let serve = || match recognise(headers, &config) {
            Recognition::Addressed(mut address) => {
                let ready = reader.is_ready();
                let table = reader.pin();
                assert_eq!(choose_reading(&mut address, &table, headers, &config, &door), Ok(()));
                match decide(&address, &table, ready, headers, &config, &door) {
                    Decision::Forward(pass) => {
                        assert!(!pass.route.authority(address.port()).as_str().is_empty());
                        "forward"
                    }
                    Decision::Wait(_) | Decision::Refuse(_) => "refuse",
                }
            }
            Recognition::Malformed { .. } => "malformed",
            Recognition::Conflicting { .. } => "conflicting",
            Recognition::Unaddressed => "unaddressed",
        };
        // The first look at the table sets this thread up; no request pays for that.
        assert_eq!(serve(), *expected, "{headers:?}");
        let counted = allocation_counter::measure(|| {
            serve();
        });
        assert_eq!(counted.count_total, 0, "{headers:?}");
    }
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1, "the counter counts");
}
