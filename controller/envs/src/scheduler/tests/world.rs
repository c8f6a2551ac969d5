//! Pods with versions, written by compare-and-swap, and replicas that see them late.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sandgate_cache::{Key, Random};
use sandgate_routes::Version;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::scheduler::{Candidate, ClaimError, Pods, Scheduler, Settings, Settled, SwapError};

pub(super) fn run(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(test);
}

/// Lets this time pass on the paused clock: everything that is due by then happens first.
pub(super) async fn pass(time: Duration) {
    sleep(time).await;
}

pub(super) fn pool(name: &str) -> Key {
    Key::new("ns", name)
}

pub(super) const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Nothing is ever found by looking.
pub(super) fn settings() -> Settings {
    Settings { repair: None, ..Settings::default() }
}

#[derive(Clone, Debug)]
struct Pod {
    pool: Key,
    version: u64,
    owner: Option<u32>,
}

/// What the API server has.
#[derive(Default)]
pub(super) struct Cluster {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: u64,
    pods: BTreeMap<Key, Pod>,
    watches: Vec<mpsc::UnboundedSender<(Key, Option<Pod>)>>,
    /// Who got which pod, in the order of the writes.
    won: Vec<(u32, Key)>,
}

impl State {
    fn change(&mut self, key: &Key, change: impl FnOnce(&mut Pod)) {
        self.last += 1;
        let pod = self.pods.get_mut(key).unwrap();
        pod.version = self.last;
        change(pod);
        self.tell(key);
    }

    fn tell(&self, key: &Key) {
        for watch in &self.watches {
            let _ = watch.send((key.clone(), self.pods.get(key).cloned()));
        }
    }

    /// The write of a claim.
    fn swap(&mut self, key: &Key, version: u64, claim: u32) -> Result<Won, SwapError<&'static str>> {
        let pod = self.pods.get(key).ok_or(SwapError::Gone)?;
        if pod.version != version {
            return Err(SwapError::Conflict);
        }
        assert_eq!(pod.owner, None, "a claimed pod is not shown as idle");
        assert!(!self.pods.values().any(|pod| pod.owner == Some(claim)), "{claim} gets a second pod");
        self.change(key, |pod| pod.owner = Some(claim));
        self.won.push((claim, key.clone()));
        Ok(Won { claim, pod: key.clone() })
    }
}

impl Cluster {
    pub(super) fn with(pools: &[(&str, usize)]) -> Arc<Self> {
        let cluster = Arc::new(Self::default());
        for (name, count) in pools {
            (0..*count).for_each(|number| cluster.add(&pool(name), &format!("{name}-{number:04}"), true));
        }
        cluster
    }

    pub(super) fn add(&self, pool: &Key, name: &str, is_told: bool) {
        let mut state = self.state.lock();
        state.last += 1;
        let (key, version) = (Key::new("ns", name), state.last);
        state.pods.insert(key.clone(), Pod { pool: pool.clone(), version, owner: None });
        if is_told {
            state.tell(&key);
        }
    }

    pub(super) fn delete(&self, name: &str, is_told: bool) {
        let (key, mut state) = (Key::new("ns", name), self.state.lock());
        state.pods.remove(&key);
        if is_told {
            state.tell(&key);
        }
    }

    /// Another controller writes the pod.
    pub(super) fn touch(&self, key: &Key, is_told: bool) {
        let mut state = self.state.lock();
        if is_told {
            state.change(key, |_| {});
        } else {
            state.last += 1;
            let last = state.last;
            state.pods.get_mut(key).unwrap().version = last;
        }
    }

    /// The sandbox ends, and its pod is idle again.
    pub(super) fn release(&self, won: &Won) {
        self.state.lock().change(&won.pod, |pod| {
            assert_eq!(pod.owner, Some(won.claim), "a pod is released by its owner");
            pod.owner = None;
        });
    }

