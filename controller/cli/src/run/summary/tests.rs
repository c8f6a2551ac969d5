use sandgate_request::{Dialect, FilterConfig, Recognition, recognise};

use super::super::demo::{Demo, Sandbox};
use super::super::process::Ready;
use super::{examples, text};

fn demo() -> Demo {
    let sandbox = |name, last| Sandbox { name, ip: [127, 0, 77, last].into(), port: 8080 };
    Demo { routes_file: "/x/routes.yaml".into(), sandboxes: [sandbox("demo-a", 1), sandbox("demo-b", 2)] }
}

fn ready() -> Ready {
    Ready {
        listener: ([0, 0, 0, 0], 7788).into(),
        admin: "http://127.0.0.1:9901".to_owned(),
        routes: Some(3),
    }
}

#[test]
fn the_summary_has_a_curl_line_for_each_dialect() {
    let shown = text(&ready(), "/x/routes.yaml", Some(&demo()), &FilterConfig::default(), false);
    assert_eq!(
        shown,
        "Sandgate is ready.\n  gateway  http://127.0.0.1:7788\n  admin    http://127.0.0.1:9901/sandgate/routes\n  \
         routes   3 from /x/routes.yaml\n\nTry the demo sandboxes, one line for each dialect:\n  \
         curl -H 'Host: 8080-default--demo-a.localhost' http://127.0.0.1:7788/hello\n  \
         curl -H 'X-Sandbox-ID: demo-b' -H 'X-Sandbox-Port: 8080' http://127.0.0.1:7788/hello\n  \
         curl http://127.0.0.1:7788/default--demo-a/8080/hello\n"
    );
}

#[test]
fn the_examples_speak_three_dialects() {
    let dialects = examples(&demo()).map(|example| {
        let mut headers = vec![(":path".to_owned(), example.path)];
        headers.extend(
            example.headers.into_iter().map(|(name, value)| (name.replace("Host", ":authority"), value)),
        );
        match recognise(headers.as_slice(), &FilterConfig::default()) {
            Recognition::Addressed(address) => address.dialect(),
            other => panic!("{headers:?}: {other:?}"),
        }
    });
    assert_eq!(dialects, [Dialect::Kruise, Dialect::AgentSandbox, Dialect::OpenSandbox]);
}

#[test]
fn a_dialect_that_is_off_has_no_line() {
    let off = FilterConfig::parse(br#"{"dialects": {"opensandbox": {"enabled": false}}}"#).unwrap();
    let shown = text(&ready(), "/x", Some(&demo()), &off, false);
    assert_eq!(shown.matches("curl").count(), 2, "{shown}");
}

#[test]
fn a_file_of_ones_own_gets_a_hint_instead() {
    let shown = text(&ready(), "/x", None, &FilterConfig::default(), false);
    assert!(shown.contains("curl http://127.0.0.1:7788/kruise/ID/PORT/"), "{shown}");
}

#[test]
fn with_tls_every_address_is_https_but_the_admin_pages() {
    for demo in [Some(demo()), None] {
        let shown = text(&ready(), "/x", demo.as_ref(), &FilterConfig::default(), true);
        assert!(shown.contains("gateway  https://127.0.0.1:7788\n"), "{shown}");
        assert!(shown.contains("curl -k ") && !shown.contains("http://127.0.0.1:7788"), "{shown}");
        assert!(shown.contains("admin    http://127.0.0.1:9901"), "{shown}");
    }
}
