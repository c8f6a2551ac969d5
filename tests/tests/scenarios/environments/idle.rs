//! Sandboxes that nobody uses, and how it is known that somebody does.

use std::time::Duration;

use sandgate_tests::cluster::Environments;
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;
use tokio::time::{Instant, interval};

use super::{PORT, answered, asks, create, gateway, id, manager};

/// The silence after which a sandbox is released.
const SILENCE: u64 = 8;

/// What the operator knows of use it has from the gateway alone: nobody writes it into the pods.
#[tokio::test]
async fn a_silent_sandbox_is_released_and_one_that_is_asked_is_not() {
    let place = Environments::shared("idle").await;
    let gateway = gateway(&place).await;
    let activity = format!("--gateway-activity=http://{}", gateway.refresh_address().await);
    let _operator = place.operator().flag(&activity).start().await;
    let manager = manager(&place, &[&gateway]).await;
    let key = place.cluster.api_key(&place.namespace).await;
    let template = place.template("hello").await;
    place.env("e", &template, &[("p", 2)]).await;
    place.levels("p", 2, 0).await;
    let more = json!({ "secure": false, "timeout": SILENCE });
    let mut made = Vec::new();
    for _ in 0..2 {
        let (status, sandbox) = create(&manager, &key, "e", &more).await.expect("an answer");
        assert_eq!(status, 201, "{sandbox}\n{}", manager.log());
        made.push(id(&sandbox).to_owned());
    }
    let [used, silent] = [&made[0], &made[1]];
    answered(&gateway, used, "it answers", |reply| reply.status == 200).await;

    let exists =
        async |id: &str| manager.ask(&key, "GET", &format!("/sandboxes/{id}"), None).await.status == 200;
    let released = eventually("the silent one is released", DEADLINE * 4, async || {
        (!exists(silent).await).then(Instant::now)
    });
    let in_use = async {
        let mut five_a_second = interval(Duration::from_millis(200));
        loop {
            five_a_second.tick().await;
            let [header, ..] = asks(used);
            let reply = gateway.send(header).await;
            assert_eq!(reply.status, 200, "the one in use, port {PORT}: {}", reply.text());
        }
    };
    let released = tokio::select! {
        released = released => released,
        () = in_use => unreachable!("it is used for ever"),
    };
    assert!(exists(used).await, "a sandbox in use was released");
    // Now that nobody asks it any more it goes too.
    eventually("the other is released", DEADLINE * 4, async || (!exists(used).await).then_some(())).await;
    assert!(released.elapsed() > Duration::from_secs(1), "both went at once: nobody knew of the use");
    place
        .events
        .until_all("it is said", |events| events.iter().any(|event| event["reason"] == "SandboxReleased"))
        .await;
}
