//! What a credential adds to a decision: the same request to a sandbox that asks for nothing, and to one that
//! asks. Headers come from a list, not from Envoy.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sandgate_auth::{Failures, Keys, KnownTags, Reviewed, ScopedKey, SignedKeys, StaticToken};
use sandgate_benches::record::Record;
use sandgate_request::{
    Decision, Door, FilterConfig, Recognition, TrafficJwt, choose_reading, decide, recognise,
};
use sandgate_routes::{Clash, Limits, ObjectKey, Observation, Route, RouteTable, Secret, State};

const NOW: u64 = 1_700_000_000;
const SANDBOXES: usize = 1000;
const TOKEN: &str = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
/// Far from now, in base 36.
const EXPIRES: &str = "1vuhmo0";

struct BenchDoor {
    keys: Keys,
    failures: Failures,
    tags: RefCell<KnownTags>,
}

impl Door for BenchDoor {
    fn keys<R>(&self, f: impl FnOnce(&Keys) -> R) -> R {
        f(&self.keys)
    }

    fn unix(&self) -> u64 {
        NOW
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(1000)
    }

    fn source(&self) -> Option<IpAddr> {
        Some([192, 0, 2, 1].into())
    }

    fn traffic_jwt(&self, _: &[u8], _: &Route) -> TrafficJwt {
        TrafficJwt::NotReady
    }

    fn reviewed<R>(&self, _: &[u8], f: impl FnOnce(Option<&Reviewed>) -> R) -> R {
        f(None)
    }

    fn failures(&self) -> &Failures {
        &self.failures
    }

    fn known_tags<R>(&self, f: impl FnOnce(&mut KnownTags) -> R) -> R {
        f(&mut self.tags.borrow_mut())
    }
}

type Request = Vec<(&'static str, String)>;

/// One way to ask, and what it is compared with.
struct Case {
    name: &'static str,
    config: FilterConfig,
    requests: Vec<Request>,
}

fn observation(kind: &str, number: usize) -> Observation {
    let name = format!("{kind}-{number:04}");
    Observation {
        key: ObjectKey::new("agent-sandbox", "team", &name).expect("a key"),
        id: format!("team--{name}"),
        uid: format!("6ba7b810-9dad-11d1-80b4-{number:012}"),
        owner: String::new(),
        state: State::Running,
        version: "1".parse().expect("a version"),
        ip: Some([10, 0, 0, 1].into()),
        token: match kind {
            "runtime" => Some(Secret::new(TOKEN)),
            "closed" => Some(Secret::secure_access(TOKEN)),
            _ => None,
        },
        traffic_token: (kind == "private").then(|| Secret::new(TOKEN)),
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: true,
    }
}

fn config(json: &str) -> FilterConfig {
    FilterConfig::parse(json.as_bytes()).expect("a config")
}

fn cases(scoped: &ScopedKey, signed: &SignedKeys) -> Vec<Case> {
    let by_header = |kind: &str, number: usize| -> Request {
        vec![("e2b-sandbox-id", format!("team--{kind}-{number:04}")), ("e2b-sandbox-port", "8000".into())]
    };
    let all = |one: &dyn Fn(usize) -> Request| (0..SANDBOXES).map(one).collect::<Vec<_>>();
    let with = |mut request: Request, name: &'static str, value: String| {
        request.push((name, value));
        request
    };
    let auth = r#"{"enable-auth":true}"#;
    let bearing = |number: usize, token: String| {
        let request =
            vec![("x-sandbox-id", format!("open-{number:04}")), ("x-sandbox-namespace", "team".into())];
        with(request, "authorization", format!("Bearer {token}"))
    };
    let ingress = |kind: &str, number: usize, rest: &str| -> Request {
        vec![("opensandbox-ingress-to", format!("team--{kind}-{number:04}-8000{rest}"))]
    };
    let tag = |number: usize| {
        let id = format!("team--closed-{number:04}");
        let tag = signed.sign('a', id.as_bytes(), 8000, EXPIRES.as_bytes()).expect("a key");
        format!("-{EXPIRES}-{}", String::from_utf8_lossy(&tag))
    };
    vec![
        Case { name: "nothing", config: config(auth), requests: all(&|n| by_header("open", n)) },
        Case {
            name: "static token",
            config: config(auth),
            requests: all(&|n| with(by_header("runtime", n), "x-access-token", TOKEN.into())),
        },
        Case {
            name: "traffic token",
            config: config(auth),
            requests: all(&|n| with(by_header("private", n), "e2b-traffic-access-token", TOKEN.into())),
        },
        Case {
            name: "secure access",
            config: config(auth),
            requests: all(&|n| with(by_header("closed", n), "opensandbox-secure-access", TOKEN.into())),
        },
        Case {
            name: "nothing, agent-sandbox",
            config: config(auth),
            requests: all(&|n| bearing(n, TOKEN.into())),
        },
        Case {
            name: "bearer, agent-sandbox",
            config: config(r#"{"callers":{"mode":"bearer"}}"#),
            requests: all(&|n| bearing(n, TOKEN.into())),
        },
        Case {
            name: "scoped, agent-sandbox",
            config: config(r#"{"callers":{"mode":"scoped-token"}}"#),
            requests: all(&|n| bearing(n, scoped.sign("team", &format!("open-{n:04}"), i64::MAX))),
        },
        Case {
            name: "nothing, opensandbox",
            config: config(auth),
            requests: all(&|n| ingress("open", n, "")),
        },
        Case {
            name: "signed, opensandbox",
            config: config(auth),
            requests: all(&|n| ingress("closed", n, &tag(n))),
        },
    ]
}

/// ns of a decision, by what the sandbox asks for.
pub(crate) fn request(record: &mut Record, quick: bool) {
    let (rounds, sweeps) = if quick { (5, 20) } else { (25, 100) };
    let scoped = ScopedKey::new(&[b'k'; 32]).expect("a key");
    let signed = SignedKeys::parse(b"a=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").expect("a key");
    let door = BenchDoor {
        keys: Keys {
            signed: Some(Arc::new(signed.clone())),
            scoped: [scoped.clone()].into(),
            bearer: [StaticToken::new(TOKEN.as_bytes()).expect("a token")].into(),
            ..Keys::default()
        },
        failures: Failures::default(),
        tags: RefCell::default(),
    };
    let (writer, reader) = RouteTable::new(Limits::default());
    for kind in ["open", "runtime", "private", "closed"] {
        for number in 0..SANDBOXES {
            assert!(writer.apply(observation(kind, number)).is_applied());
        }
    }
    writer.set_ready();
    let cases = cases(&scoped, &signed);
    for round in 0..rounds {
        for case in &cases {
            let start = Instant::now();
            for _ in 0..sweeps {
                for request in &case.requests {
                    let headers = request.as_slice();
                    let Recognition::Addressed(mut address) = recognise(black_box(headers), &case.config)
                    else {
                        panic!("{}: an address", case.name)
                    };
                    let table = reader.pin();
                    let chosen = choose_reading(&mut address, &table, headers, &case.config, &door);
                    assert_eq!(chosen, Ok(()));
                    let decision = decide(&address, &table, true, headers, &case.config, &door);
                    assert!(matches!(black_box(decision), Decision::Forward(_)), "{}", case.name);
                }
            }
            let ns = start.elapsed().as_nanos() as f64 / (sweeps * SANDBOXES) as f64;
            record.add("decision ns", case.name, 0, "", round, ns);
        }
    }
}
