use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::path::Path;

use sandgate_routes::{Observation, State, Version};

use super::super::parse::parse_at_most;
use super::super::{FileError, Format, parse_routes};

fn parse(content: &[u8], format: Format) -> Result<Vec<Observation>, FileError> {
    parse_routes(content, format, &Version::from(NonZeroU64::MIN))
}

fn yaml(content: &str) -> Vec<Observation> {
    parse(content.as_bytes(), Format::Yaml).unwrap_or_else(|e| panic!("{content}\n{e}"))
}

fn json(content: &str) -> Vec<Observation> {
    parse(content.as_bytes(), Format::Json).unwrap_or_else(|e| panic!("{content}\n{e}"))
}

#[test]
fn a_route_needs_a_name_and_an_ip_and_the_rest_has_defaults() {
    let all = yaml("routes:\n  - name: demo\n    ip: 127.0.0.1\n");
    let [one] = all.as_slice() else { panic!("one route") };
    assert_eq!(one.key.to_string(), "file:default/demo");
    assert_eq!((one.id.as_str(), one.uid.as_str()), ("default--demo", "file:default/demo"));
    assert_eq!((one.owner.as_str(), one.state), ("", State::Running));
    assert_eq!(one.ip.map(|ip| ip.to_string()).as_deref(), Some("127.0.0.1"));
    assert!(one.token.is_none() && one.traffic_token.is_none() && !one.require_traffic_auth);
}

#[test]
fn every_key_is_taken_over_from_yaml_and_from_json_alike() {
    let from_yaml = yaml(
        "routes:\n- name: demo\n  namespace: team\n  id: the-id\n  uid: u-1\n  ip: '2001:db8::1'\n  state: paused\n  \
         owner: Zoë 😀\n  access-token: s3cret\n  traffic-access-token: tr4ffic\n  require-traffic-auth: true\n",
    );
    let from_json = json(
        "\u{feff}{\n\t\"routes\": [\n\t\t{\"name\": \"demo\",\t\"namespace\": \"team\", \"id\": \"the-id\", \"uid\": \
         \"u-1\",\n\t\t \"ip\": \"2001:db8::1\", \"state\": \"paused\", \"owner\": \"Zo\\u00eb \\ud83d\\ude00\",\n\t\t \
         \"access-token\": \"s3cret\", \"traffic-access-token\": \"tr4ffic\", \"require-traffic-auth\": true}\n\t]\n}\n",
    );
    for all in [from_yaml, from_json] {
        let [one] = all.as_slice() else { panic!("one route") };
        assert_eq!(one.key.to_string(), "file:team/demo");
        assert_eq!((one.id.as_str(), one.uid.as_str(), one.owner.as_str()), ("the-id", "u-1", "Zoë 😀"));
        assert_eq!(one.ip.map(|ip| ip.to_string()).as_deref(), Some("2001:db8::1"));
        assert_eq!(one.state, State::Paused);
        assert!(one.token.as_ref().is_some_and(|t| t.matches(b"s3cret") && !t.matches(b"s3cres")));
        assert!(one.traffic_token.as_ref().is_some_and(|t| t.matches(b"tr4ffic")));
        assert!(one.require_traffic_auth);
    }
}

#[test]
fn an_id_that_the_file_gives_is_taken_by_nobody() {
    use sandgate_routes::{Limits, ObjectKey, RouteTable};
    let given = yaml("routes: [{ name: mine, id: web, ip: 127.0.0.1 }]").remove(0);
    // The oldest there can be, and its own name.
    let rival = Observation {
        key: ObjectKey::new("opensandbox", "team", "web").unwrap(),
        uid: "u".into(),
        own_id: true,
        created: Some(1),
        ..given.clone()
    };
    for both in [[given.clone(), rival.clone()], [rival, given]] {
        let (writer, reader) = RouteTable::new(Limits::default());
        both.into_iter().for_each(|observation| drop(writer.apply(observation)));
        assert_eq!(reader.get("web").unwrap().key().name(), "mine");
    }
}

