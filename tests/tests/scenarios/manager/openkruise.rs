//! The manager beside OpenKruise's controllers, in the place of our operator, and with their definition of
//! Sandbox. Theirs cannot be had here, so it is a double of them that writes what they write.

use std::collections::BTreeSet;

use sandgate_tests::cluster::{Cluster, Manager, Objects, OpenKruise, Resource};
use sandgate_tests::{DEADLINE, E2bSdk, Gateway, Reply, Request, Where, eventually};
use serde_json::{Value, json};

use super::sdk::timeouts;
use super::{BASE, NAMESPACE, Site, id};

/// What a pod is held by until the scenario lets it go.
const HELD: &str = "sandgate.test/held";

/// A cluster with the double, a manager, a gateway and a key.
struct Beside {
    // In the order in which they end.
    controllers: OpenKruise,
    manager: Manager,
    gateway: Gateway,
    key: String,
    site: Site,
    sandboxes: Objects,
    pods: Objects,
}

impl Beside {
    async fn start() -> Self {
        let cluster = Cluster::builder().openkruise_definition().start().await;
        let controllers = cluster.openkruise(NAMESPACE);
        let site = Site::without_operator(cluster).await;
        let gateway = site.gateway(&site.cluster.kubeconfig()).await;
        let manager = site.manager(&[&gateway]).await;
        site.template(BASE, "envd", 3).await;
        let key = site.cluster.api_key("beside").await;
        let [sandboxes, pods] =
            [Resource::Sandbox, Resource::Pod].map(|resource| site.cluster.objects(resource, NAMESPACE));
        Self { controllers, manager, gateway, key, site, sandboxes, pods }
    }

    /// Asks the manager about a sandbox.
    async fn ask(&self, method: &str, id: &str, action: &str, body: Value) -> Reply {
        let body = (method == "POST").then_some(&body);
        self.manager.ask(&self.key, method, &format!("/sandboxes/{id}{action}"), body).await
    }

    async fn create(&self, timeout: u32, who: &str) -> Value {
        let wanted = json!({ "timeout": timeout, "metadata": { "who": who } });
        self.manager.create(&self.key, BASE, &wanted).await
    }

    /// The IDs of the sandboxes that are listed in this state.
    async fn listed(&self, who: &str, state: &str) -> Value {
        let path = format!("/v2/sandboxes?metadata=who%3D{who}&state={state}");
        let listed = self.manager.ask(&self.key, "GET", &path, None).await.json();
        listed.as_array().expect("a list").iter().map(|one| one["sandboxID"].clone()).collect()
    }

    /// What envd says through the gateway of a file, for which a token is needed.
    async fn asks_envd(&self, id: &str) -> u16 {
        let request = Request::get("/files?path=none").header("e2b-sandbox-id", id);
        self.gateway.send(request.header("e2b-sandbox-port", "49983")).await.status
    }

    /// Waits until the gateway answers so for a sandbox: 401 is envd's own answer.
    async fn answers(&self, id: &str, status: u16) {
        eventually(&format!("the gateway answers {status}"), DEADLINE, async || {
            (self.asks_envd(id).await == status).then_some(())
        })
        .await;
    }

    /// The name of the object with this ID.
    async fn name_of(&self, id: &str) -> String {
        let selector = format!("agents.kruise.io/sandbox-id={id}");
        let found = self.sandboxes.labelled(&selector).await;
        found[0]["metadata"]["name"].as_str().expect("a name").to_owned()
    }

