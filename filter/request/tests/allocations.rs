//! The request path makes no allocation of its own: from the headers to the decision and the upstream
//! address.

use sandgate_request::{Decision, FilterConfig, Recognition, choose_reading, decide, recognise};
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, RouteTable, Secret, State};

#[test]
fn recognising_and_deciding_allocate_nothing() {
    let config = FilterConfig::parse(
        br#"{"enable-auth":true,"domains":["example.com","localhost"],
          "dialects":{"kruise":{"path":true},"opensandbox":{"path":true},"sandbox-env":{"path":true}},"allowed-ports":["1-65535"]}"#,
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
            require_traffic_auth: false,
            clash: Clash::Rank,
            created: None,
            ip_is_claimed: false,
            own_id: false,
        });
        assert!(outcome.is_applied());
    }
    writer.set_ready();
    let token = ("x-access-token", "s3cret");
    let long = "a".repeat(4096);
    let requests: [(&str, Vec<(&str, &str)>); 20] = [
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
                assert_eq!(choose_reading(&mut address, &table), Ok(()));
                match decide(&address, &table, ready, headers, &config) {
                    Decision::Forward(route) => {
                        assert!(!route.authority(address.port()).as_str().is_empty());
                        "forward"
                    }
                    Decision::Refuse(_) => "refuse",
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
