//! kube's own client, over the network.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::json;

use super::{Guard, Network};
use crate::model::{CONFIG_MAPS, Model, PODS, Place};

fn model() -> Model {
    Model::new(1, "2026-11-18T10:00:00Z".parse().expect("a time"), 1000)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().expect("a runtime").block_on(test)
}

/// Lets every task run until it waits. Paused time passes only then.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// Answers every request at once.
async fn serve<T>(network: &Network, model: &mut Model, call: impl Future<Output = T>) -> T {
    let mut call = std::pin::pin!(call);
    loop {
        tokio::select! {
            biased;
            done = &mut call => return done,
            () = settle() => {}
        }
        for under_way in network.under_way() {
            network.commit(under_way.number, model);
            network.deliver(under_way.number);
        }
    }
}

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name, "labels": { "app": "web" } } }))
        .expect("a ConfigMap")
}

#[test]
fn kubes_client_creates_reads_lists_patches_and_deletes() {
    run(async {
        let (network, mut model) = (Network::default(), model());
        let api: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
        let made = serve(&network, &mut model, async {
            api.create(&PostParams::default(), &config("a")).await.expect("created");
            api.create(&PostParams::default(), &config("b")).await.expect("created")
        });
        let made = made.await;
        assert_eq!(made.metadata.namespace.as_deref(), Some("ns"));
        let list =
            serve(&network, &mut model, async { api.list(&ListParams::default().labels("app=web")).await });
        let list = list.await.expect("a list");
        assert_eq!(list.items.len(), 2);
        assert_eq!(list.metadata.resource_version, Some(model.revision().to_string()));
        let page = serve(&network, &mut model, async { api.list(&ListParams::default().limit(1)).await });
        let page = page.await.expect("a page");
        assert_eq!((page.items.len(), page.metadata.continue_.is_some()), (1, true));

        let twice =
            serve(&network, &mut model, async { api.create(&PostParams::default(), &config("b")).await });
        assert!(matches!(twice.await, Err(kube::Error::Api(status)) if status.is_already_exists()));
        let patch = Patch::Merge(json!({ "metadata": { "resourceVersion": "1" }, "data": { "k": "v" } }));
        let stale = serve(&network, &mut model, api.patch("a", &PatchParams::default(), &patch)).await;
        assert!(matches!(stale, Err(kube::Error::Api(status)) if status.is_conflict()));
        let gone =
            serve(&network, &mut model, async { api.delete("a", &DeleteParams::default()).await }).await;
        assert!(gone.expect("deleted").is_right());
        let missing = serve(&network, &mut model, async { api.get_opt("a").await }).await;
        assert_eq!(missing.expect("an answer"), None);
    });
}

#[test]
fn a_request_is_committed_though_its_caller_never_learns() {
    run(async {
        let (network, mut model) = (Network::default(), model());
        let api: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
        let call = tokio::spawn(async move { api.create(&PostParams::default(), &config("a")).await });
        settle().await;
        let [sent] = network.under_way().try_into().expect("one request");
        assert!(sent.awaited && !sent.answered);
        assert_eq!(network.commit(sent.number, &mut model), Some(201));
        network.lose(sent.number);
        settle().await;
        assert!(matches!(call.await.expect("it ended"), Err(kube::Error::Service(_))));
        assert!(model.get(&Place::new(&CONFIG_MAPS, "ns", "a")).is_ok());
    });
}

#[test]
fn a_request_outlives_the_caller_that_died() {
    run(async {
        let (network, mut model) = (Network::default(), model());
        let api: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
        let call = tokio::spawn(async move { api.create(&PostParams::default(), &config("a")).await });
        settle().await;
        call.abort();
        settle().await;
        let [sent] = network.under_way().try_into().expect("one request");
        assert!(!sent.awaited);
        assert_eq!(network.commit(sent.number, &mut model), Some(201));
        network.deliver(sent.number);
        assert!(network.under_way().is_empty());
    });
}

#[test]
fn a_refused_request_changes_nothing_and_a_lost_one_neither() {
    run(async {
        let (network, mut model) = (Network::default(), model());
        let before = model.revision();
        for refused in [true, false] {
            let api: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
            let call = tokio::spawn(async move { api.create(&PostParams::default(), &config("a")).await });
            settle().await;
            let [sent] = network.under_way().try_into().expect("one request");
            if refused {
                network.refuse(sent.number, 503);
                assert_eq!(network.commit(sent.number, &mut model), None, "it has its answer");
                network.deliver(sent.number);
            } else {
                network.lose(sent.number);
            }
            settle().await;
            let error = call.await.expect("it ended").expect_err("refused or lost");
            assert_eq!(matches!(error, kube::Error::Api(status) if status.code == 503), refused);
        }
        assert_eq!(model.revision(), before);
    });
}

#[test]
fn the_network_sees_what_a_write_carries() {
    run(async {
        let network = Network::default();
        let configs: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
        let pods: Api<Pod> = Api::namespaced(network.client(1), "ns");
        let (posts, patches) = (PostParams::default(), PatchParams::default());
        let uid = || {
            DeleteParams::default()
                .preconditions(Preconditions { uid: Some("u".into()), ..Default::default() })
        };
        let mut versioned = config("a");
        versioned.metadata.resource_version = Some("7".into());
        let mut unnamed = config("a");
        unnamed.metadata.name = None;
        unnamed.metadata.generate_name = Some("a-".into());
        let merge = Patch::Merge(json!({ "metadata": { "uid": "u" }, "spec": {} }));
        let bare = Patch::Merge(json!({ "status": {} }));
        let named = config("a");
        let (with_uid, without) = (uid(), DeleteParams::default());
        tokio::select! {
            biased;
            _ = async { tokio::join!(biased;
                configs.get("a"),
                configs.create(&posts, &named),
                configs.create(&posts, &unnamed),
                configs.replace("a", &posts, &versioned),
                pods.patch("a", &patches, &merge),
                pods.patch_status("a", &patches, &merge),
                pods.patch("a", &patches, &bare),
                pods.delete("a", &with_uid),
                pods.delete("a", &without),
            ) } => unreachable!("nobody answers"),
            () = settle() => {}
        }
        let guards: Vec<Guard> = network.under_way().iter().map(|call| call.operation.guard()).collect();
        let expected = [
            Guard::Read,
            Guard::Name,
            Guard::None,
            Guard::Version,
            Guard::Uid,
            Guard::None,
            Guard::None,
            Guard::Uid,
            Guard::None,
        ];
        assert_eq!(guards, expected);
        assert_eq!(network.under_way()[4].operation.target(), Some(Place::new(&PODS, "ns", "a")));
    });
}

#[test]
fn nobody_gets_what_a_dead_caller_would_send() {
    run(async {
        let (network, mut model) = (Network::default(), model());
        let api: Api<ConfigMap> = Api::namespaced(network.client(1), "ns");
        let (posts, named) = (PostParams::default(), config("a"));
        let mut call = std::pin::pin!(api.create(&posts, &named));
        network.bury(1);
        tokio::select! {
            biased;
            _ = &mut call => unreachable!("nobody answers"),
            () = settle() => {}
        }
        assert!(network.under_way().is_empty());
        // What others send arrives as ever.
        let api: Api<ConfigMap> = Api::namespaced(network.client(2), "ns");
        serve(&network, &mut model, api.create(&posts, &named)).await.expect("created");
    });
}
