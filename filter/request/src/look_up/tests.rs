use std::net::{IpAddr, Ipv4Addr};

use sandgate_routes::{
    Clash, Limits, ObjectKey, Observation, RouteReader, RouteTable, RouteWriter, State, Version,
};

use super::{look_up, lookup_ids, names};
use crate::{Address, FilterConfig, Keyless, Recognition, Refusal, Stop, choose_reading, recognise};

const BOTH: &str = r#"{"dialects":{"opensandbox":{"agent-sandbox-namespaces":["team-a","team-b"]}}}"#;

/// An object of agent-sandbox, as a table has it.
fn object(namespace: &str, name: &str) -> Observation {
    Observation {
        key: ObjectKey::new("agent-sandbox", namespace, name).expect("the key is valid"),
        id: format!("{namespace}--{name}"),
        uid: "uid".into(),
        owner: String::new(),
        state: State::Running,
        version: "1".parse::<Version>().expect("the version is valid"),
        ip: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

fn table(objects: impl IntoIterator<Item = Observation>) -> (RouteWriter, RouteReader) {
    let (writer, reader) = RouteTable::new(Limits::default());
    for object in objects {
        assert!(writer.apply(object).is_applied());
    }
    writer.set_ready();
    (writer, reader)
}

fn config(json: &str) -> FilterConfig {
    FilterConfig::parse(json.as_bytes()).expect("a config for a test is valid")
}

fn address(config: &FilterConfig, headers: &[(&str, &str)]) -> Address {
    match recognise(headers, config) {
        Recognition::Addressed(address) => address,
        other => panic!("{headers:?} is {other:?}"),
    }
}

/// The ID of the route, or why there is none.
fn found(reader: &RouteReader, json: &str, headers: &[(&str, &str)]) -> Result<String, Refusal> {
    let config = config(json);
    let mut address = address(&config, headers);
    let table = reader.pin();
    let chosen = choose_reading(&mut address, &table, headers, &config, &Keyless::default());
    chosen.map_err(|stop| match stop {
        Stop::Refuse(refusal) => refusal,
        Stop::Wait(wait) => panic!("nothing here waits for {wait:?}"),
    })?;
    look_up(&address, &table, &config).map(|route| route.id().to_owned())
}

fn ingress(reader: &RouteReader, json: &str, id: &str) -> Result<String, Refusal> {
    found(reader, json, &[("opensandbox-ingress-to", &format!("{id}-80"))])
}

#[test]
fn an_id_of_opensandbox_names_an_object_of_agent_sandbox_where_namespaces_are_given() {
    let (_writer, reader) = table([object("team-a", "demo"), object("team-c", "far")]);
    assert_eq!(ingress(&reader, BOTH, "demo"), Ok("team-a--demo".into()));
    assert_eq!(ingress(&reader, "", "demo"), Err(Refusal::Unknown), "none are given");
    assert_eq!(ingress(&reader, BOTH, "far"), Err(Refusal::Unknown), "of another namespace");
    assert_eq!(ingress(&reader, BOTH, "team-c--far"), Ok("team-c--far".into()), "its own ID is one as ever");
    for headers in [
        [(":authority", "demo-80.example.com")],
        [(":authority", "DEMO-80.example.com")],
        [(":path", "/demo/80/x")],
        [(":path", "/sandboxes/demo/proxy/80/x")],
    ] {
        assert_eq!(found(&reader, BOTH, &headers), Ok("team-a--demo".into()), "{headers:?}");
    }
    for headers in [[("e2b-sandbox-id", "demo")], [(":authority", "80-demo.example.com")]] {
        assert_eq!(found(&reader, BOTH, &headers), Err(Refusal::Unknown), "in another dialect: {headers:?}");
    }
}

#[test]
fn an_id_in_the_table_comes_before_the_name_of_an_object() {
    let own = Observation {
        key: ObjectKey::new("opensandbox", "team-x", "demo").expect("the key is valid"),
        id: "demo".into(),
        ..object("team-x", "demo")
    };
    let (_writer, reader) = table([own, object("team-a", "demo")]);
    assert_eq!(ingress(&reader, BOTH, "demo"), Ok("demo".into()));
}

#[test]
fn a_name_in_two_of_the_namespaces_is_ambiguous_and_the_first_name_that_exists_decides() {
    let (_writer, reader) = table([object("team-a", "demo"), object("team-b", "demo")]);
    assert_eq!(ingress(&reader, BOTH, "demo"), Err(Refusal::Ambiguous));
    let one = r#"{"dialects":{"opensandbox":{"agent-sandbox-namespaces":["team-b","team-b"]}}}"#;
    assert_eq!(ingress(&reader, one, "demo"), Ok("team-b--demo".into()), "a namespace counts once");
    let (_writer, reader) = table([object("team-a", "demo"), object("team-b", "sandbox-demo")]);
    assert_eq!(ingress(&reader, BOTH, "demo"), Ok("team-a--demo".into()));
    let (_writer, reader) = table([object("team-b", "sandbox-demo")]);
    assert_eq!(ingress(&reader, BOTH, "demo"), Ok("team-b--sandbox-demo".into()));
}

#[test]
fn only_the_very_object_is_served_under_its_name() {
    // Both compose to one ID: the object `demo` of `team-a--x`, and `x--demo` of `team-a`.
    let (_writer, reader) = table([object("team-a--x", "demo")]);
    let whole = r#"{"dialects":{"opensandbox":{"agent-sandbox-namespaces":["team-a--x"]}}}"#;
    assert_eq!(ingress(&reader, whole, "demo"), Ok("team-a--x--demo".into()));
    assert_eq!(ingress(&reader, BOTH, "x--demo"), Err(Refusal::Unknown));
    // Both are there, and who has the ID will not share it.
    let claims = ["team-a", "team-a--x"].map(|namespace| Observation {
        clash: Clash::Refuse,
        id: "team-a--x--demo".into(),
        ..object(namespace, if namespace == "team-a" { "x--demo" } else { "demo" })
    });
    let (writer, reader) = table([]);
    for claim in claims {
        writer.apply(claim);
    }
    assert_eq!(ingress(&reader, BOTH, "x--demo"), Err(Refusal::Ambiguous));
}

#[test]
fn a_host_with_two_readings_is_settled_by_the_name_of_an_object_too() {
    let (_writer, reader) = table([object("team-a", "sandbox-80-web")]);
    let host = [(":authority", "80-web-3000.example.com")];
    assert_eq!(found(&reader, BOTH, &host), Ok("team-a--sandbox-80-web".into()));
    assert_eq!(found(&reader, "", &host), Err(Refusal::Unknown));
    let kruise = Observation { id: "web-3000".into(), ..object("team-z", "web") };
    let (_writer, reader) = table([object("team-a", "sandbox-80-web"), kruise]);
    assert_eq!(found(&reader, BOTH, &host), Err(Refusal::TwoReadings));
}

#[test]
fn names_are_those_of_opensandbox_in_its_order() {
    let names = |id: &str| -> Vec<String> {
        names(id.as_bytes()).map(|name| String::from_utf8_lossy(name.bytes()).into_owned()).collect()
    };
    assert_eq!(names("demo"), ["demo", "sandbox-demo"]);
    assert_eq!(names("sandbox-demo"), ["sandbox-demo"]);
    assert_eq!(names("1234"), ["sandbox-1234", "1234"]);
    assert_eq!(names("My_App.1"), ["my-app-1", "My_App.1", "sandbox-My_App.1"]);
    assert_eq!(names("a--b"), ["a-b", "a--b", "sandbox-a--b"]);
    assert_eq!(names("-a-"), ["a", "-a-", "sandbox--a-"]);
    let uuid = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";
    assert_eq!(names(uuid), [format!("sandbox-{uuid}"), uuid.into()]);
    // The hashes are of SHA-256, worked out with another program.
    assert_eq!(names("..."), ["sandbox-ab5df625", "...", "sandbox-..."]);
    let long = "a".repeat(64);
    let (a, b) = ("a".repeat(53), "b".repeat(20));
    assert_eq!(names(&long)[0], format!("{}-ffe054fe", &long[..54]));
    assert_eq!(names(&format!("{a}-{b}"))[0], format!("{a}-af3ec493"), "no dash is doubled");
    assert_eq!(names(&"1".repeat(60))[0], format!("sandbox-{}-70d36ded", "1".repeat(46)));
    assert_eq!(names(&"a".repeat(63))[0], "a".repeat(63));
}

#[test]
fn the_ids_to_fetch_are_those_that_are_looked_up() {
    let ids = |json: &str, headers: &[(&str, &str)]| {
        let config = config(json);
        lookup_ids(&address(&config, headers), &config)
    };
    assert_eq!(ids("", &[("opensandbox-ingress-to", "Demo-80")]), ["Demo"]);
    assert_eq!(ids("", &[(":authority", "Demo-80.example.com")]), ["demo", "Demo"]);
    assert_eq!(
        ids(BOTH, &[("opensandbox-ingress-to", "demo-80")]),
        ["demo", "team-a--demo", "team-b--demo", "team-a--sandbox-demo", "team-b--sandbox-demo"]
    );
    assert_eq!(ids(BOTH, &[("e2b-sandbox-id", "demo")]), ["demo"]);
}
