//! One object, watched and pushed: what is made of it does not depend on the way it came.

use std::future::pending;
use std::sync::Arc;

use sandgate_follow::testing::{Answer, Server, Step, complete, event, eventually, timing};
use sandgate_routes::{Limits, RouteReader, RouteTable};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::source::Running;
use crate::ProviderConfig;
use crate::kubernetes::Watched;
use crate::{Receiver, RefreshStatusReader, Settings};

/// A table and the receiver of its pushes.
struct Pushes {
    reader: RouteReader,
    status: RefreshStatusReader,
    task: JoinHandle<()>,
}

impl Pushes {
    fn start() -> Self {
        let settings = json!({
            "routes-file": "r", "pod-ranges": ["127.0.0.0/8", "10.0.0.0/8"],
            "refresh": { "address": "127.0.0.1", "port": 0, "provider": "openkruise", "insecure": true },
        });
        let settings = Settings::parse(settings.to_string().as_bytes()).unwrap();
        let (writer, reader) = RouteTable::new(Limits::default());
        let refresh = settings.refresh().unwrap().clone();
        let receiver = Receiver::new(refresh, settings.addresses().clone(), writer);
        let status = receiver.status();
        Self { reader, status, task: tokio::spawn(receiver.run(pending())) }
    }

    /// Posts a message and gives the whole answer.
    async fn push(&self, message: &Value) -> String {
        let address = eventually("the receiver listens", || self.status.listening()).await;
        let body = message.to_string();
        let request = format!(
            "POST /refresh HTTP/1.1\r\nhost: p\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

impl Drop for Pushes {
    fn drop(&mut self) {
        self.task.abort();
    }
}

const KNOWN: bool = true;
const GONE: bool = false;

/// What is wrong with an object: a field of a message, its value, and whether the object is still known.
fn wrong() -> Vec<(&'static str, Value, bool)> {
    vec![
        ("ip", json!("nowhere"), KNOWN),
        ("ip", json!("10.0.0.1:80"), KNOWN),
        ("ip", json!("0.0.0.0"), KNOWN),
        ("ip", json!("ff02::1"), KNOWN),
        ("ip", json!("8.8.8.8"), KNOWN),
        ("id", json!("a b"), GONE),
        ("owner", json!("a\nb"), GONE),
        ("uid", json!(""), GONE),
        ("accessToken", json!("t".repeat(4097)), GONE),
        ("accessToken", json!(["a", "list"]), GONE),
        ("trafficAccessToken", json!("t".repeat(4097)), GONE),
        ("trafficAccessToken", json!(["a", "list"]), GONE),
    ]
}

fn name(number: usize) -> String {
    format!("box-{number}")
}

fn message(number: usize, version: usize) -> Value {
    let name = name(number);
    json!({
        "namespace": "n", "name": name, "id": format!("n--{name}"), "uid": format!("uid-{name}"), "ip": "10.0.0.1",
        "owner": "alice", "state": "running", "resourceVersion": version.to_string(), "accessToken": "s3cret",
        "trafficAccessToken": "tr4ffic",
    })
}

/// The same as OpenKruise has it.
fn object(message: &Value) -> Value {
    json!({
        "metadata": {
            "namespace": message["namespace"], "name": message["name"], "uid": message["uid"],
            "resourceVersion": message["resourceVersion"],
            "labels": { "agents.kruise.io/sandbox-id": message["id"] },
            "annotations": {
                "agents.kruise.io/owner": message["owner"],
                "agents.kruise.io/runtime-access-token": message["accessToken"],
                "sandgate.dev/traffic-access-token": message["trafficAccessToken"],
            },
        },
        "spec": { "paused": false },
        "status": {
            "phase": "Running", "podInfo": { "podIP": message["ip"] },
            "conditions": [{ "type": "Ready", "status": "True", "reason": "PodReady" }],
        },
    })
}

fn table(reader: &RouteReader) -> Vec<String> {
    let page = reader.page(&Default::default(), None, 1000);
    let show = |route: &Arc<sandgate_routes::Route>| {
        format!("{} {} {:?} {:?}", route.key(), route.version(), route.state(), route.ip())
    };
    page.routes.iter().map(show).collect()
}

#[tokio::test]
async fn what_cannot_be_a_route_leaves_no_old_route_serving_on_any_plane() {
    let good: Vec<Value> = (0..wrong().len()).map(|number| message(number, 3)).collect();
    let bad: Vec<Value> = (0..)
        .zip(wrong())
        .map(|(number, (field, value, _))| {
            let mut message = message(number, 10 + number);
            message[field] = value;
            message
        })
        .collect();

    let pushes = Pushes::start();
    for message in &good {
        let answer = pushes.push(message).await;
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }
    for (message, (field, value, known)) in bad.iter().zip(wrong()) {
        let answer = pushes.push(message).await;
        let status = if known { "HTTP/1.1 204" } else { "HTTP/1.1 400" };
        assert!(answer.starts_with(status), "{field} {value}: {answer}");
        assert_eq!(answer.contains("error"), !known, "{field} {value}");
    }

    let server = Server::start();
    let mut lines: Vec<String> = good.iter().map(|message| event("ADDED", &object(message))).collect();
    lines.push(complete(5));
    lines.extend(bad.iter().map(|message| event("MODIFIED", &object(message))));
    server.on(&["sendInitialEvents=true"], Answer::lines(&lines).then(Step::Hold));
    let provider: ProviderConfig = serde_json::from_value(json!({ "kind": "openkruise" })).unwrap();
    let watched = Watched {
        provider: provider.build().unwrap().into(),
        namespaces: Vec::new(),
        label_selector: String::new(),
    };
    let running = Running::watching(&server, timing(), watched);
    let all = bad.len() as u64;
    eventually("every event is in", || (running.scope().events == all).then_some(())).await;

    let known = (0..).zip(wrong()).filter(|(_, (_, _, known))| *known).map(|(number, _)| number);
    let wanted: Vec<String> =
        known.map(|number| format!("openkruise:n/{} {} Creating None", name(number), 10 + number)).collect();
    assert_eq!(table(&running.reader), wanted, "watched");
    let (known, gone) = (wanted.len() as u64, all - wanted.len() as u64);
    assert_eq!((running.scope().outside, running.scope().unreadable), (known, gone));
    assert_eq!(table(&pushes.reader), wanted, "pushed");
    // What comes late brings none of them back.
    for message in &good {
        pushes.push(message).await;
    }
    assert_eq!(table(&pushes.reader), wanted, "pushed");
    assert_eq!((pushes.status.load().outside, pushes.status.load().invalid), (known, gone));
}
