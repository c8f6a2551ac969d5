//! How a request names its sandbox: every form, and what becomes of a request that names two.

use sandgate_tests::{Gateway, Reply, Request, SECRET, replace_by_rename, route, routes};
use serde_json::json;

use crate::support::{AGENT_SANDBOX_PORT, KRUISE_PORT, PORT, assert_refused, demo, sandbox};

/// Replaces the routes file and waits until the gateway has read it, for the `generation`th time.
async fn reload(gateway: &Gateway, generation: u64, text: &str) {
    replace_by_rename(&gateway.routes_file(), text);
    gateway.generation(generation).await;
}

/// The parts of a request that can name a sandbox.
#[derive(Clone, Default)]
struct Parts {
    path: Option<String>,
    host: Option<String>,
    headers: Vec<(&'static str, String)>,
}

impl Parts {
    fn request(self) -> Request {
        let mut request = Request::get(self.path.as_deref().unwrap_or("/here"));
        if let Some(host) = self.host {
            request = request.host(&host);
        }
        self.headers.into_iter().fold(request, |request, (name, value)| request.header(name, value))
    }
}

/// Adds what names a sandbox.
type Add = fn(&mut Parts, &str);

/// The forms in the documented order. Each adds to a request what names `default--{name}` on [`PORT`].
const FORMS: [(&str, Add); 9] = [
    ("kruise path", |parts, name| {
        parts.path = Some(format!("/kruise/default--{name}/{PORT}/here"));
    }),
    ("kruise header", |parts, name| {
        parts.headers.push(("e2b-sandbox-id", format!("default--{name}")));
        parts.headers.push(("e2b-sandbox-port", PORT.to_string()));
    }),
    ("opensandbox header", |parts, name| {
        parts.headers.push(("opensandbox-ingress-to", format!("default--{name}-{PORT}")));
    }),
    ("agent-sandbox header", |parts, name| {
        parts.headers.push(("x-sandbox-id", name.to_owned()));
        parts.headers.push(("x-sandbox-port", PORT.to_string()));
    }),
    ("kruise host", |parts, name| {
        parts.host = Some(format!("{PORT}-default--{name}.sandbox.test"));
    }),
    ("opensandbox host", |parts, name| {
        parts.host = Some(format!("default--{name}-{PORT}.sandbox.test"));
    }),
    ("sandbox-env path", |parts, name| {
        parts.path = Some(format!("/sandboxes/default--{name}/{PORT}/here"));
    }),
    ("opensandbox proxy path", |parts, name| {
        parts.path = Some(format!("/v1/sandboxes/default--{name}/proxy/{PORT}/here"));
    }),
    ("opensandbox path", |parts, name| {
        parts.path = Some(format!("/default--{name}/{PORT}/here"));
    }),
];

#[tokio::test]
async fn every_form_reaches_the_sandbox_it_names_and_a_second_that_names_another_is_refused() {
    let names = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
    let mut sandboxes = Vec::new();
    for name in names {
        sandboxes.push(sandbox(name).await);
    }
    let gateway =
        Gateway::serving(&routes(sandboxes.iter().map(|sandbox| route(sandbox.name()).ip(sandbox.ip()))))
            .await;
    let mut client = gateway.client().await;
    for (first, (form, add)) in FORMS.iter().enumerate() {
        let mut parts = Parts::default();
        add(&mut parts, names[first]);
        let reply = client.send(parts.clone().request()).await.expect("an answer");
        assert_eq!(reply.sandbox(), names[first], "{form}");
        assert_eq!((reply.seen_path().as_str(), reply.seen_port()), ("/here", PORT.into()), "{form}");
        let access = gateway.access(&reply).await;
        assert_eq!(access.upstream, sandboxes[first].authority(), "{form}");
        // A request has one path and one host, so of two forms in the same text the first stays.
        for (later, (other, add_other)) in FORMS.iter().enumerate().skip(first + 1) {
            let both = |name| {
                let mut both = Parts::default();
                add_other(&mut both, name);
                add(&mut both, names[first]);
                both.request()
            };
            let reply = gateway.send(both(names[first])).await;
            assert_eq!(reply.sandbox(), names[first], "{form} and {other} agree");
            let reply = gateway.send(both(names[later])).await;
            let is_one_text = first == 4 && later == 5;
            if is_one_text || later >= FORMS.len() - 3 {
                // An application's own path may look like one of the last forms.
                assert_eq!(reply.sandbox(), names[first], "{form} before {other}");
            } else {
                assert_refused(&gateway, &reply, 400, "conflicting_address").await;
            }
        }
    }
    gateway.stat_is("sandgate.rq_conflicting_address", 14).await;
}

#[tokio::test]
async fn a_host_id_that_is_a_uuid_is_served_whatever_digits_it_begins_or_ends_with() {
    let up = sandbox("up").await;
    let ids = [
        "12345678-0b4d-4e5f-9a6b-7c8d9e0f1a2b",
        "8c1f03a2-0b4d-4e5f-9a6b-123456789012",
        "10000000-2000-4000-8000-100000000001",
    ];
    let gateway = Gateway::serving(&routes(ids.map(|id| route(id).id(id).ip(up.ip())))).await;
    for id in ids {
        for host in [format!("{id}-{PORT}.sandbox.test"), format!("{PORT}-{id}.sandbox.test")] {
            let reply = gateway.send(Request::get("/").host(&host)).await;
            assert_eq!((reply.sandbox().as_str(), reply.seen_port()), ("up", PORT.into()), "{host}");
            assert_eq!(reply.seen("x-sandbox-id"), [id]);
        }
    }
}

#[tokio::test]
async fn a_host_with_two_readings_goes_to_the_sandbox_that_exists_and_is_refused_where_both_do() {
    let (front, back) = (sandbox("front").await, sandbox("back").await);
    let front_route = || route("front").id("web-8888").ip(front.ip());
    let back_route = || route("back").id("8000-web").ip(back.ip());
    let gateway = Gateway::serving(&routes([front_route()])).await;
    let ask = async || gateway.send(Request::get("/").host("8000-web-8888.sandbox.test")).await;
    let reply = ask().await;
    assert_eq!((reply.sandbox().as_str(), reply.seen_port()), ("front", 8000));
    reload(&gateway, 2, &routes([front_route(), back_route()])).await;
    assert_refused(&gateway, &ask().await, 400, "ambiguous_address").await;
    reload(&gateway, 3, &routes([back_route()])).await;
    let reply = ask().await;
    assert_eq!((reply.sandbox().as_str(), reply.seen_port()), ("back", 8888));
    reload(&gateway, 4, &routes([])).await;
    assert_refused(&gateway, &ask().await, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn a_sandbox_id_with_two_readings_goes_to_the_sandbox_that_exists_and_is_refused_where_both_do() {
    let (named, claimed) = (sandbox("named").await, sandbox("claimed").await);
    let by_name = || route("demo").ip(named.ip());
    let by_id = || route("pool-x7k2p").id("demo").ip(claimed.ip());
    let gateway = Gateway::serving(&routes([by_name()])).await;
    let request =
        || Request::get("/").header("x-sandbox-id", "demo").header("x-sandbox-port", PORT.to_string());
    let ask = async || gateway.send(request()).await;
    assert_eq!(ask().await.sandbox(), "named");
    reload(&gateway, 2, &routes([by_name(), by_id()])).await;
    assert_refused(&gateway, &ask().await, 400, "ambiguous_address").await;
    let reply = gateway.send(request().header("x-sandbox-namespace", "default")).await;
    assert_eq!(reply.sandbox(), "named");
    let reply = gateway.send(Request::get(&format!("/sandboxes/demo/{PORT}/"))).await;
    assert_eq!(reply.sandbox(), "claimed");
    reload(&gateway, 3, &routes([by_id()])).await;
    assert_eq!(ask().await.sandbox(), "claimed");
    reload(&gateway, 4, &routes([])).await;
    assert_refused(&gateway, &ask().await, 502, "sandbox_not_found").await;
    let reply = gateway.send(Request::get(&format!("/sandboxes/demo/{PORT}/"))).await;
    assert_refused(&gateway, &reply, 404, "sandbox_not_found").await;
}

#[tokio::test]
async fn with_a_uid_no_form_reaches_the_successor_of_a_deleted_sandbox() {
    let up = sandbox("up").await;
    let entry = |uid: &str| route("up").set("uid", uid).ip(up.ip());
    let gateway = Gateway::serving(&routes([entry("uid-1")])).await;
    let with_uid = |add: Add, uid: &str| {
        let mut parts = Parts::default();
        add(&mut parts, "up");
        parts.headers.push(("x-sandbox-uid", uid.to_owned()));
        parts.request()
    };
    for (form, add) in FORMS {
        for uid in ["uid-1", ""] {
            assert_eq!(gateway.send(with_uid(add, uid)).await.sandbox(), "up", "{form} {uid:?}");
        }
    }
    reload(&gateway, 2, &routes([entry("uid-2")])).await;
    for (form, add) in FORMS {
        let refused = gateway.send(with_uid(add, "uid-1")).await;
        let tells = ["opensandbox", "sandbox-env"].iter().any(|dialect| form.starts_with(dialect));
        let status = if tells { 404 } else { 502 };
        assert_refused(&gateway, &refused, status, "sandbox_not_found").await;
        assert_eq!(gateway.send(with_uid(add, "uid-2")).await.sandbox(), "up", "{form}");
    }
}

#[tokio::test]
async fn defaults_aliases_and_spellings_of_each_form_are_understood() {
    let (demo, gateway) = demo().await;
    let header = |name: &str, value: &str| Request::get("/").header(name, value);
    let host = |host: String| Request::get("/").host(&host);
    let cases = [
        ("kruise header, default port", header("e2b-sandbox-id", "default--demo"), KRUISE_PORT),
        ("kruise header in upper case", header("E2B-Sandbox-ID", "default--demo"), KRUISE_PORT),
        ("agent-sandbox header, defaults", header("x-sandbox-id", "demo"), AGENT_SANDBOX_PORT),
        (
            "agent-sandbox header, namespace",
            header("x-sandbox-id", "demo").header("x-sandbox-namespace", "default"),
            AGENT_SANDBOX_PORT,
        ),
        (
            "agent-sandbox header, empty ones",
            header("x-sandbox-id", "demo").header("x-sandbox-namespace", "").header("x-sandbox-port", ""),
            AGENT_SANDBOX_PORT,
        ),
        (
            "opensandbox header with a scheme",
            header("opensandbox-ingress-to", "https://default--demo-8000.sandbox.test:8443"),
            PORT,
        ),
        ("opensandbox host without a domain", host("default--demo-8000".into()), PORT),
        ("opensandbox host without a domain, with a port", host("default--demo-8000:7788".into()), PORT),
        (
            "opensandbox header with a domain",
            header("opensandbox-ingress-to", "default--demo-8000.sandbox.test"),
            PORT,
        ),
        ("opensandbox header, other name", header("open-sandbox-ingress", "default--demo-8000"), PORT),
        ("kruise host with a port", host("8000-default--demo.sandbox.test:7788".into()), PORT),
        ("kruise host with a trailing dot", host("8000-default--demo.sandbox.test.".into()), PORT),
        ("kruise host with both", host("8000-default--demo.sandbox.test.:7788".into()), PORT),
        ("kruise host in upper case", host("8000-DEFAULT--DEMO.SANDBOX.TEST".into()), PORT),
        ("kruise host under localhost", host("8000-default--demo.localhost".into()), PORT),
        ("opensandbox host with a port", host("default--demo-8000.sandbox.test:7788".into()), PORT),
        ("opensandbox host with a trailing dot", host("default--demo-8000.sandbox.test.".into()), PORT),
        ("opensandbox host in mixed case", host("Default--Demo-8000.Sandbox.Test".into()), PORT),
    ];
    for (what, request, port) in cases {
        let reply = gateway.send(request).await;
        assert_eq!((reply.sandbox(), reply.seen_port()), ("demo".to_owned(), port.into()), "{what}");
    }
    assert_eq!(demo.requests(), 18);
}

#[tokio::test]
async fn the_path_forms_hand_on_the_rest_of_the_path_byte_for_byte() {
    let (_demo, gateway) = demo().await;
    let rests = [
        ("", "/"),
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/b/?x=1&y=%2F%20", "/a/b/?x=1&y=%2F%20"),
        ("?only=query", "/?only=query"),
        ("/?q=/kruise/x/1/", "/?q=/kruise/x/1/"),
        ("//double//slashes", "//double//slashes"),
        ("/../dots/./stay", "/../dots/./stay"),
        ("/%2e%2e%2fescaped", "/%2e%2e%2fescaped"),
        ("/kruise/default--demo/8000/twice", "/kruise/default--demo/8000/twice"),
    ];
    let prefixes =
        ["/kruise/default--demo/8000", "/sandboxes/default--demo/proxy/8000", "/default--demo/8000"];
    for prefix in prefixes {
        for (rest, seen) in rests {
            let reply = gateway.send(Request::get(&format!("{prefix}{rest}"))).await;
            assert_eq!(
                (reply.sandbox().as_str(), reply.seen_path().as_str()),
                ("demo", seen),
                "{prefix}{rest}"
            );
        }
    }
    // The other forms do not touch the path, whatever it looks like.
    for path in ["/", "/a/b?x=1", "//double", "/a/80a/x", "/../up"] {
        let request = Request::get(path).header("e2b-sandbox-id", "default--demo");
        assert_eq!(gateway.send(request).await.seen_path(), path);
    }
}

#[tokio::test]
async fn ids_are_opaque_dashes_and_digits_in_them_are_not_taken_for_ports() {
    let (dashed, long, short) = (sandbox("dashed").await, sandbox("long").await, sandbox("short").await);
    let longest = format!("{}.z", "a".repeat(251));
    let gateway = Gateway::serving(&routes([
        route("dashed").id("x-8000").ip(dashed.ip()),
        route("long").id(&longest).ip(long.ip()),
        route("short").id("0").ip(short.ip()),
    ]))
    .await;
    let sandbox_of = async |request| gateway.send(request).await.sandbox();
    // Both host forms fit: the sandbox that exists is meant.
    assert_eq!(sandbox_of(Request::get("/").host("8000-x-8000.test.local")).await, "dashed");
    assert_eq!(sandbox_of(Request::get("/").host("x-8000-8000.test.local")).await, "dashed");
    assert_eq!(sandbox_of(Request::get("/kruise/x-8000/8000/")).await, "dashed");
    assert_eq!(sandbox_of(Request::get("/0/8000/")).await, "short");
    assert_eq!(sandbox_of(Request::get("/").host("8000-0.test.local")).await, "short");
    assert_eq!(longest.len(), 253);
    assert_eq!(sandbox_of(Request::get("/").header("e2b-sandbox-id", &longest)).await, "long");
    assert_eq!(sandbox_of(Request::get(&format!("/kruise/{longest}/8000/"))).await, "long");
}

#[tokio::test]
async fn agent_sandbox_names_an_object_and_gets_that_object_or_none() {
    let (split, plain) = (sandbox("split").await, sandbox("plain").await);
    let gateway = Gateway::serving(&routes([
        route("b--c").namespace("a").ip(split.ip()),
        route("plain").namespace("team").set("uid", "uid-1").ip(plain.ip()),
    ]))
    .await;
    let ask = async |namespace: &str, name: &str, uid: Option<&str>| -> Reply {
        let mut request =
            Request::get("/").header("x-sandbox-namespace", namespace).header("x-sandbox-id", name);
        if let Some(uid) = uid {
            request = request.header("x-sandbox-uid", uid);
        }
        gateway.send(request).await
    };
    assert_eq!(ask("a", "b--c", None).await.sandbox(), "split");
    // The same lookup ID, but another object.
    assert_refused(&gateway, &ask("a--b", "c", None).await, 502, "sandbox_not_found").await;
    assert_eq!(ask("team", "plain", None).await.sandbox(), "plain");
    assert_eq!(ask("team", "plain", Some("uid-1")).await.sandbox(), "plain");
    assert_refused(&gateway, &ask("team", "plain", Some("uid-2")).await, 502, "sandbox_not_found").await;
    assert_refused(&gateway, &ask("other", "plain", None).await, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn a_signature_in_a_path_is_cut_only_for_a_sandbox_that_is_closed() {
    let (open, closed) = (sandbox("open").await, sandbox("closed").await);
    let gateway = Gateway::serving(&routes([
        route("open").ip(open.ip()),
        route("closed").set("secure-access-token", SECRET).ip(closed.ip()),
    ]))
    .await;
    let ask = async |name: &str, rest: &str| {
        let request = Request::get(&format!("/default--{name}/8000/1vuhmo0/0a1b2c3dk{rest}"));
        let reply = gateway.send(request.header("opensandbox-secure-access", SECRET)).await;
        (reply.sandbox(), reply.seen_path())
    };
    for (rest, seen) in [("/a//b?c", "/a//b?c"), ("", "/"), ("?c", "/?c")] {
        assert_eq!(ask("closed", rest).await, ("closed".into(), seen.into()));
        assert_eq!(ask("open", rest).await, ("open".into(), format!("/1vuhmo0/0a1b2c3dk{rest}")));
    }
    // In a label it is never a part of the path, and to an open sandbox it says nothing.
    for request in [
        Request::get("/x").host("default--open-8000-1vuhmo0-0a1b2c3dk.sandbox.test"),
        Request::get("/x").header("opensandbox-ingress-to", "default--open-8000-0-0a1b2c3dk"),
    ] {
        let reply = gateway.send(request).await;
        assert_eq!((reply.sandbox().as_str(), reply.seen_path().as_str()), ("open", "/x"));
    }
}

#[tokio::test]
async fn an_id_of_opensandbox_finds_an_object_by_its_name_in_the_namespaces_of_the_config() {
    let (one, two) = (sandbox("one").await, sandbox("two").await);
    let gateway = Gateway::builder()
        .routes(&routes([
            route("one").namespace("team-a").ip(one.ip()),
            route("sandbox-42").namespace("team-b").ip(two.ip()),
            route("both").namespace("team-a").ip(one.ip()),
            route("both").namespace("team-b").ip(two.ip()),
        ]))
        .filter(
            json!({ "dialects": { "opensandbox": { "agent-sandbox-namespaces": ["team-a", "team-b"] } } }),
        )
        .start()
        .await;
    let ask = async |id: &str| {
        gateway.send(Request::get("/").header("opensandbox-ingress-to", format!("{id}-8000"))).await
    };
    assert_eq!(ask("one").await.sandbox(), "one");
    assert_eq!(ask("42").await.sandbox(), "two");
    assert_refused(&gateway, &ask("both").await, 502, "sandbox_ambiguous").await;
    assert_refused(&gateway, &ask("nobody").await, 404, "sandbox_not_found").await;
    let reply = gateway.send(Request::get("/").header("e2b-sandbox-id", "one")).await;
    assert_refused(&gateway, &reply, 502, "sandbox_not_found").await;
}

#[tokio::test]
async fn a_health_check_is_answered_by_the_gateway_unless_it_addresses_a_sandbox() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .routes(&routes([route("demo").ip(demo.ip())]))
        .filter(json!({ "health-paths": ["/status.ok", "/healthz", "/readyz"], "unaddressed": "refuse" }))
        .start()
        .await;
    for path in ["/status.ok", "/healthz", "/readyz", "/healthz?x=1"] {
        let reply = gateway.send(Request::get(path)).await;
        assert_eq!((reply.status, reply.text(), reply.header("content-type")), (200, "OK", "text/plain"));
        assert_eq!(gateway.access(&reply).await.details, "health_check", "{path}");
        let reply = gateway.send(Request::get(path).method("HEAD")).await;
        assert_eq!((reply.status, reply.text()), (200, ""), "{path}");
        let reply = gateway
            .send(
                Request::get(path)
                    .header("e2b-sandbox-id", "default--demo")
                    .header("e2b-sandbox-port", "8000"),
            )
            .await;
        assert_eq!((reply.sandbox().as_str(), reply.seen_path().as_str()), ("demo", path));
        let reply = gateway.send(Request::get(path).method("POST")).await;
        assert_refused(&gateway, &reply, 404, "not_addressed").await;
    }
    for path in ["/healthz/", "/livez"] {
        assert_refused(&gateway, &gateway.send(Request::get(path)).await, 404, "not_addressed").await;
    }
}
