//! A cluster on an Envoy of the tests' own, and workers that are real threads.

use super::*;

pub(super) type HostPtr = *mut c_void;
pub(super) type Added = Option<Vec<HostPtr>>;
pub(super) type Triples = [(String, String, String)];

#[derive(Default)]
pub(super) struct Envoy {
    pub(super) hosts: Mutex<BTreeMap<usize, String>>,
    pub(super) barriers: AtomicU64,
    pub(super) removals: AtomicU64,
}

impl Envoy {
    pub(super) fn addresses(&self) -> Vec<String> {
        let mut all: Vec<String> = self.hosts.lock().expect("hosts").values().cloned().collect();
        all.sort();
        all
    }
}

impl EnvoyCluster for Envoy {
    fn add_hosts_with_hostnames_and_locality_to_priority(
        &self,
        _priority: u32,
        addresses: &[String],
        _hostnames: &[String],
        _weights: &[u32],
        _localities: &Triples,
        _metadata: &[Vec<(String, String, String)>],
    ) -> Added {
        let mut hosts = self.hosts.lock().expect("hosts");
        let add = |address: &String| {
            assert!(!hosts.values().any(|known| known == address), "{address} is there already");
            let pointer = hosts.last_key_value().map_or(1, |(last, _)| last + 1);
            hosts.insert(pointer, address.clone());
            pointer as HostPtr
        };
        Some(addresses.iter().map(add).collect())
    }

    fn remove_hosts(&self, hosts: &[HostPtr]) -> usize {
        self.removals.fetch_add(1, Ordering::Relaxed);
        let mut known = self.hosts.lock().expect("hosts");
        hosts.iter().filter(|host| known.remove(&(**host as usize)).is_some()).count()
    }

    fn run_on_all_workers(&self, _event_id: u64) {
        self.barriers.fetch_add(1, Ordering::Relaxed);
    }

    fn find_host_by_address(&self, _address: &str) -> Option<HostPtr> {
        None
    }

    fn pre_init_complete(&self) {}

    fn new_scheduler(&self) -> Box<dyn EnvoyClusterScheduler> {
        unreachable!("the test runs the main thread itself")
    }

    fn get_cluster_name<'a>(&'a self) -> EnvoyBuffer<'a> {
        unreachable!("the test names the cluster")
    }

    fn use_persistent_host_map(&self) {}
}

/// A request that remembers what it was told.
pub(super) struct Held(pub(super) Arc<AtomicU64>);

impl EnvoyHttpFilterScheduler for Held {
    fn commit(&self, event_id: u64) {
        self.0.store(event_id, Ordering::Relaxed);
    }
}

/// A worker's thread: it does what it is told, one thing after the other, unless it is kept busy.
pub(super) struct WorkerThread {
    pub(super) member: Arc<Member>,
    pub(super) does: Sender<Box<dyn FnOnce() + Send>>,
}

impl WorkerThread {
    pub(super) fn start(process: &Process) -> Self {
        let (does, to_do) = std::sync::mpsc::channel::<Box<dyn FnOnce() + Send>>();
        std::thread::spawn(move || to_do.iter().for_each(|task| task()));
        Self { member: Arc::new(process.workers.join()), does }
    }

    pub(super) fn run<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
        let (done, result) = std::sync::mpsc::channel();
        self.does.send(Box::new(move || drop(done.send(task())))).expect("the thread runs");
        result
    }

    /// A request in flight on this worker: what it is told.
    pub(super) fn begin(&self, host: Arc<Host>) -> Arc<AtomicU64> {
        let told = Arc::new(AtomicU64::new(0));
        let held = Held(Arc::clone(&told));
        let enter = move || {
            streams::enter(host, Pick::none(), Entered::uncounted(true), Box::new(held));
        };
        self.run(enter).recv().expect("entered");
        told
    }
}

pub(super) struct World {
    pub(super) writer: RouteWriter,
    pub(super) process: Arc<Process>,
    pub(super) shared: Arc<Shared>,
    pub(super) main_thread: MainThread,
    pub(super) envoy: Envoy,
    pub(super) version: u64,
    pub(super) workers: Vec<WorkerThread>,
    /// How often workers have been called.
    pub(super) called: u64,
}

