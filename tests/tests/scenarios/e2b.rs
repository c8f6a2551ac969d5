//! E2B's real SDK at the gateway's data plane.

use sandgate_tests::{Authority, E2bSdk, Envd, Gateway, Sandbox, route, routes};
use serde_json::json;
use tempfile::TempDir;

use crate::door::Site;

#[tokio::test]
async fn the_e2b_sdk_raises_not_running_for_a_sandbox_that_is_gone_and_unreachable_for_a_closed_port() {
    // It listens, but not where the SDK looks for envd.
    let up = Sandbox::on_ports("up", &[8000]).await;
    let gateway =
        Gateway::serving(&routes([route("closed").ip(up.ip()), route("asleep").state("paused").ip(up.ip())]))
            .await;
    for (id, exception) in [
        ("default--never-was", "SandboxNotRunningException"),
        ("default--asleep", "SandboxNotRunningException"),
        ("default--closed", "SandboxUnreachableException"),
    ] {
        let seen = E2bSdk::ask(gateway.address(), id).await;
        assert_eq!(seen["is_running"]["value"], "False", "{id}: {seen}");
        for call in ["files", "commands"] {
            assert_eq!(seen[call]["exception"], exception, "{id}: {seen}");
        }
        // Not by the SDK's guess, which has other words.
        let message = seen["files"]["message"].as_str().expect("a message");
        assert!(!message.contains("its state is unknown"), "{message}");
    }
    assert_eq!(up.requests(), 0);
}

/// Names below `localhost` are this machine for the SDK's resolver, so not even DNS is stood in for.
#[tokio::test]
async fn the_e2b_sdk_works_over_tls_under_a_domain_of_ones_own() {
    let (site, envd) = (Site::new(), Envd::start().await);
    let (_, entry) = site.certificate("sandboxes", &["*.sandboxes.localhost"]);
    let routes = routes([route("demo").ip(envd.ip())]);
    let (_running, gateway) = site.open(&json!({ "certificates": [entry] }), &routes).await;
    let domain = format!("sandboxes.localhost:{}", gateway.port());

    let seen = E2bSdk::work(&domain, &site.authority.file(), "default--demo").await;
    assert_eq!(seen["host"], format!("3000-default--demo.{domain}"));
    for (call, value) in [
        ("is_running", "True"),
        ("write", "/notes/a.txt"),
        ("read", "written by the SDK"),
        ("stream", "/notes/b.txt"),
        ("read_stream", "300000"),
        ("command", "from the sandbox\n"),
    ] {
        assert_eq!(seen[call]["value"], value, "{call}: {seen}");
    }
    assert_eq!(seen["missing"]["exception"], "FileNotFoundException", "{seen}");
    let requests = envd.seen();
    assert!(requests.len() >= 7, "{requests:?}");
    for request in &requests {
        assert_eq!(request["host"], format!("49983-default--demo.{domain}"));
        assert_eq!(request["proto"], "https");
    }

    // The SDK checks the certificate: without its authority nothing is sent.
    let folder = TempDir::new().expect("a folder");
    let seen = E2bSdk::work(&domain, &Authority::new(folder.path()).file(), "default--demo").await;
    for call in ["read", "write", "command"] {
        assert!(seen[call]["value"].is_null(), "{call}: {seen}");
    }
    assert_eq!(envd.seen().len(), requests.len());
}