    /// How many sandboxes the manager has read from the API server.
    async fn reads(&self) -> u64 {
        let metrics = self.manager.metrics().await;
        let is_it = |line: &&str| {
            line.starts_with("sandgate_manager_server_requests_total{")
                && [r#"verb="get""#, r#"kind="Sandbox""#].iter().all(|label| line.contains(label))
        };
        let counts = metrics.lines().filter(is_it).map(|line| line.rsplit(' ').next());
        counts.map(|count| count.and_then(|count| count.parse::<u64>().ok()).expect("a number")).sum()
    }
}

/// Status and reason of a condition; empty if there is none.
fn condition<'a>(object: &'a Value, kind: &str) -> [&'a str; 2] {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.into_iter().find(|one| one["type"] == kind);
    ["status", "reason"].map(|field| found.and_then(|one| one[field].as_str()).unwrap_or_default())
}

#[tokio::test]
async fn sandboxes_live_from_create_to_kill_beside_openkruises_controllers() {
    let beside = Beside::start().await;
    lives(&beside).await;
    let (api, sandboxes) = (beside.manager.url(), format!("http://{}", beside.gateway.address()));
    let urls = Where::Urls { api: &api, sandboxes: &sandboxes };
    let (seen, ()) = tokio::join!(E2bSdk::outlive(urls, &beside.key, BASE), fails(&beside));
    timeouts(&seen, "SandboxNotFoundException");
    beside.site.claimed_are(0).await;
    beside.site.is_warm(BASE, 3).await;
    beside.controllers.assert_alive();
}

async fn lives(beside: &Beside) {
    let Beside { sandboxes, pods, .. } = beside;
    let warm: BTreeSet<String> =
        sandboxes.list().await.iter().map(|object| object["metadata"]["name"].to_string()).collect();
    let made = beside.create(600, "lives").await;
    let id = id(&made);
    let name = beside.name_of(id).await;
    let running = sandboxes.get(&name).await.expect("it is there");
    assert!(warm.contains(&running["metadata"]["name"].to_string()), "{name} was not of {warm:?}");
    assert!(running["metadata"]["ownerReferences"].is_null(), "still the set's: {running:#}");
    assert_eq!(beside.asks_envd(id).await, 401);
    let connected = beside.ask("POST", id, "/connect", json!({ "timeout": 600 })).await;
    assert_eq!(connected.status, 200, "{}", connected.text());

    pauses_and_resumes(beside, id, &running).await;

    // The answer is not older than what it says was done.
    let before = sandboxes.get(&name).await.expect("it is there");
    assert_eq!(beside.ask("POST", id, "/timeout", json!({ "timeout": 7200 })).await.status, 204);
    let after = sandboxes.get(&name).await.expect("it is there");
    let end = |object: &Value| object["spec"]["shutdownTime"].as_str().expect("a time").to_owned();
    assert!(end(&before) < end(&after), "{} {}", end(&before), end(&after));
    assert_eq!(beside.listed("lives", "running").await, json!([id]));
    assert_eq!(beside.listed("lives", "paused").await, json!([]));

    // A container that waits to be started again is no failure of the sandbox, though it is called one.
    let crash = |code: Value| json!({ "metadata": { "annotations": { "node.sandgate.test/exit": code } } });
    pods.patch(&name, &crash("1".into())).await;
    let failed = ["False", "StartContainerFailed"];
    sandboxes.until(&name, "a container waits", |object| condition(object, "Ready") == failed).await;
    assert_eq!(beside.ask("GET", id, "", Value::Null).await.json()["state"], "running");
    beside.answers(id, 502).await;
    let mended = crash(Value::Null);
    let connect = beside.ask("POST", id, "/connect", json!({ "timeout": 600 }));
    let (connected, _) = tokio::join!(connect, pods.patch(&name, &mended));
    assert_eq!(connected.status, 200, "{}", connected.text());
    beside.answers(id, 401).await;

    // Killed while it is paused: the finalizer goes with the object.
    assert_eq!(beside.ask("POST", id, "/pause", json!({})).await.status, 204);
    assert_eq!(beside.listed("lives", "paused").await, json!([id]));
    assert_eq!(beside.ask("DELETE", id, "", Value::Null).await.status, 204);
    assert_eq!(beside.ask("GET", id, "", Value::Null).await.status, 404);
    sandboxes.until_gone(&name).await;
}