impl World {
    /// As many changes as `feed` may wait for the main thread.
    pub(super) fn new(feed: usize) -> Self {
        Self::configured(feed, r#"{"on-delete":"end","on-pause":"finish"}"#)
    }

    pub(super) fn configured(feed: usize, config: &str) -> Self {
        let (writer, reader) = RouteTable::new(Limits::default());
        writer.set_ready();
        let config = ClusterConfig::parse(config.as_bytes()).expect("a config");
        let process = Arc::<Process>::default();
        let (shared, wants) = Shared::new(b"sandbox", config, reader, &process);
        let changes = writer.subscribe_where(feed, change_filter(&process, &writer.reader()));
        let main_thread = MainThread::new(&shared, wants, changes);
        let (envoy, workers) = (Envoy::default(), Vec::new());
        Self { writer, process, shared, main_thread, envoy, version: 0, workers, called: 0 }
    }

    pub(super) fn with_workers(feed: usize, workers: usize) -> Self {
        let mut world = Self::new(feed);
        world.workers = (0..workers).map(|_| WorkerThread::start(&world.process)).collect();
        world
    }

    /// Has every worker called that Envoy was asked to call, after what it is doing.
    pub(super) fn call_workers(&mut self) {
        let raised = self.envoy.barriers.load(Ordering::Relaxed);
        for number in self.called + 1..=raised {
            for worker in &self.workers {
                let (shared, id) = (Arc::clone(&self.shared), worker.member.id());
                drop(worker.run(move || shared.pass_barrier_as(id, number)));
            }
        }
        self.called = raised;
    }

    /// The host of a sandbox, as a worker would find it.
    pub(super) fn host(&self, address: &str) -> Arc<Host> {
        let hosts = self.envoy.hosts.lock().expect("hosts");
        let (pointer, _) = hosts.iter().find(|(_, known)| *known == address).expect("a host");
        self.shared.published().get(*pointer).expect("published")
    }

    /// Whether there is a host at this address that takes requests.
    pub(super) fn host_is_open(&self, address: &str) -> bool {
        let hosts = self.envoy.hosts.lock().expect("hosts");
        let pointer = hosts.iter().find(|(_, known)| *known == address).map(|(pointer, _)| *pointer);
        pointer
            .and_then(|pointer| self.shared.published().get(pointer))
            .is_some_and(|host| !host.is_closing())
    }

    pub(super) fn key(name: &str) -> ObjectKey {
        ObjectKey::new("test", "default", name).expect("a key")
    }

    pub(super) fn observe(&mut self, name: &str, uid: &str, state: State, last: u8) {
        self.observe_as(name, name, uid, state, last);
    }

    pub(super) fn observe_as(&mut self, name: &str, id: &str, uid: &str, state: State, last: u8) {
        self.version += 1;
        self.writer.apply(observation(name, id, uid, state, last, self.version));
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.version += 1;
        let version = self.version.to_string().parse().expect("a version");
        self.writer.delete(&Self::key(name), Some(version));
    }

    pub(super) fn run(&mut self) {
        self.main_thread.run(&self.envoy);
    }

    /// Runs until no host waits for its batch. There are no workers, so a barrier is passed as soon as it is
    /// raised.
    pub(super) fn run_until_idle(&mut self) {
        for _ in 0..10_000 {
            self.run();
            self.call_workers();
            let waits = self.main_thread.barrier.is_some()
                || !self.main_thread.removable.is_empty()
                || self.main_thread.book.has_vacant();
            if !waits {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(1));
        }
        panic!("hosts wait for ever");
    }

    /// A request wants the host of a sandbox: the event that it is woken with.
    pub(super) fn want(&self, name: &str) -> Arc<AtomicU64> {
        let told = Arc::new(AtomicU64::new(0));
        self.want_by(name, Held(Arc::clone(&told)));
        told
    }

    pub(super) fn want_by(&self, name: &str, held: impl EnvoyHttpFilterScheduler + 'static) {
        let table = self.shared.reader().pin();
        let route = table.get(name).expect("in the table");
        self.shared.want(Want {
            endpoint: Endpoint::new(route.ip().expect("an address"), 80),
            identity: route.identity(),
            id: name.into(),
            socket: Socket::default(),
            opener: None,
            since: Instant::now(),
            waker: Waker::new(Box::new(held), self.shared.hold().expect("room for one more")),
        });
    }
}

pub(super) fn observation(
    name: &str,
    id: &str,
    uid: &str,
    state: State,
    last: u8,
    version: u64,
) -> Observation {
    Observation {
        key: World::key(name),
        id: id.to_owned(),
        uid: uid.to_owned(),
        owner: String::new(),
        state,
        version: version.to_string().parse().expect("a version"),
        ip: Some(ip(last)),
        token: None,
        traffic_token: None,
        require_traffic_auth: false,
        clash: Clash::Rank,
        created: None,
        ip_is_claimed: false,
        own_id: false,
    }
}

/// Waits for what other threads do.
pub(super) fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !done() {
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

pub(super) fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

pub(super) const DECIDE_AGAIN: u64 = Wakeup::DecideAgain as u64;
