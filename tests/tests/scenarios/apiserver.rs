//! The control plane of the scenarios itself: what it does must be true before a scenario may rely on it.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use kube::api::{Api, DynamicObject, ListParams};
use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Kind, Wire, agent_sandbox, kruise, opensandbox};
use sandgate_tests::{Client, DEADLINE, Request, eventually, locations};
use serde_json::{Value, json};

use crate::support::allow;

/// A watch as a plain client sees it.
struct Watching {
    _client: Client,
    body: Incoming,
    buffer: Vec<u8>,
}

/// What came next.
#[derive(Debug)]
enum Next {
    Event(Value),
    /// A line that is no JSON.
    Garbled,
    /// The connection broke, with this much of a line before.
    Broken(usize),
    End,
}

impl Watching {
    async fn open(wire: &Wire, path: &str, query: &str) -> Result<Self, (u16, Value)> {
        let mut client = Client::http1(wire.address()).await.expect("reach the wire");
        let request = Request::get(&format!("{path}?watch=true&{query}"))
            .header("authorization", format!("Bearer {}", wire.admin_token()));
        let (_, answer) = client.open(request).await.expect("an answer");
        let (head, body) = answer.into_parts();
        if head.status == 200 {
            return Ok(Self { _client: client, body, buffer: Vec::new() });
        }
        let body = body.collect().await.expect("a body").to_bytes();
        Err((head.status.as_u16(), serde_json::from_slice(&body).expect("JSON")))
    }

    async fn next(&mut self) -> Next {
        tokio::time::timeout(DEADLINE, self.line()).await.expect("something within the deadline")
    }

    async fn line(&mut self) -> Next {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return serde_json::from_slice(&line).map_or(Next::Garbled, Next::Event);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().expect("data")),
                Some(Err(_)) => return Next::Broken(self.buffer.len()),
                None => return Next::End,
            }
        }
    }

    /// The type of the next event, and the name of its object.
    async fn event(&mut self) -> (String, String) {
        match self.next().await {
            Next::Event(event) => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&event["type"]), text(&event["object"]["metadata"]["name"]))
            }
            other => panic!("no event but {other:?}"),
        }
    }

    /// Reads until an object of this name comes.
    async fn until(&mut self, name: &str) {
        while self.event().await.1 != name {}
    }
}

fn pair(kind: &str, name: &str) -> (String, String) {
    (kind.to_owned(), name.to_owned())
}

async fn list(api: &ApiServer, kind: Kind, namespace: &str) -> Vec<DynamicObject> {
    let objects: Api<DynamicObject> = Api::namespaced_with(api.client(), namespace, &kind.resource());
    objects.list(&ListParams::default()).await.expect("a list").items
}

#[tokio::test]
async fn the_server_is_of_the_pinned_version_and_serves_all_kinds() {
    let api = ApiServer::shared().await;
    if std::env::var_os("KUBEBUILDER_ASSETS").is_none() {
        let request = http::Request::get("/version").body(Vec::new()).expect("a request");
        let version: Value = api.client().request(request).await.expect("a version");
        let module = std::fs::read_to_string(locations::repository().join("tests/cluster/go.mod"));
        let pin = format!("k8s.io/kubernetes {}\n", version["gitVersion"].as_str().expect("a version"));
        assert!(module.expect("go.mod").contains(&pin), "{version}");
    }
    let namespace = api.namespace("kinds").await;
    kruise(&api, &namespace, "a").running("127.1.2.3").with_template().create().await;
    agent_sandbox(&api, &namespace, "b").running("127.1.2.3").with_template().create().await;
    opensandbox(&api, &namespace, "c").running("127.1.2.3").token("t").with_template().create().await;
    for (kind, name, status, template) in [
        (Kind::OpenKruise, "a", "/status/podInfo/podIP", "/spec/template/spec/containers/0/name"),
        (Kind::AgentSandbox, "b", "/status/podIPs/0", "/spec/podTemplate/spec/containers/0/name"),
        (Kind::AgentSandboxV1Alpha1, "b", "/status/podIPs/0", "/spec/podTemplate/spec/containers/0/name"),
        (Kind::OpenSandbox, "c", "/status/ready", "/spec/template/spec/containers/0/name"),
    ] {
        let [object] = <[_; 1]>::try_from(list(&api, kind, &namespace).await).expect("one object");
        let object = serde_json::to_value(object).expect("JSON");
        assert_eq!(object["metadata"]["name"], name);
        let expected = if kind == Kind::OpenSandbox { json!(1) } else { json!("127.1.2.3") };
        assert_eq!(object.pointer(status), Some(&expected), "{object}");
        assert_eq!(object.pointer(template), Some(&json!("sandbox")), "{object}");
    }
}

