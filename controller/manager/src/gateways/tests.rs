use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sandgate_cache::Cache;
use sandgate_cache::testing::{TestCache, claimed, env_pod, env_sandbox, pausing};
use sandgate_objects::built_in;
use sandgate_objects::openkruise::resources::SandboxFacts;
use sandgate_objects::sandbox_env::resources::EnvPod;
use sandgate_peering::{Delivery, RouteMessage};
use sandgate_routes::Observation;
use tokio::time::Instant;

use super::{Gateways, Push, Pushed};

struct Told {
    messages: Mutex<Vec<RouteMessage>>,
    answers: Vec<Delivery>,
}

impl Push for Told {
    fn push(&self, message: &RouteMessage, _: Instant) -> BoxFuture<'static, Vec<Delivery>> {
        self.messages.lock().push(message.clone());
        std::future::ready(self.answers.clone()).boxed()
    }
}

#[tokio::test]
async fn a_sandbox_is_told_as_it_is_and_its_end_is_newer() {
    let test = TestCache::new();
    let answers = vec![Delivery::Delivered, Delivery::Pending, Delivery::Coalesced, Delivery::Dropped];
    let told = Arc::new(Told { messages: Mutex::default(), answers });
    let gateways = Gateways::new(Some(Arc::clone(&told) as Arc<dyn Push>), Duration::from_millis(500));
    let mut sandbox = claimed("one", "ada", "id1");
    sandbox["metadata"]["annotations"]["agents.kruise.io/runtime-access-token"] = "t".into();
    sandbox["metadata"]["annotations"]["sandgate.dev/traffic-access-token"] = " u\n".into();
    let seen = test.show::<SandboxFacts>(&sandbox);
    gateways.announce(&seen, test.now()).await;
    gateways.withdraw(&seen).await;
    let paused = test.show::<SandboxFacts>(&pausing(sandbox.clone()));
    gateways.announce(&paused, test.now()).await;
    sandbox["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let deleting = test.show::<SandboxFacts>(&sandbox);
    gateways.withdraw(&deleting).await;
    let messages = told.messages.lock().clone();
    let states: Vec<_> = messages.iter().map(|message| message.state.as_str()).collect();
    assert_eq!(states, ["running", "dead", "paused", "dead"]);
    let first = RouteMessage {
        provider: String::new(),
        ip: "10.0.0.1".to_owned(),
        id: "id1".to_owned(),
        namespace: "default".to_owned(),
        name: "one".to_owned(),
        uid: "uid-one".to_owned(),
        owner: "ada".to_owned(),
        state: "running".to_owned(),
        resource_version: seen.version.to_string(),
        access_token: "t".to_owned(),
        traffic_access_token: "u".to_owned(),
        require_traffic_auth: false,
    };
    assert_eq!(messages[0], first);
    assert_eq!(messages[1].resource_version, (seen.version.get() + 1).to_string());
    assert_eq!(messages[3].resource_version, deleting.version.to_string());
    assert_eq!(gateways.pushed(), Pushed { told: 8, missed: 8 });
}

#[tokio::test]
async fn a_pod_of_an_environment_is_told_as_the_watch_of_a_gateway_reads_it() {
    let test = TestCache::built(Cache::builder().environments());
    let told = Arc::new(Told { messages: Mutex::default(), answers: vec![Delivery::Delivered] });
    let gateways = Gateways::new(Some(Arc::clone(&told) as Arc<dyn Push>), Duration::from_millis(500));
    let mut object = env_sandbox(env_pod("pod", "pool"), "id1", "ada", "running");
    object["metadata"]["namespace"] = "default".into();
    object["metadata"]["uid"] = "uid-pod".into();
    object["metadata"]["resourceVersion"] = "41".into();
    object["metadata"]["annotations"]["sandgate.dev/access-token"] = "t".into();
    object["metadata"]["annotations"]["sandgate.dev/traffic-access-token"] = " u\n".into();
    let pod = test.show::<EnvPod>(&object);
    gateways.announce_pod(&pod, "id1").await;
    let message = told.messages.lock()[0].clone();
    let provider = built_in(&message.provider).unwrap();
    let projection = provider.project(object.to_string().as_bytes(), SystemTime::now()).unwrap();
    let Observation { key, id, uid, owner, state, version, ip, token, traffic_token, .. } =
        projection.observation;
    assert_eq!(message.identity(provider.name()), Ok((key, version)));
    assert_eq!((message.id, message.uid, message.owner), (id, uid, owner));
    assert_eq!((message.state.as_str(), message.ip), (state.as_str(), ip.unwrap().to_string()));
    assert!(token.unwrap().matches(message.access_token.as_bytes()));
    assert!(traffic_token.unwrap().matches(message.traffic_access_token.as_bytes()));
    // Its end is newer; where the pod itself says it, it is of that version.
    gateways.withdraw_pod(&pod, "id1").await;
    object["metadata"]["resourceVersion"] = "45".into();
    object["metadata"]["labels"]["agentbox.navix.sh/sandbox-phase"] = "stopping".into();
    gateways.withdraw_pod(&test.show::<EnvPod>(&object), "id1").await;
    let versions: Vec<_> =
        told.messages.lock().iter().map(|it| (it.state.clone(), it.resource_version.clone())).collect();
    assert_eq!(versions[1..], [("dead".to_owned(), "42".to_owned()), ("dead".to_owned(), "45".to_owned())]);
}

#[tokio::test]
async fn without_a_way_to_the_gateways_nothing_is_told() {
    let test = TestCache::new();
    let gateways = Gateways::new(None, Duration::from_millis(500));
    let seen = test.show::<SandboxFacts>(&claimed("one", "ada", "id1"));
    gateways.announce(&seen, test.now()).await;
    gateways.withdraw(&seen).await;
    assert_eq!(gateways.pushed(), Pushed::default());
}
