//! Each form alone: what it reads, where its edges are, which part it blames.

use super::{config, each, read, read_with};
use crate::FilterConfig;

const LONGEST: usize = 253;

#[test]
fn a_kruise_path_names_id_and_port_and_leaves_the_path() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/kruise/demo/8080/", "kruise-path demo:8080 /"),
            ("/kruise/demo/8080", "kruise-path demo:8080 /"),
            ("/kruise/demo/8080/a/b?c=d", "kruise-path demo:8080 /a/b?c=d"),
            ("/kruise/demo/8080?c=d", "kruise-path demo:8080 /?c=d"),
            ("/kruise/demo/8080?", "kruise-path demo:8080 /?"),
            ("/kruise/demo/8080/?/kruise/api", "kruise-path demo:8080 /?/kruise/api"),
            ("/kruise/Default--De.mo_1/1/", "kruise-path Default--De.mo_1:1 /"),
            ("/kruise/demo/65535/%2e%2e/%2Fx", "kruise-path demo:65535 /%2e%2e/%2Fx"),
            ("/kruise/demo/80/../../api", "kruise-path demo:80 /../../api"),
            ("/kruise/demo/80/kruise/other/90/", "kruise-path demo:80 /kruise/other/90/"),
            ("/kruise/demo/80//evil.example", "kruise-path demo:80 //evil.example"),
            ("/kruise/demo/80/http://evil.example/", "kruise-path demo:80 /http://evil.example/"),
        ],
    );
}

#[test]
fn a_kruise_path_with_a_wrong_part_is_malformed_and_the_part_is_named() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/kruise/", "malformed path in kruise-path"),
            ("/kruise/demo", "malformed path in kruise-path"),
            ("/kruise/?demo/80/", "malformed path in kruise-path"),
            ("/kruise/demo?/80/", "malformed path in kruise-path"),
            ("/kruise/demo/", "malformed port in kruise-path"),
            ("/kruise/demo/http/", "malformed port in kruise-path"),
            ("/kruise/demo/80%2Fx", "malformed port in kruise-path"),
            ("/kruise/demo/80#x", "malformed port in kruise-path"),
            ("/kruise/demo//80/", "malformed port in kruise-path"),
            ("/kruise//80/", "malformed id in kruise-path"),
            ("/kruise//", "malformed id in kruise-path"),
            ("/kruise/de%2Fmo/80/", "malformed id in kruise-path"),
            ("/kruise/%2e%2e/80/", "malformed id in kruise-path"),
            ("/kruise/%61pi/80/", "malformed id in kruise-path"),
            ("/kruise/de mo/80/", "malformed id in kruise-path"),
            ("/kruise/dé/80/", "malformed id in kruise-path"),
        ],
    );
}

#[test]
fn only_the_exact_prefix_is_a_kruise_path() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/kruise", "unaddressed"),
            ("/kruise?x", "unaddressed"),
            ("//kruise/demo/80/", "unaddressed"),
            ("/Kruise/demo/x/", "unaddressed"),
            ("/%6bruise/demo/80/", "unaddressed"),
            ("/x/kruise/demo/80/", "unaddressed"),
            ("kruise/demo/80/", "unaddressed"),
            ("*", "unaddressed"),
            ("", "unaddressed"),
        ],
    );
}

#[test]
fn the_managers_api_is_never_a_sandbox_but_ids_may_begin_with_its_name() {
    for path in
        ["/kruise/api", "/kruise/api/", "/kruise/api/v2/sandboxes", "/kruise/api?x=1", "/kruise/api/80/"]
    {
        let headers = [
            (":path", path),
            (":authority", "80-demo.example.com"),
            ("e2b-sandbox-id", "demo"),
            ("x-sandbox-id", "demo"),
        ];
        assert_eq!(read(&headers), "unaddressed", "{path}");
    }
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/kruise/apix/80/", "kruise-path apix:80 /"),
            ("/kruise/api-1/80/", "kruise-path api-1:80 /"),
            ("/kruise/API/80/", "kruise-path API:80 /"),
        ],
    );
}

