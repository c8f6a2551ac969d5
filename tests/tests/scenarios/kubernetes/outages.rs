//! The API server itself goes, comes back, and forgets.

use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Kind, Wire, kruise};
use serde_json::json;

use super::{ask, refused, sandbox, served, watching};

const KIND: Kind = Kind::OpenKruise;
const NOT_FOUND: (u16, &str) = (502, "sandbox_not_found");
const NOT_RUNNING: (u16, &str) = (502, "sandbox_not_running");

/// First the server is killed while it is watched, and its objects change before the gateway can hear of it;
/// then it forgets the history that the gateway would need.
#[tokio::test]
async fn what_changes_while_the_api_server_is_away_is_found_when_it_is_back_also_when_it_has_forgotten() {
    let api = ApiServer::builder().without_watch_cache().start().await;
    let (namespace, wire) = (api.namespace("outage").await, Wire::to(&api).await);
    let places = [sandbox("here").await, sandbox("there").await];
    let draft = |name: &str| kruise(&api, &namespace, name).running(places[0].ip());
    let (moved, paused, gone) =
        (draft("moved").create().await, draft("paused").create().await, draft("gone").create().await);
    let gateway = watching(&wire.kubeconfig(wire.admin_token()), &namespace).start().await;
    let request = |name: &str| ask(KIND, &namespace, name);
    for name in ["moved", "paused", "gone"] {
        served(&gateway, || request(name), &places[0]).await;
    }
    let close =
        || [Ask::StreamingList, Ask::Watch, Ask::List].map(|ask| wire.always(ask, Fault::Answer(503)));

    api.kill();
    gateway.scope_where(0, "the watch is down", |scope| scope["state"] == "backing-off").await;
    gateway.stat_is("sandgate.kubernetes_up", 0).await;
    for name in ["moved", "paused", "gone"] {
        served(&gateway, || request(name), &places[0]).await;
    }
    close();
    api.start_again().await;
    moved.resume(places[1].ip()).await;
    paused.pause().await;
    gone.delete().await;
    let new = draft("new").create().await;
    served(&gateway, || request("gone"), &places[0]).await;
    wire.clear();
    gateway.follows(&new).await;
    served(&gateway, || request("moved"), &places[1]).await;
    refused(&gateway, || request("paused"), NOT_RUNNING).await;
    refused(&gateway, || request("gone"), NOT_FOUND).await;
    served(&gateway, || request("new"), &places[0]).await;
    assert_eq!(gateway.scope(0).await["lists"], 1, "the watch went on from where it was");

    close();
    wire.cut_running();
    gateway.scope_where(0, "the watch is down", |scope| scope["state"] == "backing-off").await;
    moved.delete().await;
    let anew = draft("gone").create().await;
    api.compact().await;
    wire.clear();
    let scope = gateway.scope_where(0, "there was another list", |scope| scope["lists"] == 2).await;
    assert_eq!(scope["rewinds"], json!(0), "{scope}");
    gateway.follows(&anew).await;
    let reply = served(&gateway, || request("gone"), &places[0]).await;
    assert_eq!(reply.seen("x-sandbox-uid"), [anew.uid()]);
    refused(&gateway, || request("moved"), NOT_FOUND).await;
    refused(&gateway, || request("paused"), NOT_RUNNING).await;
    gateway.logged(&["410", "too old"]).await;
}
