//! A source under test, with a provider of its own and short waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandgate_follow::Timing;
use sandgate_follow::testing::{Server, eventually, timing};
use sandgate_routes::{Clash, Clock, Limits, ObjectKey, Observation, Route, RouteReader, RouteTable, State};
use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::kubernetes::{KubernetesSource, KubernetesStatusReader, ScopeStatus, Watched};
use sandgate_objects::{Projection, Provider, Resource, Unreadable};

/// Reads `ip`, `id` and `until`, and nothing where `ip` is not an address.
struct Boxes(Resource);

impl Provider for Boxes {
    fn name(&self) -> &str {
        "boxes"
    }

    fn resource(&self) -> &Resource {
        &self.0
    }

    fn project(&self, object: &[u8], _: SystemTime) -> Result<Projection, Unreadable> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
            ip: String,
            id: Option<String>,
            until: Option<u64>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            name: String,
            namespace: String,
            uid: String,
            resource_version: String,
        }
        let object: Object =
            serde_json::from_slice(object).map_err(|error| Unreadable::new("object", error.to_string()))?;
        assert_ne!(object.ip, "panic", "as the test wants it");
        let ip = object.ip.parse().map_err(|_| Unreadable::new("ip", "expected an address"))?;
        Ok(Projection {
            observation: Observation {
                key: ObjectKey::new("boxes", &object.metadata.namespace, &object.metadata.name).unwrap(),
                id: object.id.unwrap_or(object.metadata.name),
                uid: object.metadata.uid,
                owner: String::new(),
                state: State::Running,
                version: object.metadata.resource_version.parse().unwrap(),
                ip: Some(ip),
                token: None,
                traffic_token: None,
                require_traffic_auth: false,
                clash: Clash::Rank,
                created: None,
                ip_is_claimed: false,
                own_id: false,
            },
            is_nowhere: false,
            dead_at: object.until.map(|millis| UNIX_EPOCH + Duration::from_millis(millis)),
        })
    }
}

pub(super) struct Running {
    pub(super) reader: RouteReader,
    pub(super) status: KubernetesStatusReader,
    first_lists: Arc<AtomicUsize>,
    clock: Clock,
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(server: &Server) -> Self {
        Self::with(server, timing(), &[])
    }

    pub(super) fn with(server: &Server, timing: Timing, namespaces: &[&str]) -> Self {
        let resource =
            Resource { group: "g".into(), version: "v1".into(), kind: "Box".into(), plural: "boxes".into() };
        let watched = Watched {
            provider: Arc::new(Boxes(resource)),
            namespaces: namespaces.iter().map(|&namespace| namespace.to_owned()).collect(),
            label_selector: String::new(),
        };
        Self::watching(server, timing, watched)
    }

    pub(super) fn watching(server: &Server, timing: Timing, watched: Watched) -> Self {
        let clock = Clock::manual();
        let (writer, reader) = RouteTable::with_clock(Limits::default(), clock.clone());
        let mut source = KubernetesSource::watching(server.access(), &[watched], writer.clone());
        source.timing = timing;
        let first_lists = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&first_lists);
        let source = source.on_first_lists(move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let status = source.status();
        let task = tokio::spawn(async move {
            let sweep = async {
                loop {
                    writer.sweep();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            tokio::join!(source.run(), sweep);
        });
        Running { reader, status, first_lists, clock, task }
    }

    /// Time passes for the table, so much that it forgets who died.
    pub(super) fn outlive_tombstones(&self) {
        self.clock.advance(Limits::default().tombstone_lifetime);
    }

    pub(super) fn scope(&self) -> ScopeStatus {
        self.status.scopes().remove(0)
    }

    pub(super) fn first_lists(&self) -> usize {
        self.first_lists.load(Ordering::SeqCst)
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<Route>> {
        self.reader.get(name)
    }

    /// Every route, as `name@version`.
    pub(super) fn table(&self) -> Vec<String> {
        let page = self.reader.page(&Default::default(), None, 1000);
        page.routes.iter().map(|route| format!("{}@{}", route.id(), route.version())).collect()
    }

    pub(super) async fn until_table_is(&self, wanted: &[&str]) {
        eventually(&format!("the table is {wanted:?}, it is {:?}", self.table()), || {
            (self.table() == wanted).then_some(())
        })
        .await;
    }

    pub(super) async fn until_watching(&self) {
        eventually("the scope watches", || self.scope().is_up().then_some(())).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