#[test]
fn ports_are_canonical_decimals_from_1_to_65535_in_every_form() {
    let bad = ["0", "00080", "080", "65536", "99999", "100000", "18446744073709551617"];
    for port in bad {
        let path = format!("/kruise/demo/{port}/");
        assert_eq!(read(&[(":path", &path)]), "malformed port in kruise-path", "{port}");
        let path = format!("/demo/{port}/");
        assert_eq!(read(&[(":path", &path)]), "malformed port in opensandbox-path", "{port}");
        let host = format!("{port}-demo.example.com");
        assert_eq!(read(&[(":authority", &host)]), "malformed port in kruise-host", "{port}");
        let label = format!("demo-{port}");
        let host = format!("{label}.example.com");
        assert_eq!(read(&[(":authority", &host)]), "malformed port in opensandbox-host", "{port}");
        assert_eq!(
            read(&[("opensandbox-ingress-to", &label)]),
            "malformed port in opensandbox-header",
            "{port}"
        );
    }
    for port in bad.into_iter().chain([" ", "+80", "-80", "80 ", "0x50", "８０", "80,81", "8e1"]) {
        let headers = [("e2b-sandbox-id", "demo"), ("e2b-sandbox-port", port)];
        assert_eq!(read(&headers), "malformed port in kruise-header", "{port:?}");
        let headers = [("x-sandbox-id", "demo"), ("x-sandbox-port", port)];
        assert_eq!(read(&headers), "malformed port in agent-sandbox-header", "{port:?}");
    }
    assert_eq!(read(&[("e2b-sandbox-id", "demo"), ("e2b-sandbox-port", "")]), "kruise-header demo:49983");
    for port in ["1", "80", "9999", "10000", "65535"] {
        let headers = [("e2b-sandbox-id", "demo"), ("e2b-sandbox-port", port)];
        assert_eq!(read(&headers), format!("kruise-header demo:{port}"));
    }
}

#[test]
fn an_id_may_have_253_bytes_and_no_more() {
    let fits = "a".repeat(LONGEST);
    let over = "a".repeat(LONGEST + 1);
    assert_eq!(read(&[("e2b-sandbox-id", &fits)]), format!("kruise-header {fits}:49983"));
    assert_eq!(read(&[("e2b-sandbox-id", &over)]), "malformed id in kruise-header");
    let path = |id: &str| format!("/kruise/{id}/80/x");
    assert_eq!(read(&[(":path", &path(&fits))]), format!("kruise-path {fits}:80 /x"));
    assert_eq!(read(&[(":path", &path(&over))]), "malformed id in kruise-path");
    assert_eq!(
        read(&[("opensandbox-ingress-to", &format!("{fits}-80"))]),
        format!("opensandbox-header {fits}:80")
    );
    assert_eq!(
        read(&[("opensandbox-ingress-to", &format!("{over}-80"))]),
        "malformed id in opensandbox-header"
    );
    assert_eq!(read(&[(":authority", &format!("80-{over}.example.com"))]), "malformed id in kruise-host");
    assert_eq!(read(&[(":path", &format!("/{fits}/80/"))]), format!("opensandbox-path {fits}:80 /"));
    assert_eq!(read(&[(":path", &format!("/{over}/80/"))]), "unaddressed");
}

#[test]
fn an_agent_sandbox_id_is_composed_and_must_fit_as_a_whole() {
    let room = LONGEST - "default--".len();
    let fits = "a".repeat(room);
    let over = "a".repeat(room + 1);
    assert_eq!(read(&[("x-sandbox-id", &fits)]), format!("agent-sandbox-header default--{fits}:8888"));
    assert_eq!(read(&[("x-sandbox-id", &over)]), "malformed id in agent-sandbox-header");
}

#[test]
fn kruise_headers_have_a_default_port_and_an_id_that_must_be_valid() {
    assert_eq!(read(&[("e2b-sandbox-id", "demo")]), "kruise-header demo:49983");
    assert_eq!(read(&[("e2b-sandbox-port", "80")]), "unaddressed");
    for id in ["", " ", "de mo", "demo/../x", "de%6do", "a,b", "dé", "a\0b"] {
        assert_eq!(read(&[("e2b-sandbox-id", id)]), "malformed id in kruise-header", "{id:?}");
    }
    let own = config(
        r#"{"dialects":{"kruise":{"sandbox-header-name":"X-Box","sandbox-port-header":"X-Box-Port","default-port":"81"}}}"#,
    );
    assert_eq!(read_with(&own, &[("x-box", "demo")]), "kruise-header demo:81");
    assert_eq!(read_with(&own, &[("x-box", "demo"), ("x-box-port", "82")]), "kruise-header demo:82");
    assert_eq!(read_with(&own, &[("e2b-sandbox-id", "demo")]), "unaddressed");
}

