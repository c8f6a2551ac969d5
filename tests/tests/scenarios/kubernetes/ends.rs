//! Sandboxes that end at a moment they named themselves.

use std::time::{Duration, SystemTime};

use sandgate_tests::kubernetes::{ApiServer, Kind, Object};
use sandgate_tests::{DEADLINE, Gateway, Sandbox, eventually};
use serde_json::json;

use super::{KINDS, ask, refusals, refused, sandbox, served};

/// Long enough to be served before, on a machine that does much else.
const SOON: Duration = Duration::from_secs(9);
const LATER: Duration = Duration::from_secs(3600);

struct Ending {
    kind: Kind,
    sandbox: Sandbox,
    object: Object,
}

#[tokio::test]
async fn a_sandbox_ends_at_the_moment_it_named_without_an_event_and_lives_again_when_that_is_moved() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("ends").await;
    let name = |kind: Kind| format!("{}-{namespace}", kind.provider());
    let mut all = Vec::new();
    for kind in KINDS {
        let sandbox = sandbox(kind.provider()).await;
        let object = kind.draft(&api, &namespace, &name(kind)).running(sandbox.ip()).create().await;
        all.push(Ending { kind, sandbox, object });
    }
    let providers = KINDS.map(|kind| json!({ "kind": kind.provider(), "namespaces": [namespace] }));
    let gateway = Gateway::builder().kubernetes(&api.admin_kubeconfig(), &json!(providers)).start().await;
    let ends = SystemTime::now() + SOON;
    for ending in &all {
        ending.object.end_at(ends).await;
    }
    for Ending { kind, sandbox, object } in &all {
        gateway.follows(object).await;
        served(&gateway, || ask(*kind, &namespace, &name(*kind)), sandbox).await;
    }
    let events = async || {
        let mut events = Vec::new();
        for number in 0..KINDS.len() {
            events.push(gateway.scope(number).await["events"].as_u64().expect("a count"));
        }
        events
    };
    let before = events().await;
    for Ending { kind, .. } in &all {
        refused(&gateway, || ask(*kind, &namespace, &name(*kind)), refusals(*kind)[0]).await;
    }
    assert!(SystemTime::now() + Duration::from_secs(1) >= ends, "it ended before its time");
    assert_eq!(events().await, before, "nobody told the gateway");

    for Ending { kind, sandbox, object } in &all {
        object.end_at(SystemTime::now() + LATER).await;
        served(&gateway, || ask(*kind, &namespace, &name(*kind)), sandbox).await;
        object.end_at(SystemTime::now() - LATER).await;
        refused(&gateway, || ask(*kind, &namespace, &name(*kind)), refusals(*kind)[0]).await;
    }
}

#[tokio::test]
async fn an_end_that_was_moved_away_in_time_does_not_come() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("moved").await;
    let kind = Kind::OpenKruise;
    let (spared, ending) = (sandbox("spared").await, sandbox("ending").await);
    let gateway = super::gateway(&api, &namespace).await;
    let draft = |name: &str, sandbox: &Sandbox| kind.draft(&api, &namespace, name).running(sandbox.ip());
    let ends = SystemTime::now() + SOON;
    let moved = draft("spared", &spared).ending(ends).create().await;
    let last = draft("ending", &ending).ending(ends).create().await;
    moved.end_at(SystemTime::now() + LATER).await;
    gateway.follows(&moved).await;
    eventually("the other one ends", DEADLINE, async || {
        let reply = gateway.send(ask(kind, &namespace, last.name())).await;
        (reply.status == refusals(kind)[0].0).then_some(())
    })
    .await;
    served(&gateway, || ask(kind, &namespace, moved.name()), &spared).await;
    assert!(SystemTime::now() >= ends - Duration::from_secs(1));
}
