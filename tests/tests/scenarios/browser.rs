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