#[tokio::test]
async fn sandboxes_live_pause_resume_and_die_and_a_name_made_anew_is_another_object() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("life").await;
    for draft in [
        kruise(&api, &namespace, "a"),
        agent_sandbox(&api, &namespace, "a"),
        opensandbox(&api, &namespace, "a"),
    ] {
        let first = draft.clone().running("127.1.2.3").create().await;
        let born = first.version().await;
        first.pause().await;
        let paused = first.get().await.expect("the object");
        assert!(
            paused["spec"]["paused"] == true
                || paused["spec"]["operatingMode"] == "Suspended"
                || paused["spec"]["pause"] == true,
            "{paused}"
        );
        first.resume("127.1.2.4").await;
        let text = first.get().await.expect("the object").to_string();
        assert!(text.contains("127.1.2.4") && !text.contains("127.1.2.3"), "{text}");
        assert_ne!(first.version().await, born);
        first.fail().await;
        first.delete().await;
        assert!(first.get().await.is_none());
        let second = draft.create().await;
        assert_ne!(first.uid(), second.uid());
    }
}

#[tokio::test]
async fn a_streaming_list_gives_all_objects_then_the_bookmark_then_what_happens() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("stream").await, Wire::to(&api).await);
    api.seed((0..300).map(|n| kruise(&api, &namespace, &format!("s{n:03}")).running("127.1.2.3"))).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let path = Kind::OpenKruise.path(Some(&namespace));
    let mut watch = Watching::open(&wire, &path, query).await.expect("a streaming list");
    for n in 0..300 {
        assert_eq!(watch.event().await, pair("ADDED", &format!("s{n:03}")));
    }
    let Next::Event(bookmark) = watch.next().await else { panic!("no bookmark") };
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    kruise(&api, &namespace, "later").create().await.delete().await;
    assert_eq!(watch.event().await, pair("ADDED", "later"));
    assert_eq!(watch.event().await, pair("DELETED", "later"));
    assert_eq!((wire.count(Ask::StreamingList), wire.running(Ask::StreamingList)), (1, 1));
    assert_eq!((wire.bookmarks(), wire.count(Ask::Watch)), (1, 0));
    assert_eq!(wire.seen()[0].path, path);
}

#[tokio::test]
async fn without_streaming_lists_the_server_refuses_one_and_pages_a_list() {
    let api = ApiServer::builder().without_streaming_lists().start().await;
    let (namespace, wire) = (api.namespace("old").await, Wire::to(&api).await);
    let path = Kind::OpenKruise.path(Some(&namespace));
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let refused = Watching::open(&wire, &path, query).await.err().expect("a refusal");
    assert_eq!(refused.0, 422, "{}", refused.1);
    for name in ["a", "b", "c"] {
        kruise(&api, &namespace, name).create().await;
    }
    let objects: Api<DynamicObject> =
        Api::namespaced_with(api.client(), &namespace, &Kind::OpenKruise.resource());
    let first = objects.list(&ListParams::default().limit(2)).await.expect("a page");
    assert_eq!(first.items.len(), 2);
    let token = first.metadata.continue_.expect("there is more");
    let rest = objects.list(&ListParams::default().limit(2).continue_token(&token)).await.expect("a page");
    assert_eq!(rest.items.len(), 1);
}

#[tokio::test]
async fn a_compacted_version_is_gone_and_a_killed_server_comes_back_with_its_data() {
    let api = ApiServer::builder().without_watch_cache().start().await;
    let (namespace, wire) = (api.namespace("gone").await, Wire::to(&api).await);
    let path = Kind::OpenKruise.path(Some(&namespace));
    let first = kruise(&api, &namespace, "first").running("127.1.2.3").create().await;
    let old = format!("resourceVersion={}", first.version().await);
    for name in ["second", "third"] {
        kruise(&api, &namespace, name).create().await;
    }
    let mut watch = Watching::open(&wire, &path, &old).await.expect("a watch");
    assert_eq!(watch.event().await, pair("ADDED", "second"));
    api.compact().await;
    assert_gone(&wire, &path, &old).await;

    let (uid, version) = (first.uid().to_owned(), first.version().await);
    watch.until("third").await;
    api.kill();
    assert!(matches!(watch.next().await, Next::Broken(0)));
    assert!(Client::http1(api.address()).await.is_err(), "a killed server accepts connections");
    api.start_again().await;
    let back = first.get().await.expect("the object outlived the server");
    assert_eq!(
        (&back["metadata"]["uid"], &back["metadata"]["resourceVersion"]),
        (&json!(uid), &json!(version))
    );
    assert_gone(&wire, &path, &old).await;
}

