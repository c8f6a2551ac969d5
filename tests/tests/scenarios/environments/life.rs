//! One sandbox from its environment to its end, and the next one in the same pod.

use sandgate_tests::cluster::{Environments, env_phase, new_sandbox, sandboxes};
use sandgate_tests::{DEADLINE, eventually};
use serde_json::json;

use super::{answered, asks, create, gateway, hollow, id, manager};

#[tokio::test]
async fn a_sandbox_of_an_environment_is_claimed_routed_to_and_released() {
    let place = Environments::shared("env").await;
    let _operator = place.operator().start().await;
    let gateway = gateway(&place).await;
    let manager = manager(&place, &[&gateway]).await;
    let key = place.cluster.api_key(&place.namespace).await;
    let template = place.template("hello").await;
    place.env("web", &template, &[("web-a", 1)]).await;
    place.levels("web-a", 1, 0).await;
    let pod = place.pods_of("web-a").await.remove(0);
    let pod = pod["metadata"]["name"].as_str().expect("a name").to_owned();
    place
        .envs
        .until("web", "its status has what its pool has", |env| {
            let status = &env["status"];
            status["memberCount"] == 1
                && status["idleReplicas"] == 1
                && status["clusters"][0]["observedMembers"][0]["state"] == "Active"
        })
        .await;

    // A claim is a route everywhere, in every form.
    let (status, made) = create(&manager, &key, "web", &hollow()).await.expect("an answer");
    assert_eq!(status, 201, "{made}\n{}", manager.log());
    let first = id(&made).to_owned();
    assert_eq!(env_phase(&place.phase(&pod, "running").await), "running");
    let hello = format!("hello from {pod}\n");
    answered(&gateway, &first, "it answers", |reply| reply.status == 200 && reply.text() == hello).await;
    place.levels("web-a", 0, 1).await;
    let shown = manager.ask(&key, "GET", &format!("/sandboxes/{first}"), None).await;
    assert_eq!((shown.status, &shown.json()["templateID"]), (200, &json!("web")), "{}", shown.text());
    let listed = manager.ask(&key, "GET", "/v2/sandboxes", None).await.json();
    assert_eq!(listed.as_array().map(|all| all.iter().map(id).collect::<Vec<_>>()), Some(vec![&*first]));

    // Another key does not see it and cannot end it.
    let other = place.cluster.api_key(&format!("{}-other", place.namespace)).await;
    for method in ["GET", "DELETE"] {
        let reply = manager.ask(&other, method, &format!("/sandboxes/{first}"), None).await;
        assert_eq!(reply.status, 404, "{method}: {}", reply.text());
    }

    // The pool is empty: there is no room, and it is said when to come again.
    let soon = json!({ "secure": false, "metadata": { "agentbox.scitix.ai/startup-timeout": "2" } });
    let full = manager.ask(&key, "POST", "/sandboxes", Some(&new_sandbox("web", &soon))).await;
    assert_eq!(full.status, 429, "{}", full.text());
    let after = full.headers.get("retry-after").expect("a Retry-After").to_str().expect("text");
    assert!(after.parse::<u32>().is_ok_and(|seconds| seconds > 0), "{after}");

    // It is released, and its pod becomes the next sandbox's: with another ID, and never under the old one.
    let gone = manager.ask(&key, "DELETE", &format!("/sandboxes/{first}"), None).await;
    assert_eq!(gone.status, 204, "{}", gone.text());
    let again = manager.ask(&key, "DELETE", &format!("/sandboxes/{first}"), None).await;
    assert_eq!(again.status, 404, "{}", again.text());
    answered(&gateway, &first, "it is not served any more", |reply| reply.status != 200).await;
    let second = eventually("the pod is a sandbox again", DEADLINE * 3, async || {
        let (status, made) = create(&manager, &key, "web", &hollow()).await?;
        (status == 201).then(|| id(&made).to_owned())
    })
    .await;
    assert_ne!(first, second);
    assert!(sandboxes(&place.pods_of("web-a").await).contains(&second));
    answered(&gateway, &second, "it answers", |reply| reply.status == 200).await;
    answered(&gateway, &first, "the old ID is nobody's", |reply| {
        reply.status != 200 && reply.json()["reason"] == "sandbox_not_found"
    })
    .await;
    // Each dialect has its own status for that.
    for (ask, status) in asks(&first).into_iter().zip([404, 404, 502]) {
        assert_eq!(gateway.send(ask).await.status, status);
    }
}