#[test]
fn agent_sandbox_headers_have_defaults_where_nothing_or_an_empty_value_is_sent() {
    assert_eq!(read(&[("x-sandbox-id", "demo")]), "agent-sandbox-header default--demo:8888");
    let empty = [
        ("x-sandbox-namespace", ""),
        ("x-sandbox-port", ""),
        ("x-sandbox-uid", ""),
        ("x-sandbox-pod-ip", ""),
    ];
    for empty in empty.iter().map(std::slice::from_ref).chain([&empty[..]]) {
        let headers = [&[("x-sandbox-id", "demo")], empty].concat();
        assert_eq!(read(&headers), "agent-sandbox-header default--demo:8888", "{empty:?}");
    }
    let all = [("x-sandbox-id", "demo"), ("x-sandbox-namespace", "team-1"), ("x-sandbox-port", "80")];
    assert_eq!(read(&all), "agent-sandbox-header team-1--demo:80");
    let long = "n".repeat(64);
    for namespace in ["-a", "a-", "Team", "a.b", "a_b", "a/b", &long] {
        let headers = [("x-sandbox-id", "demo"), ("x-sandbox-namespace", namespace)];
        assert_eq!(read(&headers), "malformed namespace in agent-sandbox-header", "{namespace:?}");
    }
    let longest = "n".repeat(63);
    let headers = [("x-sandbox-id", "demo"), ("x-sandbox-namespace", longest.as_str())];
    assert_eq!(read(&headers), format!("agent-sandbox-header {longest}--demo:8888"));
    for name in ["", "de/mo", "de mo"] {
        assert_eq!(read(&[("x-sandbox-id", name)]), "malformed id in agent-sandbox-header", "{name:?}");
    }
    let own = config(r#"{"dialects":{"agent-sandbox":{"default-namespace":"team","default-port":81}}}"#);
    assert_eq!(read_with(&own, &[("x-sandbox-id", "demo")]), "agent-sandbox-header team--demo:81");
}

#[test]
fn namespace_and_name_of_an_agent_sandbox_address_are_kept_apart() {
    let object = |namespace: &str, name: &str| {
        let headers = [("x-sandbox-id", name), ("x-sandbox-namespace", namespace)];
        match crate::recognise(headers.as_slice(), &FilterConfig::default()) {
            crate::Recognition::Addressed(address) => {
                let (namespace, name) = address.object().expect("an agent-sandbox address has an object");
                (address.id().to_owned(), namespace.to_owned(), name.to_owned())
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(object("a", "b--c"), ("a--b--c".into(), "a".into(), "b--c".into()));
    assert_eq!(object("a--b", "c"), ("a--b--c".into(), "a--b".into(), "c".into()));
}

#[test]
fn a_client_cannot_say_where_a_sandbox_is() {
    assert_eq!(read(&[("x-sandbox-pod-ip", "10.0.0.1"), ("x-sandbox-port", "80")]), "unaddressed");
    let headers = [("x-sandbox-id", "demo"), ("x-sandbox-pod-ip", "10.0.0.1")];
    assert_eq!(read(&headers), "agent-sandbox-header default--demo:8888");
}

#[test]
fn an_opensandbox_header_splits_at_the_last_dash() {
    let cases = [
        ("demo-80", "opensandbox-header demo:80"),
        ("my-demo-80", "opensandbox-header my-demo:80"),
        ("demo-80.sandboxes.example.com", "opensandbox-header demo:80"),
        ("80-80", "opensandbox-header 80:80"),
        ("", "malformed id in opensandbox-header"),
        ("-80", "malformed id in opensandbox-header"),
        ("de mo-80", "malformed id in opensandbox-header"),
        ("demo", "malformed port in opensandbox-header"),
        ("demo-", "malformed port in opensandbox-header"),
        ("demo-80x", "malformed port in opensandbox-header"),
        ("demo-80:8080", "malformed port in opensandbox-header"),
        ("my.demo-80", "malformed port in opensandbox-header"),
        // With a scheme, as a client has it in a base URL.
        ("http://demo-80.sandboxes.example.com", "opensandbox-header demo:80"),
        ("https://demo-80.sandboxes.example.com:8443/x", "opensandbox-header demo:80"),
        ("https://http://demo-80", "opensandbox-header demo:80"),
        ("http://https://demo-80", "malformed id in opensandbox-header"),
        ("HTTP://demo-80", "malformed id in opensandbox-header"),
        ("http://", "malformed port in opensandbox-header"),
    ];
    each(&FilterConfig::default(), "opensandbox-ingress-to", &cases);
    each(&FilterConfig::default(), "open-sandbox-ingress", &cases);
}

#[test]
fn an_opensandbox_header_under_a_configured_domain_may_have_dots_in_the_id() {
    let config = config(r#"{"domains":["example.com"]}"#);
    each(
        &config,
        "opensandbox-ingress-to",
        &[
            ("my.demo-80.example.com", "opensandbox-header my.demo:80"),
            ("my.demo-80.EXAMPLE.com", "opensandbox-header my.demo:80"),
            ("demo-80", "opensandbox-header demo:80"),
            ("demo-80.elsewhere.org", "opensandbox-header demo:80"),
            ("https://my.demo-80.example.com", "opensandbox-header my.demo:80"),
            ("my.demo-80.example.com:8443", "opensandbox-header my.demo:80"),
            ("my.demo-80.example.com.", "opensandbox-header my.demo:80"),
        ],
    );
}

#[test]
fn a_host_names_a_sandbox_under_any_domain_if_none_is_configured() {
    each(
        &FilterConfig::default(),
        ":authority",
        &[
            ("8080-demo.example.com", "kruise-host demo:8080"),
            ("8080-demo.localhost", "kruise-host demo:8080"),
            ("8080-demo.localhost:10000", "kruise-host demo:8080"),
            ("8080-demo.example.com.", "kruise-host demo:8080"),
            ("8080-demo.example.com.:443", "kruise-host demo:8080"),
            ("8080-demo.example.com:", "kruise-host demo:8080"),
            ("8080-Default--Demo.Example.COM", "kruise-host Default--Demo:8080"),
            ("8080-demo-90.example.com", "kruise-host demo-90:8080 or 8080-demo:90"),
            ("80-90.example.com", "kruise-host 90:80 or 80:90"),
            ("80--demo.example.com", "kruise-host -demo:80"),
            ("demo-8080.example.com", "opensandbox-host demo:8080"),
            ("my-demo-8080.localhost:1.", "malformed host in opensandbox-host"),
            ("8x-demo-8080.example.com", "opensandbox-host 8x-demo:8080"),
        ],
    );
}

#[test]
fn a_host_without_the_shape_is_left_alone() {
    each(
        &FilterConfig::default(),
        ":authority",
        &[
            ("", "unaddressed"),
            ("example.com", "unaddressed"),
            ("www.example.com:8080", "unaddressed"),
            ("my-app.example.com", "unaddressed"),
            ("8080.example.com", "unaddressed"),
            ("demo-80x.example.com", "unaddressed"),
            ("10.0.0.1", "unaddressed"),
            ("10.0.0.1:8080", "unaddressed"),
            ("[::1]", "unaddressed"),
            ("[::1]:8080", "unaddressed"),
            ("[80-demo.example.com]:80", "unaddressed"),
            ("::1", "unaddressed"),
            (":80", "unaddressed"),
            (".", "unaddressed"),
            ("..", "unaddressed"),
            // No domain: to OpenKruise a label cannot be the whole host.
            ("8080-demo", "unaddressed"),
            ("8080-demo.", "unaddressed"),
            ("8080-demo..", "unaddressed"),
            ("demo-8080..", "unaddressed"),
        ],
    );
}

#[test]
fn a_host_without_a_domain_is_a_label_of_opensandbox_where_no_domains_are_configured() {
    let cases = [
        ("my-app-8080", "opensandbox-host my-app:8080"),
        ("my-app-8080:7788", "opensandbox-host my-app:8080"),
        ("my-app-8080.", "opensandbox-host my-app:8080"),
        ("8080-demo-90", "opensandbox-host 8080-demo:90"),
        ("my-app-0", "malformed port in opensandbox-host"),
        ("-8080", "malformed id in opensandbox-host"),
        ("my-app-8080:http", "malformed host in opensandbox-host"),
        ("localhost", "unaddressed"),
        ("localhost:7788", "unaddressed"),
        ("gateway", "unaddressed"),
        ("my-app", "unaddressed"),
        ("2130706433", "unaddressed"),
    ];
    each(&FilterConfig::default(), ":authority", &cases);
    for json in [r#"{"domains":["example.com"]}"#, r#"{"dialects":{"opensandbox":{"host":false}}}"#] {
        for (host, _) in cases {
            assert_eq!(read_with(&config(json), &[(":authority", host)]), "unaddressed", "{json} {host}");
        }
    }
    let header = [("e2b-sandbox-id", "other"), (":authority", "my-app-8080")];
    assert_eq!(read(&header), "conflict of kruise-header and opensandbox-host", "as any host that names one");
}

#[test]
fn a_host_with_the_shape_and_a_wrong_part_is_malformed() {
    each(
        &FilterConfig::default(),
        ":authority",
        &[
            ("80-.example.com", "malformed id in kruise-host"),
            ("80-de%6do.example.com", "malformed id in kruise-host"),
            ("80-demo@x.example.com", "malformed id in kruise-host"),
            ("0-demo.example.com", "malformed port in kruise-host"),
            ("-80.example.com", "malformed id in opensandbox-host"),
            ("user@demo-80.example.com", "malformed id in opensandbox-host"),
            ("demo-0.example.com", "malformed port in opensandbox-host"),
            ("80-demo.example.com:http", "malformed host in kruise-host"),
            ("80-demo.example.com:123456", "malformed host in kruise-host"),
            ("80-demo.example.com:1:2", "malformed host in kruise-host"),
            ("80-demo.exa mple.com", "malformed host in kruise-host"),
            ("80-demo..com", "malformed host in kruise-host"),
            ("80-demo.example.com/x", "malformed host in kruise-host"),
            ("demo-80.example.com@evil", "malformed host in opensandbox-host"),
        ],
    );
}

#[test]
fn with_domains_only_hosts_under_them_name_sandboxes() {
    let config = config(r#"{"domains":["example.com",".Sandboxes.Example.com","localhost"]}"#);
    each(
        &config,
        ":authority",
        &[
            ("80-demo.example.com", "kruise-host demo:80"),
            ("80-demo.EXAMPLE.com.:8080", "kruise-host demo:80"),
            ("demo-80.localhost", "opensandbox-host demo:80"),
            // The longest domain wins, and the label may have dots.
            ("80-demo.sandboxes.example.com", "kruise-host demo:80"),
            ("80-my.demo.sandboxes.example.com", "kruise-host my.demo:80"),
            ("my.demo-80.example.com", "opensandbox-host my.demo:80"),
            ("80-demo.other.org", "unaddressed"),
            ("80-demo.notexample.com", "unaddressed"),
            ("80-demoexample.com", "unaddressed"),
            ("80-demo.example.com.evil.org", "unaddressed"),
            ("example.com", "unaddressed"),
            (".example.com", "unaddressed"),
            ("sandboxes.example.com", "unaddressed"),
            ("80-demo.example.com:x", "malformed host in kruise-host"),
            ("80-de..mo.example.com", "kruise-host de..mo:80"),
        ],
    );
}

#[test]
fn the_host_is_read_from_the_configured_header_and_without_it_from_the_authority() {
    let config = config(r#"{"host-header-name":"X-Forwarded-Host"}"#);
    let authority = (":authority", "80-a.example.com");
    let read = |forwarded: &[&str]| {
        let forwarded = forwarded.iter().map(|value| ("x-forwarded-host", *value));
        read_with(&config, &[authority].into_iter().chain(forwarded).collect::<Vec<_>>())
    };
    assert_eq!(read(&["80-b.example.com"]), "kruise-host b:80", "where both are there it alone counts");
    assert_eq!(read(&["www.example.com"]), "unaddressed", "also where it names nothing");
    assert_eq!(read(&[]), "kruise-host a:80");
    assert_eq!(read(&[""]), "kruise-host a:80");
    for twice in [["80-b.example.com"; 2], ["www.example.com", "80-b.example.com"], ["", "80-b.example.com"]]
    {
        assert_eq!(read(&twice), "malformed header in kruise-host", "{twice:?}");
    }
}

#[test]
fn an_opensandbox_path_is_an_id_and_a_segment_of_digits() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/demo/80/", "opensandbox-path demo:80 /"),
            ("/demo/80", "opensandbox-path demo:80 /"),
            ("/demo/80?x=1", "opensandbox-path demo:80 /?x=1"),
            ("/demo/80/a//b?x", "opensandbox-path demo:80 /a//b?x"),
            ("/demo/80//a", "opensandbox-path demo:80 //a"),
            ("/kruisex/80/", "opensandbox-path kruisex:80 /"),
            ("/demo/0/", "malformed port in opensandbox-path"),
            ("/demo/65536", "malformed port in opensandbox-path"),
            ("/", "unaddressed"),
            ("/demo", "unaddressed"),
            ("/demo/", "unaddressed"),
            ("/demo/http/", "unaddressed"),
            ("/demo/80x/", "unaddressed"),
            ("/demo/+80/", "unaddressed"),
            ("/demo//80/", "unaddressed"),
            ("//80/", "unaddressed"),
            ("//demo/80/", "unaddressed"),
            ("/de%6do/80/", "unaddressed"),
            ("/demo?/80/", "unaddressed"),
            ("demo/80/", "unaddressed"),
        ],
    );
}

#[test]
fn a_server_proxy_path_is_an_id_and_a_port_behind_the_servers_prefix() {
    each(
        &FilterConfig::default(),
        ":path",
        &[
            ("/sandboxes/demo/proxy/80", "opensandbox-proxy-path demo:80 /"),
            ("/sandboxes/demo/proxy/80/", "opensandbox-proxy-path demo:80 /"),
            ("/sandboxes/demo/proxy/80/a//b?c=/d", "opensandbox-proxy-path demo:80 /a//b?c=/d"),
            ("/sandboxes/demo/proxy/80?c", "opensandbox-proxy-path demo:80 /?c"),
            ("/v1/sandboxes/demo/proxy/443/ws", "opensandbox-proxy-path demo:443 /ws"),
            (
                "/sandboxes/demo/proxy/80/tk9x2c/0a1b2c3dk/x",
                "opensandbox-proxy-path demo:80 /tk9x2c/0a1b2c3dk/x",
            ),
            ("/sandboxes/demo/proxy/0/", "malformed port in opensandbox-proxy-path"),
            ("/v1/sandboxes/demo/proxy/65536/", "malformed port in opensandbox-proxy-path"),
            // Another form reads these.
            ("/sandboxes/proxy/80/x", "sandbox-env-path proxy:80 /x"),
            ("/sandboxes/80/proxy/90/x", "opensandbox-proxy-path 80:90 /x"),
            // The server's API, and what is no path of a sandbox.
            ("/sandboxes/demo/proxy", "unaddressed"),
            ("/sandboxes/demo/proxy/", "unaddressed"),
            ("/sandboxes/demo/proxy/http/", "unaddressed"),
            ("/sandboxes/demo/endpoints/80", "unaddressed"),
            ("/sandboxes//proxy/80/", "unaddressed"),
            ("/sandboxes/a%2Fb/proxy/80/", "unaddressed"),
            ("/sandboxes/demo//proxy/80/", "unaddressed"),
            ("/sandboxes/demo?/proxy/80/", "unaddressed"),
            ("/v2/sandboxes/demo/proxy/80/", "unaddressed"),
            ("/proxy/sandboxes/demo/80", "unaddressed"),
        ],
    );
    let read = |json: &str| read_with(&config(json), &[(":path", "/sandboxes/demo/proxy/80/x")]);
    assert_eq!(read(r#"{"dialects":{"opensandbox":{"proxy-path":false}}}"#), "unaddressed");
    assert_eq!(read(r#"{"dialects":{"opensandbox":{"path":false}}}"#), "unaddressed", "it follows the path");
    assert_eq!(read(r#"{"domains":["example.com"]}"#), "unaddressed");
    let on = r#"{"domains":["example.com"],"dialects":{"opensandbox":{"proxy-path":true}}}"#;
    assert_eq!(read(on), "opensandbox-proxy-path demo:80 /x");
}