/// A pause that takes its time, and a connect that comes meanwhile.
async fn pauses_and_resumes(beside: &Beside, id: &str, running: &Value) {
    let Beside { sandboxes, pods, .. } = beside;
    let name = running["metadata"]["name"].as_str().expect("a name");
    let hold = |finalizers: Value| json!({ "metadata": { "finalizers": finalizers } });
    pods.patch(name, &hold(json!([HELD]))).await;
    let pausing = ["False", "Pending"];
    let meanwhile = async {
        let is_pausing = |object: &Value| condition(object, "SandboxPaused") == pausing;
        let object = sandboxes.until(name, "it is pausing", is_pausing).await;
        assert_eq!((&object["status"]["phase"], condition(&object, "Ready")[0]), (&json!("Paused"), "False"));
        assert_eq!(object["metadata"]["finalizers"], json!(["agents.kruise.io/sandbox"]));
        assert_eq!(object["status"]["podInfo"], running["status"]["podInfo"]);
        assert_eq!(beside.ask("GET", id, "", Value::Null).await.json()["state"], "paused");
        beside.answers(id, 502).await;
        let reads = beside.reads().await;
        let let_go = async {
            eventually("the connect has looked", DEADLINE, async || {
                (beside.reads().await > reads).then_some(())
            })
            .await;
            let object = sandboxes.get(name).await.expect("it is there");
            assert_eq!(condition(&object, "SandboxPaused"), pausing);
            pods.patch(name, &hold(Value::Null)).await;
        };
        tokio::join!(beside.ask("POST", id, "/connect", json!({ "timeout": 600 })), let_go).0
    };
    let (paused, connected) = tokio::join!(beside.ask("POST", id, "/pause", json!({})), meanwhile);
    assert_eq!(paused.status, 204, "{}", paused.text());
    assert_eq!(connected.status, 201, "{}", connected.text());
    // It is told when the new pod has the token, and not before.
    assert_eq!(beside.asks_envd(id).await, 401);
    let resumed = sandboxes.get(name).await.expect("it is there");
    assert_ne!(resumed["status"]["podInfo"]["podUID"], running["status"]["podInfo"]["podUID"]);
    let conditions = ["Ready", "SandboxPaused", "SandboxResumed", "RuntimeInitialized"];
    assert_eq!(conditions.map(|kind| condition(&resumed, kind)[0]), ["True", "", "True", "True"]);
    assert!(resumed["metadata"]["finalizers"].is_null(), "{resumed:#}");
}

/// OpenKruise's controllers do not end a sandbox that has failed. Its owner does not see it, and can delete
/// it.
async fn fails(beside: &Beside) {
    let Beside { sandboxes, pods, .. } = beside;
    let lost = beside.create(4, "fails").await;
    let lost = id(&lost);
    let name = beside.name_of(lost).await;
    pods.delete_at_once(&name).await;
    let is_failed = |object: &Value| object["status"]["message"] == "Pod Not Found";
    let failed = sandboxes.until(&name, "it has failed", is_failed).await;
    assert_eq!(failed["status"]["phase"], "Failed");
    eventually("the manager knows", DEADLINE, async || {
        (beside.ask("GET", lost, "", Value::Null).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(beside.listed("fails", "running,paused").await, json!([]));
    // The end of another is later, so that of the first is past when the other is gone.
    let ends = beside.create(4, "fails").await;
    sandboxes.until_gone(&beside.name_of(id(&ends)).await).await;
    assert_eq!(beside.ask("GET", id(&ends), "", Value::Null).await.status, 404);
    assert!(sandboxes.get(&name).await.is_some(), "a sandbox that has failed was ended by its shutdownTime");
    assert_eq!(beside.ask("DELETE", lost, "", Value::Null).await.status, 204);
    sandboxes.until_gone(&name).await;
}
