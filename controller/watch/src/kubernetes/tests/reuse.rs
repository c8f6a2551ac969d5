//! A pod that one sandbox after the other has: each is an identity of its own.

use std::sync::Arc;

use sandgate_follow::{Head, Sink as _};
use sandgate_objects::built_in;
use sandgate_objects::sandbox_env::{self, names};
use sandgate_routes::{AddressPolicy, Changes, Limits, Notice, Route, RouteReader, RouteTable};
use serde_json::json;

use crate::kubernetes::sink::RouteSink;
use crate::kubernetes::{TableAccess, WatchedScope};

const POD_UID: &str = "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b";

/// The scope of all claimed pods, with its first list in.
struct Pods {
    sink: RouteSink,
    reader: RouteReader,
    changes: Changes,
}

impl Pods {
    fn new() -> Self {
        let provider = Arc::from(built_in(sandbox_env::NAME).unwrap());
        let (writer, reader) = RouteTable::new(Limits::default());
        let changes = writer.subscribe(100);
        let table = TableAccess { writer, addresses: AddressPolicy::default(), deadlines: Arc::default() };
        let scope = WatchedScope::new(0, &provider, None, sandbox_env::SELECTOR);
        let mut sink = RouteSink::new(&scope, table);
        sink.begin();
        sink.commit(&"10".parse().unwrap());
        Self { sink, reader, changes }
    }

    /// An event: this sandbox has the pod.
    fn claimed(&mut self, id: &str, phase: &str, version: u64) {
        let pod = json!({
            "metadata": {
                "name": "env-2c4gi-x7k2p", "namespace": "team-a", "uid": POD_UID,
                "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-16T05:00:00Z",
                "labels": { (names::SANDBOX_ID): id, (names::LABEL_PHASE): phase },
            },
            "status": { "phase": "Running", "podIP": "10.1.2.3" },
        });
        let (version, pod) = self.sink.decode(pod.to_string().as_bytes()).unwrap();
        self.sink.apply(pod).unwrap();
        self.sink.reached(&version);
    }

    /// An event: the selector does not select the pod any more.
    fn released(&mut self, version: u64) {
        let version = version.to_string().parse().unwrap();
        self.sink
            .deleted(&Head {
                namespace: "team-a".into(),
                name: "env-2c4gi-x7k2p".into(),
                version: Some(version),
                uid: Some(POD_UID.into()),
            })
            .unwrap();
    }

    #[track_caller]
    fn served(&self, id: &str) -> Arc<Route> {
        self.reader.get(id).unwrap_or_else(|| panic!("{id} is not served"))
    }

    /// The identities whose connections had to be closed since the last call.
    fn closed(&mut self) -> Vec<u64> {
        let mut closed = Vec::new();
        while let Some(Notice::Changed(change)) = self.changes.try_recv() {
            closed.extend(change.identity_gone());
        }
        closed
    }
}

#[test]
fn a_released_pod_has_no_route_and_claimed_again_it_is_another_identity() {
    let mut pods = Pods::new();
    pods.claimed("sbx-1", "running", 20);
    let first = pods.served("sbx-1");
    pods.claimed("sbx-1", "stopping", 30);
    assert_eq!(pods.closed(), [0; 0], "it is the same sandbox until it is released");
    pods.released(40);
    assert!(pods.reader.get("sbx-1").is_none());
    assert_eq!(pods.closed(), [first.identity()]);

    pods.claimed("sbx-2", "running", 50);
    let second = pods.served("sbx-2");
    assert_eq!(first.ip(), second.ip());
    assert_ne!(first.identity(), second.identity());
    assert_eq!(second.uid(), sandbox_env::identity_uid(POD_UID, "sbx-2").as_str());
    assert!(pods.reader.get("sbx-1").is_none());
    // Events of the time before come late.
    pods.claimed("sbx-1", "running", 20);
    pods.claimed("sbx-1", "running", 45);
    pods.released(40);
    assert!(pods.reader.get("sbx-1").is_none());
    assert_eq!(pods.served("sbx-2").identity(), second.identity());
    assert_eq!(pods.closed(), [0; 0]);
}

#[test]
fn an_old_event_does_not_bring_a_released_sandbox_back() {
    let mut pods = Pods::new();
    pods.claimed("sbx-1", "running", 20);
    pods.released(40);
    for version in [20, 30, 40] {
        pods.claimed("sbx-1", "running", version);
        assert!(pods.reader.get("sbx-1").is_none(), "version {version}");
    }
}

/// The events between two claims may be missed: a list names the pod as it is now.
#[test]
fn a_pod_that_changes_hands_unseen_is_another_identity() {
    let mut pods = Pods::new();
    pods.claimed("sbx-1", "running", 20);
    let first = pods.served("sbx-1");
    pods.claimed("sbx-2", "running", 30);
    let second = pods.served("sbx-2");
    assert!(pods.reader.get("sbx-1").is_none());
    assert_ne!(first.identity(), second.identity());
    assert_eq!(pods.closed(), [first.identity()]);
    pods.claimed("sbx-1", "running", 25);
    assert!(pods.reader.get("sbx-1").is_none());
    // The same ID on the same pod again, after a release that nobody saw, is the same sandbox to us.
    pods.claimed("sbx-2", "starting", 40);
    pods.claimed("sbx-2", "running", 50);
    assert_eq!(pods.served("sbx-2").identity(), second.identity());
}