#[test]
fn anchors_and_merges_save_typing() {
    let all = yaml("routes:\n- &a { name: a, ip: 10.0.0.1, owner: me }\n- { <<: *a, name: b }\n");
    assert_eq!(all[1].key.name(), "b");
    assert_eq!((all[1].ip, all[1].owner.as_str()), (all[0].ip, "me"));
}

#[test]
fn a_sandbox_that_does_not_run_needs_no_ip() {
    for state in ["creating", "available", "paused", "dead"] {
        assert_eq!(yaml(&format!("routes: [{{ name: a, state: {state} }}]"))[0].ip, None, "{state}");
    }
}

#[test]
fn the_format_follows_the_extension_and_else_the_first_byte() {
    let of = |path: &str, content: &str| Format::of(Path::new(path), content.as_bytes());
    assert_eq!(of("a.yaml", "{}"), Format::Yaml);
    assert_eq!(of("a.yml", "{}"), Format::Yaml);
    assert_eq!(of("a.json", "routes: []"), Format::Json);
    assert_eq!(of("a", " \n{}"), Format::Json);
    assert_eq!(of("a.conf", "routes: []"), Format::Yaml);
}

/// What is wrong, where, and the words that say so.
const MISTAKES: &[(&str, &str)] = &[
    ("", "1:1: the file: expected a mapping with the key `routes`"),
    ("# nothing yet\n", "2:1: the file: expected a mapping with the key `routes`"),
    ("[]", "1:1: the file: expected a mapping with the key `routes`"),
    ("{}", "1:1: the file: expected a mapping with the key `routes`"),
    ("routes:\n", "1:7: routes: expected a list of routes, `[]` if there are none"),
    ("routes: {}", "1:9: routes: expected a list of routes, `[]` if there are none"),
    ("rutes: []", "1:1: the file: unknown key `rutes`, expected routes"),
    ("routes: []\nversion: 1\n", "2:1: the file: unknown key `version`, expected routes"),
    ("routes: []\nroutes: []\n", "2:1: the file: the key `routes` is given twice"),
    ("routes: []\n---\nroutes: []\n", "2:1: expected one YAML document, found more"),
    ("routes:\n\t- name: a\n", "2:2: not YAML: tabs disallowed within this context (block indentation)"),
    ("routes: [*a]", "1:10: routes: the alias names an anchor that is not there"),
    ("routes: [{}]", "1:10: routes[0]: the key `name` is missing"),
    ("routes:\n- ip: 10.0.0.1\n", "2:3: routes[0]: the key `name` is missing"),
    ("routes:\n- a\n", "2:3: routes[0]: expected a mapping with at least the key `name`"),
    (
        "routes:\n- name: a\n  ip: 10.0.0.1\n- name: 12\n",
        "4:9: routes[1].name: expected 1 to 253 letters, digits, `.`, `_` or `-`; quote text that reads as a number, a \
         boolean or null",
    ),
    (
        "routes: [{ owner: éé, name: a/b }]",
        "1:29: routes[0].name: expected 1 to 253 letters, digits, `.`, `_` or `-`",
    ),
    ("routes:\n- name: a\n  name: b\n", "3:3: routes[0]: the key `name` is given twice"),
    (
        "routes:\n- name: a\n  adress: 10.0.0.1\n",
        "3:3: routes[0]: unknown key `adress`, expected name, namespace, id, uid, ip, state, owner, access-token, \
         secure-access-token, traffic-access-token, require-traffic-auth",
    ),
    ("routes: [{ name: a }]", "1:18: routes[0]: a running sandbox needs the key `ip`"),
    ("routes: [{ name: a, state: running }]", "1:28: routes[0]: a running sandbox needs the key `ip`"),
    (
        "routes: [{ name: a, ip: localhost }]",
        "1:25: routes[0].ip: expected an IPv4 or IPv6 address without a port",
    ),
    (
        "routes: [{ name: a, ip: 10.0.0.1:80 }]",
        "1:25: routes[0].ip: expected an IPv4 or IPv6 address without a port: the request says which port",
    ),
    ("routes: [{ name: a, ip: }]", "1:23: routes[0].ip: expected an IPv4 or IPv6 address without a port"),
    (
        "routes: [{ name: a, ip: 0.0.0.0 }]",
        "1:25: routes[0].ip: expected an IPv4 or IPv6 address without a port, of one machine",
    ),
    (
        "routes: [{ name: a, id: a b }]",
        "1:25: routes[0].id: expected 1 to 253 letters, digits, `.`, `_` or `-`",
    ),
    (
        "routes: [{ name: a, namespace: '' }]",
        "1:32: routes[0].namespace: expected 1 to 63 letters, digits, `.`, `_` or `-`",
    ),
    ("routes: [{ name: a, uid: a b }]", "1:26: routes[0].uid: expected 1 to 253 visible ASCII characters"),
    (
        "routes: [{ name: a, owner: \"a\\tb\" }]",
        "1:28: routes[0].owner: expected at most 255 bytes, no control character among them",
    ),
    (
        "routes: [{ name: a, access-token: '' }]",
        "1:35: routes[0].access-token: expected 1 to 4096 visible ASCII characters",
    ),
    (
        "routes: [{ name: a, traffic-access-token: a b }]",
        "1:43: routes[0].traffic-access-token: expected 1 to 4096 visible ASCII characters",
    ),
    (
        "routes: [{ name: a, access-token: x, secure-access-token: y }]",
        "1:59: routes[0].secure-access-token: expected this or `access-token`, found both",
    ),
    (
        "routes: [{ name: a, require-traffic-auth: yes }]",
        "1:21: routes[0].require-traffic-auth: expected true or false",
    ),
    (
        "routes: [{ name: a, require-traffic-auth: 'true' }]",
        "1:21: routes[0].require-traffic-auth: expected true or false",
    ),
    (
        "routes:\n- { name: a, ip: 10.0.0.1 }\n- { name: b, ip: 10.0.0.2, id: default--a }\n",
        "3:32: routes[1].id: default--a is the id of routes[0] on line 2 already",
    ),
    (
        "routes:\n- { name: a, ip: 10.0.0.1 }\n- { name: a, ip: 10.0.0.2, id: b }\n",
        "3:11: routes[1].name: default/a is listed already as routes[0] on line 2",
    ),
];

