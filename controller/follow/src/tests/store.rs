//! A follower under test: its sink is a map of names and versions, and a journal of the calls.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use sandgate_routes::Version;
use serde::Deserialize;
use tokio::task::JoinHandle;

use crate::testing::{Server, eventually, timing};
use crate::{
    Api, Committed, FollowStatus, Follower, Head, Hooks, Rejected, Sink, StatusCell, Target, Timing,
    supervise,
};

/// What the sink has, and what was asked of it.
#[derive(Default)]
pub(super) struct Shared {
    objects: BTreeMap<String, Version>,
    pub(super) journal: Vec<String>,
    /// Every text that the sink decoded.
    pub(super) decoded: Vec<Vec<u8>>,
}

struct Store {
    shared: Arc<Mutex<Shared>>,
    /// The names of the list under way.
    named: Option<BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    ip: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

impl Store {
    fn note(&self, call: impl Into<String>) {
        self.shared.lock().journal.push(call.into());
    }
}

impl Sink for Store {
    type Object = (String, Version);

    fn decode(&self, object: &[u8]) -> Result<(Version, Self::Object), Rejected> {
        self.shared.lock().decoded.push(object.to_vec());
        let Object { metadata, ip } =
            serde_json::from_slice(object).map_err(|_| Rejected("object: unexpected".to_owned()))?;
        assert_ne!(ip, "panic", "as the test wants it");
        if ip == "nowhere" {
            return Err(Rejected("ip: expected an address".to_owned()));
        }
        let version: Version = metadata.resource_version.parse().map_err(|_| Rejected("no".to_owned()))?;
        Ok((version.clone(), (metadata.name, version)))
    }

    fn begin(&mut self) {
        self.note("begin");
        self.named = Some(BTreeSet::new());
    }

    fn apply(&mut self, (name, version): Self::Object) -> Result<(), Rejected> {
        self.note(format!("apply {name}@{version}"));
        if name == "refused" {
            return Err(Rejected("the store is full".to_owned()));
        }
        assert_ne!(name, "panic", "as the test wants it");
        if let Some(named) = &mut self.named {
            named.insert(name.clone());
        }
        self.shared.lock().objects.insert(name, version);
        Ok(())
    }

    fn deleted(&mut self, head: &Head) -> Result<(), Rejected> {
        self.note(format!("deleted {}", head.name));
        self.shared.lock().objects.remove(&head.name);
        Ok(())
    }

    fn reached(&mut self, version: &Version) {
        self.note(format!("reached {version}"));
    }

    fn commit(&mut self, version: &Version) -> Committed {
        self.note(format!("commit {version}"));
        let named = self.named.take().expect("a list is under way");
        let objects = &mut self.shared.lock().objects;
        let before = objects.len();
        objects.retain(|name, _| named.contains(name));
        Committed { deleted: (before - objects.len()) as u64, held_back: 0 }
    }

    fn abandon(&mut self) {
        self.note("abandon");
        self.named = None;
    }

    fn rewind(&mut self, version: &Version) -> u64 {
        self.note(format!("rewind {version}"));
        let objects = &mut self.shared.lock().objects;
        let before = objects.len();
        objects.retain(|_, known| *known <= *version);
        (before - objects.len()) as u64
    }
}

pub(super) struct Running {
    pub(super) shared: Arc<Mutex<Shared>>,
    status: Arc<StatusCell>,
    first_lists: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(server: &Server) -> Self {
        Self::with(server, timing())
    }

    pub(super) fn with(server: &Server, timing: Timing) -> Self {
        Self::run(server, timing, |make| tokio::spawn(make().run()))
    }

    /// One that is started again if it panics.
    pub(super) fn supervised(server: &Server) -> Self {
        Self::run(server, timing(), |make| tokio::spawn(async move { supervise("boxes", make).await }))
    }

    fn run(
        server: &Server,
        timing: Timing,
        run: impl FnOnce(Box<dyn Fn() -> Follower<Store> + Send>) -> JoinHandle<()>,
    ) -> Self {
        let target = Target {
            group: "g".to_owned(),
            version: "v1".to_owned(),
            plural: "boxes".to_owned(),
            namespace: None,
            selector: String::new(),
        };
        let shared = Arc::<Mutex<Shared>>::default();
        let status = Arc::<StatusCell>::default();
        let first_lists = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&first_lists);
        let first_list = move || {
            counted.fetch_add(1, Ordering::SeqCst);
        };
        let hooks = Hooks { changed: Arc::new(|| ()), first_list: Arc::new(first_list) };
        let api = Api::new(server.access(), timing);
        let (objects, cell) = (Arc::clone(&shared), Arc::clone(&status));
        let make = move || {
            let sink = Store { shared: Arc::clone(&objects), named: None };
            let (api, target, status) = (Arc::clone(&api), target.clone(), Arc::clone(&cell));
            Follower::new("boxes".to_owned(), api, target, sink, status, hooks.clone())
        };
        Running { shared, status, first_lists, task: run(Box::new(make)) }
    }

    pub(super) fn scope(&self) -> FollowStatus {
        self.status.load()
    }

    pub(super) fn first_lists(&self) -> usize {
        self.first_lists.load(Ordering::SeqCst)
    }

    /// Every object, as `name@version`.
    pub(super) fn table(&self) -> Vec<String> {
        let shared = self.shared.lock();
        shared.objects.iter().map(|(name, version)| format!("{name}@{version}")).collect()
    }

    pub(super) fn has(&self, name: &str) -> Option<()> {
        self.shared.lock().objects.contains_key(name).then_some(())
    }

    pub(super) async fn until_table_is(&self, wanted: &[&str]) {
        eventually(&format!("the store has {wanted:?}"), || (self.table() == wanted).then_some(())).await;
    }

    pub(super) async fn until_watching(&self) {
        eventually("the follower watches", || self.scope().is_up().then_some(())).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
