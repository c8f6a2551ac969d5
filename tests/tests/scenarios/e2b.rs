//! E2B's real SDK at the gateway's data plane.

use sandgate_tests::{E2bSdk, Gateway, Sandbox, route, routes};

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
