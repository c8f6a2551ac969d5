//! A panic in the module: one request fails, closed; Envoy goes on and says nothing of the request.

use sandgate_tests::{Gateway, Request, locations, route, routes};

use crate::support::{ask, assert_refused, sandbox};

const FAILPOINT: (&str, &str) = ("x-sandgate-failpoint", "panic");

#[tokio::test]
async fn a_panic_in_the_request_hook_is_a_500_a_count_and_nothing_more() {
    let demo = sandbox("demo").await;
    let mut gateway = Gateway::builder()
        .module(locations::module_with_failpoints())
        .routes(&routes([route("demo").ip(demo.ip())]))
        .start()
        .await;
    let mut client = gateway.client().await;
    for round in 1..=20_u64 {
        let request = ask("default--demo")
            .path("/path-of-the-request")
            .header(FAILPOINT.0, FAILPOINT.1)
            .header("x-private", "bytes-of-the-request");
        let reply = client.send(request).await.expect("an answer");
        assert_refused(&gateway, &reply, 500, "sandgate_panic").await;
        gateway.stat_is("sandgate.panics", round).await;
        // The same connection, the same worker.
        assert_eq!(client.send(ask("default--demo")).await.expect("an answer").sandbox(), "demo");
    }
    assert_eq!(gateway.status().await["panics"], 20);
    assert_eq!(demo.requests(), 20);
    assert!(gateway.is_alive());
    let log = gateway.log();
    let said: Vec<&str> = log.lines().filter(|line| line.contains("panic at ")).collect();
    assert_eq!(said.len(), 20, "each panic is logged once:\n{log}");
    assert!(said.iter().all(|line| line.contains("forward.rs:")), "the log says where:\n{log}");
    gateway.stat_is("sandgate.rq_internal_error", 20).await;
    for private in ["bytes-of-the-request", "path-of-the-request", "default--demo"] {
        assert!(!log.contains(private), "{private} in the log:\n{log}");
    }
    let reply = client
        .send(ask("default--demo").header(FAILPOINT.0, FAILPOINT.1).header("accept", "text/html"))
        .await;
    let page = reply.expect("an answer");
    assert_eq!(page.status, 500);
    assert!(page.text().contains("The gateway failed"), "{}", page.text());
}

#[tokio::test]
async fn a_panic_under_load_hurts_only_the_requests_that_caused_it() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::builder()
        .module(locations::module_with_failpoints())
        .routes(&routes([route("demo").ip(demo.ip())]))
        .start()
        .await;
    let mut tasks = Vec::new();
    for number in 0..8 {
        let mut client = gateway.client().await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..100 {
                let mut request = ask("default--demo");
                if number % 2 == 0 {
                    request = request.header(FAILPOINT.0, FAILPOINT.1);
                }
                let reply = client.send(request).await.expect("an answer");
                assert_eq!(reply.status, if number % 2 == 0 { 500 } else { 200 });
            }
        }));
    }
    for task in tasks {
        task.await.expect("every request gets its answer");
    }
    gateway.stat_is("sandgate.panics", 400).await;
    assert_eq!(demo.requests(), 400);
}

#[tokio::test]
async fn the_shipped_module_has_no_failpoint() {
    let demo = sandbox("demo").await;
    let gateway = Gateway::serving(&routes([route("demo").ip(demo.ip())])).await;
    let reply = gateway.send(ask("default--demo").header(FAILPOINT.0, FAILPOINT.1)).await;
    assert_eq!(reply.sandbox(), "demo");
    let reply =
        gateway.send(Request::get("/kruise/default--demo/8000/").header(FAILPOINT.0, FAILPOINT.1)).await;
    assert_eq!(reply.sandbox(), "demo");
    assert_eq!(gateway.stat("sandgate.panics").await.unwrap_or(0), 0);
}
