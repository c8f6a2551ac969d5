//! Credentials that end and are replaced.

use kube::api::{Api, DynamicObject, ListParams};
use sandgate_tests::kubernetes::{ApiServer, Ask, Kind, Wire, kruise};
use sandgate_tests::{DEADLINE, eventually, replace_by_rename};

use super::{ask, sandbox, served, watching};
use crate::support::allow;

#[tokio::test]
async fn a_token_that_has_ended_is_told_and_the_next_one_in_its_file_is_taken() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("token").await, Wire::to(&api).await);
    let places = [sandbox("here").await, sandbox("there").await];
    let account = api.service_account(&namespace, "gateway").await;
    allow(&api, &namespace, "list, watch").await;
    let object = kruise(&api, &namespace, "a").running(places[0].ip()).create().await;
    let token = account.token_bound_to("lease").await;
    let file = api.token_file(&token);
    let gateway = watching(&wire.kubeconfig_with_token_file(&file), &namespace).start().await;
    let request = || ask(Kind::OpenKruise, &namespace, "a");
    served(&gateway, request, &places[0]).await;

    account.revoke("lease").await;
    // The server remembers for ten seconds that the token was good.
    let other = api.client_with(&token).await;
    let objects: Api<DynamicObject> = Api::namespaced_with(other, &namespace, &Kind::OpenKruise.resource());
    eventually("the token is refused", DEADLINE, async || {
        let answer = objects.list(&ListParams::default()).await;
        matches!(answer, Err(kube::Error::Api(status)) if status.code == 401).then_some(())
    })
    .await;
    wire.cut_running();
    let told = |scope: &serde_json::Value| {
        scope["error"].as_str().is_some_and(|error| error.contains("does not accept the credentials"))
    };
    gateway.scope_where(0, "the refusal is told", told).await;
    object.resume(places[1].ip()).await;
    served(&gateway, request, &places[0]).await;

    let next = account.token_bound_to("next-lease").await;
    replace_by_rename(&file, &next);
    gateway.follows(&object).await;
    served(&gateway, request, &places[1]).await;
    assert_eq!(gateway.scope(0).await["lists"], 1);
    assert_eq!(wire.count(Ask::StreamingList), 1);
    let told = format!("{} {}", gateway.log(), gateway.status().await);
    assert!(!told.contains(&token) && !told.contains(&next), "a token is told");
}