#[test]
fn every_mistake_is_named_with_its_line_and_column() {
    for (content, expected) in MISTAKES {
        let error = parse(content.as_bytes(), Format::Yaml).expect_err(content);
        assert_eq!(error.to_string(), *expected, "in\n{content}");
        assert!(error.place().is_some());
    }
}

const JSON_MISTAKES: &[(&str, &str)] = &[
    ("", "1:1: not JSON: EOF while parsing a value"),
    ("routes: []", "1:1: not JSON: expected value"),
    ("{'routes': []}", "1:2: not JSON: key must be a string"),
    ("{\"routes\": [],}", "1:15: not JSON: trailing comma"),
    ("{\n \"routes\": [\n  {\"owner\": \"éé\" \"name\": 1}]}", "3:18: not JSON: expected `,` or `}`"),
    ("{}", "1:1: the file: expected a mapping with the key `routes`"),
    ("{\"routes\": null}", "1:12: routes: expected a list of routes, `[]` if there are none"),
    (
        "{\"routes\": [\n\t{\"name\": \"é\"}]}",
        "2:11: routes[0].name: expected 1 to 253 letters, digits, `.`, `_` or `-`",
    ),
    ("{\"routes\": [{\"name\": \"a\", \"name\": \"b\"}]}", "1:27: routes[0]: the key `name` is given twice"),
    (
        "{\"routes\": [{\"name\": \"a\", \"ip\": null}]}",
        "1:33: routes[0].ip: expected an IPv4 or IPv6 address without a port",
    ),
    (
        "{\"routes\": [{\"name\": \"a\", \"require-traffic-auth\": \"true\"}]}",
        "1:27: routes[0].require-traffic-auth: expected true or false",
    ),
];