    /// Claims in the order in which they got their pods.
    pub(super) fn won(&self) -> Vec<u32> {
        self.state.lock().won.iter().map(|(claim, _)| *claim).collect()
    }

    /// Pods that somebody owns.
    pub(super) fn owned(&self) -> BTreeSet<u32> {
        self.state.lock().pods.values().filter_map(|pod| pod.owner).collect()
    }
}

/// A pod that was claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Won {
    pub(super) claim: u32,
    pub(super) pod: Key,
}

/// What goes wrong, in percent of the writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Another controller wrote the pod just before.
    pub(super) conflicts: u64,
    /// It is done, but nobody is told.
    pub(super) lost_answers: u64,
    /// Nobody is told, and it is done later.
    pub(super) late: u64,
    /// Looks at the pod that are not answered.
    pub(super) blind: u64,
    /// How late the replica sees a change.
    pub(super) lag: Duration,
    /// How long a write takes.
    pub(super) takes: Duration,
    /// The API server has no time for the write.
    pub(super) put_off: u64,
    /// Writes never arrive, and nobody is told.
    pub(super) dropped: u64,
    /// Every write is refused.
    pub(super) refuses: bool,
    /// Writes never end.
    pub(super) hangs: bool,
}

/// A replica's view, and its way to the API server.
pub(super) struct Replica {
    pub(super) cluster: Arc<Cluster>,
    seen: Mutex<BTreeMap<Key, Pod>>,
    random: Mutex<Random>,
    pub(super) faults: Mutex<Faults>,
    pub(super) told: Mutex<Vec<(Instant, String, usize)>>,
    pub(super) swaps: Mutex<Vec<(u32, Key)>>,
    pub(super) given_back: Mutex<Vec<u32>>,
}

#[derive(Clone)]
pub(super) struct View(pub(super) Arc<Replica>);

/// A claim that is refused, and one whose task dies.
pub(super) const REFUSED: u32 = 1_000_001;
pub(super) const DEADLY: u32 = 1_000_002;

impl Replica {
    fn rolls(&self, percent: u64) -> bool {
        self.random.lock().number() % 100 < percent
    }
}

impl Pods for View {
    type Request = u32;
    type Pod = u64;
    type Claimed = Won;
    type Refusal = &'static str;

    fn idle(&self, pool: &Key, fits: &mut dyn FnMut(&Key, &Version) -> bool) -> Option<Candidate<u64>> {
        let seen = self.0.seen.lock();
        let mut idle = seen.iter().filter(|(_, pod)| pod.pool == *pool && pod.owner.is_none());
        idle.find_map(|(key, pod)| {
            let version: Version = pod.version.to_string().parse().unwrap();
            fits(key, &version).then(|| Candidate { key: key.clone(), version, pod: pod.version })
        })
    }