#[tokio::test]
async fn with_the_watch_cache_a_version_from_before_a_restart_and_a_compaction_is_gone() {
    let api = ApiServer::builder().start().await;
    let (namespace, wire) = (api.namespace("cache").await, Wire::to(&api).await);
    let path = Kind::OpenKruise.path(Some(&namespace));
    let first = kruise(&api, &namespace, "first").create().await;
    let old = format!("resourceVersion={}", first.version().await);
    for name in ["second", "third"] {
        kruise(&api, &namespace, name).create().await;
    }
    api.compact().await;
    api.kill();
    api.start_again().await;
    assert_gone(&wire, &path, &old).await;
}

/// A watch from `version` gets a 410, as an event or as the status. A server that has just started says 429
/// first, while it fills its watch cache.
async fn assert_gone(wire: &Wire, path: &str, version: &str) {
    let code = eventually("the watch cache is there", DEADLINE, async || {
        let code = match Watching::open(wire, path, version).await {
            Err((status, _)) => json!(status),
            Ok(mut watch) => match watch.next().await {
                Next::Event(event) if event["type"] == "ERROR" => event["object"]["code"].clone(),
                other => panic!("no error but {other:?}"),
            },
        };
        (code != 429).then_some(code)
    });
    assert_eq!(code.await, 410);
}

#[tokio::test]
async fn the_wire_cuts_garbles_stalls_and_refuses_as_it_is_told() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("wire").await, Wire::to(&api).await);
    let path = Kind::OpenKruise.path(Some(&namespace));
    let change = async |name: &str| kruise(&api, &namespace, name).create().await;
    let now = format!("resourceVersion={}", change("zero").await.version().await);
    let watch = async || Watching::open(&wire, &path, &now).await.expect("a watch");

    let mut cut = watch().await;
    change("one").await;
    assert_eq!(cut.event().await, pair("ADDED", "one"));
    wire.once(Ask::Watch, Fault::CutMidLine);
    change("two").await;
    let broken = cut.next().await;
    assert!(matches!(broken, Next::Broken(bytes) if bytes > 100), "{broken:?}");
    assert!(wire.is_spent());

    let mut garbled = watch().await;
    garbled.until("two").await;
    wire.once(Ask::Watch, Fault::Garble);
    change("three").await;
    assert!(matches!(garbled.next().await, Next::Garbled));
    change("four").await;
    assert_eq!(garbled.event().await, pair("ADDED", "four"));

    wire.always(Ask::Watch, Fault::Stall);
    change("five").await;
    let silent = tokio::time::timeout(Duration::from_millis(200), garbled.line()).await;
    assert!(silent.is_err(), "{silent:?}");
    wire.clear();
    assert_eq!(garbled.event().await, pair("ADDED", "five"));

    wire.always(Ask::Watch, Fault::Dribble);
    change("six").await;
    assert_eq!(garbled.event().await, pair("ADDED", "six"));
    wire.clear();
    wire.cut_running();
    assert!(matches!(garbled.next().await, Next::Broken(0)));

    for code in [401, 410, 429, 500] {
        wire.once(Ask::Watch, Fault::Answer(code));
        let refused = Watching::open(&wire, &path, &now).await.err().expect("a refusal");
        assert_eq!((refused.0, &refused.1["code"]), (code, &json!(code)));
    }
    wire.once(Ask::Watch, Fault::ErrorEvent(410));
    assert_gone(&wire, &path, &now).await;
    eventually("no answer runs", DEADLINE, async || (wire.running(Ask::Watch) == 0).then_some(())).await;
    assert!(!wire.seen().iter().any(|seen| seen.ask != Ask::Watch), "{:?}", wire.seen());
}

#[tokio::test]
async fn an_account_has_the_rights_it_was_given_and_its_token_ends_with_what_it_is_bound_to() {
    let api = ApiServer::shared().await;
    let namespace = api.namespace("rights").await;
    let account = api.service_account(&namespace, "gateway").await;
    let token = account.token_bound_to("lease").await;
    let client = api.client_with(&token).await;
    let status = async |client: &kube::Client| {
        let objects: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &namespace, &Kind::OpenKruise.resource());
        match objects.list(&ListParams::default()).await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(status(&client).await, 403);
    allow(&api, &namespace, "list, watch").await;
    eventually("the right is there", DEADLINE, async || (status(&client).await == 200).then_some(())).await;

    account.revoke("lease").await;
    eventually("the token is refused", DEADLINE, async || (status(&client).await == 401).then_some(())).await;
    let rotated = api.client_with(&account.token().await).await;
    assert_eq!(status(&rotated).await, 200);
}