#[test]
fn json_is_strict_and_its_mistakes_have_places_too() {
    for (content, expected) in JSON_MISTAKES {
        let error = parse(content.as_bytes(), Format::Json).expect_err(content);
        assert_eq!(error.to_string(), *expected, "in\n{content}");
    }
}

#[test]
fn bytes_that_are_not_utf8_are_found() {
    let error = parse(b"routes:\n- name: \xC3\xA9\xFF\n", Format::Yaml).unwrap_err();
    assert_eq!(error.to_string(), "2:10: expected UTF-8, found other bytes");
}

#[test]
fn a_long_default_id_asks_for_a_shorter_one() {
    let name = "n".repeat(250);
    let error =
        parse(format!("routes: [{{ name: {name}, ip: 10.0.0.1 }}]").as_bytes(), Format::Yaml).unwrap_err();
    assert!(error.to_string().contains("routes[0]: expected the key `id`"), "{error}");
    assert_eq!(yaml(&format!("routes: [{{ name: {name}, ip: 10.0.0.1, id: short }}]"))[0].id, "short");
}

#[test]
fn no_mistake_makes_an_error_repeat_a_token() {
    const TOKEN: &str = "hunter2.Zq8-secret";
    let good = format!("routes:\n  - name: a\n    ip: 10.0.0.1\n    access-token: {TOKEN}\n    owner: b\n");
    assert!(yaml(&good)[0].token.is_some());
    let mut wrong = vec![
        good.replace("access-token: ", "access-token:"),
        good.replace("access-token: ", "access-token="),
        good.replace("access-token: ", ""),
        good.replace("access-token: ", "access-token: - "),
        good.replace("access-token: ", "access-token: !"),
        good.replace("access-token: ", "access-token: *"),
        good.replace("ip: 10.0.0.1", &format!("ip: {TOKEN}")),
        good.replace("ip: 10.0.0.1", &format!("state: {TOKEN}")),
        good.replace("ip: 10.0.0.1", &format!("require-traffic-auth: {TOKEN}")),
        good.replace("name: a", &format!("name: '{TOKEN}/'")),
        good.replace("name: a", &format!("{TOKEN}: a")),
        good.replace(TOKEN, &format!("[{TOKEN}]")),
        good.replace(TOKEN, &format!("{{ {TOKEN}: 1 }}")),
        good.replace(TOKEN, &format!("\"{TOKEN}")),
        good.replace(TOKEN, &format!("'{TOKEN}\u{e9}'")),
    ];
    // And every file that has one odd character too many, or ends too early.
    for at in 0..good.len() {
        wrong.push(good[..at].to_owned());
        wrong.extend(
            ["\t", ":", ": ", "\"", "'", "[", "{", "}", "*", "&", "!", "@", "%", "|", "\n", "\n  ", "\u{7f}"]
                .map(|odd| {
                    let (before, after) = good.split_at(at);
                    format!("{before}{odd}{after}")
                }),
        );
    }
    let mut refused = 0;
    for content in wrong {
        for format in [Format::Yaml, Format::Json] {
            let Err(error) = parse(content.as_bytes(), format) else { continue };
            refused += 1;
            let (shown, debug) = (error.to_string(), format!("{error:?}"));
            for part in ["hunter", "Zq8", "secret"] {
                assert!(!shown.contains(part) && !debug.contains(part), "{content}\n{shown}\n{debug}");
            }
        }
    }
    assert!(refused > 1000, "only {refused} files were refused");
}

/// Twice the nodes that the YAML library allows by itself.
#[test]
fn a_large_file_is_no_abuse() {
    let mut text = "routes:\n".to_owned();
    for n in 0..50_000u32 {
        let ip = std::net::Ipv4Addr::from(0x0a00_0000 + n);
        let _ = write!(
            text,
            "- name: sandbox-{n}\n  namespace: team\n  ip: {ip}\n  owner: me\n  access-token: t-{n}\n"
        );
    }
    let all = yaml(&text);
    assert_eq!((all.len(), all[49_999].id.as_str()), (50_000, "team--sandbox-49999"));
}