    async fn swap(&self, candidate: &Candidate<u64>, request: &u32) -> Result<Won, SwapError<&'static str>> {
        let Self(replica) = self;
        let (faults, claim) = (*replica.faults.lock(), *request);
        replica.swaps.lock().push((claim, candidate.key.clone()));
        assert_ne!(claim, DEADLY, "as the test wants it");
        if claim == REFUSED {
            return Err(SwapError::Refused("no"));
        }
        if faults.hangs {
            pending::<()>().await;
        }
        sleep(faults.takes).await;
        if faults.refuses {
            return Err(SwapError::Refused("no more"));
        }
        if replica.rolls(faults.put_off) {
            return Err(SwapError::PutOff);
        }
        if replica.rolls(faults.dropped) {
            return Err(SwapError::Unanswered);
        }
        if replica.rolls(faults.conflicts) && replica.cluster.state.lock().pods.contains_key(&candidate.key) {
            replica.cluster.touch(&candidate.key, true);
        }
        if replica.rolls(faults.late) {
            let (cluster, key, version) =
                (Arc::clone(&replica.cluster), candidate.key.clone(), candidate.pod);
            let later = Duration::from_millis(replica.random.lock().number() % 400);
            tokio::spawn(async move {
                sleep(later).await;
                let _ = cluster.state.lock().swap(&key, version, claim);
            });
            return Err(SwapError::Unanswered);
        }
        let answer = replica.cluster.state.lock().swap(&candidate.key, candidate.pod, claim);
        if replica.rolls(faults.lost_answers) { Err(SwapError::Unanswered) } else { answer }
    }

    async fn settle(&self, candidate: &Candidate<u64>, request: &u32) -> Settled<Won> {
        let Self(replica) = self;
        let faults = *replica.faults.lock();
        if faults.hangs || replica.rolls(faults.blind) {
            return Settled::Unknown;
        }
        let state = replica.cluster.state.lock();
        match state.pods.get(&candidate.key) {
            Some(pod) if pod.owner == Some(*request) => {
                Settled::Ours(Won { claim: *request, pod: candidate.key.clone() })
            }
            Some(pod) if pod.version == candidate.pod => Settled::Unchanged,
            _ => Settled::NotOurs,
        }
    }

    async fn give_back(&self, claimed: Won) {
        let Self(replica) = self;
        let faults = *replica.faults.lock();
        if faults.hangs {
            pending::<()>().await;
        }
        sleep(faults.takes).await;
        replica.cluster.release(&claimed);
        replica.given_back.lock().push(claimed.claim);
    }

    fn demand(&self, pool: &Key, claims: usize) {
        self.0.told.lock().push((Instant::now(), pool.name.to_string(), claims));
    }
}

/// A scheduler of a replica that sees this cluster.
pub(super) fn replica(
    cluster: &Arc<Cluster>,
    seed: u64,
    faults: Faults,
    settings: Settings,
) -> (Scheduler<View>, Arc<Replica>) {
    let (send, mut watch) = mpsc::unbounded_channel();
    let mut state = cluster.state.lock();
    state.watches.push(send);
    let replica = Arc::new(Replica {
        cluster: Arc::clone(cluster),
        seen: Mutex::new(state.pods.clone()),
        random: Mutex::new(Random::seeded(seed)),
        faults: Mutex::new(faults),
        told: Mutex::default(),
        swaps: Mutex::default(),
        given_back: Mutex::default(),
    });
    drop(state);
    let scheduler = Scheduler::new(View(Arc::clone(&replica)), settings);
    let (seeing, changed) = (Arc::clone(&replica), scheduler.clone());
    tokio::spawn(async move {
        while let Some((key, pod)) = watch.recv().await {
            let lag = seeing.faults.lock().lag;
            sleep(lag).await;
            let pool = pod.as_ref().map(|pod| pod.pool.clone());
            match pod {
                Some(pod) => drop(seeing.seen.lock().insert(key, pod)),
                None => drop(seeing.seen.lock().remove(&key)),
            }
            if let Some(pool) = pool {
                changed.changed(&pool);
            }
        }
    });
    (scheduler, replica)
}

impl Replica {
    /// The view is brought up to date without a word.
    pub(super) fn relist(&self) {
        *self.seen.lock() = self.cluster.state.lock().pods.clone();
    }
}

pub(super) type Ended = Result<Won, ClaimError<&'static str>>;

/// Starts a claim.
pub(super) fn claim(scheduler: &Scheduler<View>, pool: &Key, claim: u32) -> JoinHandle<Ended> {
    claim_within(scheduler, pool, claim, Duration::from_secs(86_400))
}

pub(super) fn claim_within(
    scheduler: &Scheduler<View>,
    pool: &Key,
    claim: u32,
    within: Duration,
) -> JoinHandle<Ended> {
    let (scheduler, pool) = (scheduler.clone(), pool.clone());
    tokio::spawn(async move { scheduler.claim(&pool, claim, Instant::now() + within).await })
}

/// Waits, in virtual time, until all that can happen in that time has happened.
pub(super) async fn settled() {
    sleep(Duration::from_secs(2)).await;
}
