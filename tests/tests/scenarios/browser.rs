//! The pages as a real browser shows them.

use sandgate_tests::{Browser, Gateway, route, routes};

use crate::support::sandbox;

#[tokio::test]
async fn chromium_shows_a_readable_page_for_a_paused_sandbox_an_unknown_one_and_a_bad_address() {
    let up = sandbox("up").await;
    let gateway =
        Gateway::serving(&routes([route("up").ip(up.ip()), route("asleep").state("paused").ip(up.ip())]))
            .await;
    for (host, heading, fact) in [
        ("8000-default--asleep.sandbox.test", "The sandbox is paused", "sandbox_not_running"),
        ("8000-default--nobody.sandbox.test", "No such sandbox", "sandbox_not_found"),
        ("70000-default--up.sandbox.test", "The address is not valid", "malformed_port"),
    ] {
        let page = Browser::page(gateway.address(), host, "/").await;
        assert!(page.contains(&format!("<h1>{heading}</h1>")), "{host}: {page}");
        assert!(page.contains(&format!("<title>{heading}</title>")), "{host}: {page}");
        assert!(page.contains(fact), "{host}: {page}");
        let authority = format!("{host}:{}", gateway.address().port());
        let access = gateway
            .access_where("the browser's request", |entry| entry.authority == authority && entry.path == "/")
            .await;
        assert_eq!(access.details, fact);
    }
    // And the sandbox itself, through the same door.
    let page = Browser::page(gateway.address(), "8000-default--up.sandbox.test", "/hello").await;
    assert!(page.contains("\"sandbox\":\"up\"") && page.contains("\"path\":\"/hello\""), "{page}");
}

#[tokio::test]
async fn in_chromium_the_service_worker_of_one_sandbox_does_not_get_into_the_origin_of_another() {
    let (a, b) = (sandbox("a").await, sandbox("b").await);
    let gateway = Gateway::serving(&routes([route("a").ip(a.ip()), route("b").ip(b.ip())])).await;
    // Chromium has service workers under localhost without TLS.
    let origin = |name: &str| format!("8000-default--{name}.localhost");
    let browser = Browser::new();
    let visit = async |name: &str, path: &str| browser.visit(gateway.address(), &origin(name), path).await;

    // In its own origin the worker does what it is made for: from then on it answers.
    assert!(visit("a", "/takeover.html").await.contains("takeover page"));
    let page = visit("a", "/hello").await;
    assert!(page.contains("taken over"), "the worker of a is not at work in its own origin: {page}");

    for path in ["/kruise/default--a/8000/takeover.html", "/default--a/8000/takeover.html"] {
        let page = visit("b", path).await;
        assert!(!page.contains("takeover page"), "a's page in b's origin: {page}");
    }
    let page = visit("b", "/hello").await;
    assert!(page.contains("\"sandbox\":\"b\"") && !page.contains("taken over"), "{page}");
}