#[test]
fn a_small_file_cannot_grow_into_a_large_one() {
    let mut text = "routes:\n- &a0 { name: x, ip: 10.0.0.1 }\n".to_owned();
    for n in 1..12 {
        let _ = writeln!(text, "- &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(", "));
    }
    let error = parse(text.as_bytes(), Format::Yaml).unwrap_err();
    assert!(error.place().is_some(), "{error}");

    let deep = format!("routes: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(parse(deep.as_bytes(), Format::Yaml).is_err());
    assert!(
        parse(format!("{{\"routes\": {}{}}}", "[".repeat(5000), "]".repeat(5000)).as_bytes(), Format::Json)
            .is_err()
    );
}

/// What is odd about a file that is good.
fn doubts(content: &str, format: Format) -> Vec<String> {
    let version = Version::from(NonZeroU64::MIN);
    let (_, doubts) = parse_at_most::<{ usize::MAX }>(content.as_bytes(), format, &version).unwrap();
    let told = doubts.first.iter().map(|doubt| {
        let place = doubt.place.unwrap_or_else(|| panic!("no place: {}", doubt.text));
        format!("{}:{}: {}", place.line, place.column, doubt.text)
    });
    told.collect()
}

#[test]
fn a_state_that_is_none_makes_a_route_that_is_known_and_not_served_and_is_named_with_its_place() {
    let text = "routes:\n- name: a\n  ip: 10.0.0.1\n- name: b\n  ip: 10.0.0.2\n  state: Asleep\n";
    assert_eq!(yaml(text).iter().map(|one| one.state).collect::<Vec<_>>(), [State::Running, State::Unknown]);
    let expected = "routes[1].state: `Asleep` is no state, so the route is known and not served; expected creating, \
                    available, running, paused, unknown or dead";
    assert_eq!(doubts(text, Format::Yaml), [format!("6:10: {expected}")]);
    let text = "{\"routes\": [{\"name\": \"a\", \"state\": \"paused\"},\n {\"name\": \"b\", \"state\": \"Asleep\"}]}";
    assert_eq!(json(text)[1].state, State::Unknown);
    assert_eq!(doubts(text, Format::Json), [format!("2:25: {expected}")]);
    for state in ["creating", "available", "paused", "unknown", "dead"] {
        assert_eq!(doubts(&format!("routes: [{{ name: a, state: {state} }}]"), Format::Yaml), [""; 0]);
    }
    // What is no text is a mistake all the same.
    assert!(parse(b"routes: [{ name: a, state: 7 }]", Format::Yaml).is_err());
}

#[test]
fn a_token_in_the_place_of_a_state_is_not_shown_and_a_flood_of_odd_states_is_cut_short() {
    for word in ["hunter2.Zq8-secret", "'a b'", "''", &"x".repeat(33)] {
        let told = doubts(&format!("routes: [{{ name: a, state: {word} }}]"), Format::Yaml);
        assert_eq!(told.len(), 1);
        assert!(told[0].contains(": this is no state"), "{told:?}");
    }
    let many: String = (0..1000).map(|n| format!("- {{ name: n{n}, state: odd }}\n")).collect();
    let version = Version::from(NonZeroU64::MIN);
    let text = format!("routes:\n{many}");
    let (all, doubts) = parse_at_most::<{ usize::MAX }>(text.as_bytes(), Format::Yaml, &version).unwrap();
    assert_eq!((all.len(), doubts.count, doubts.first.len()), (1000, 1000, 8));
}

#[test]
fn one_route_too_many_is_refused() {
    let text =
        "routes:\n- { name: a, state: dead }\n- { name: b, state: dead }\n- { name: c, state: dead }\n";
    let version = Version::from(NonZeroU64::MIN);
    let at_most_3 = parse_at_most::<3>(text.as_bytes(), Format::Yaml, &version);
    assert_eq!(at_most_3.map(|(all, _)| all.len()).unwrap(), 3);
    let error = parse_at_most::<2>(text.as_bytes(), Format::Yaml, &version).unwrap_err();
    assert!(error.to_string().ends_with(": routes: expected at most 2 routes"), "{error}");
}
