//! What all who take part know.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::kubernetes::{ApiServer, Wire};
use crate::{Reply, Request};

/// How many unexpected things are told; all are counted.
const TOLD: usize = 20;
/// Addresses are used again after so many lives: later than any two that live at one time, soon enough to be
/// recycled.
const ADDRESSES: u32 = 4096;

/// Where everything is.
pub(super) struct Places {
    pub(super) gateway: SocketAddr,
    pub(super) refresh: SocketAddr,
    /// Where every sandbox listens.
    pub(super) port: u16,
    /// The authority of the push port's certificate.
    pub(super) authority: PathBuf,
    pub(super) shared_key: PathBuf,
    /// The folder of the routes file.
    pub(super) mount: PathBuf,
    pub(super) api: ApiServer,
    pub(super) namespace: String,
    pub(super) wire: Wire,
}

pub(super) struct World {
    pub(super) at: Places,
    speed: f64,
    over: watch::Sender<bool>,
    numbers: AtomicU32,
    choices: AtomicU32,
    ids: Mutex<Vec<String>>,
    done: Mutex<BTreeMap<&'static str, u64>>,
    unexpected: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(at: Places, speed: f64) -> Self {
        Self {
            at,
            speed,
            over: watch::channel(false).0,
            numbers: AtomicU32::new(0),
            choices: AtomicU32::new(0),
            ids: Mutex::default(),
            done: Mutex::default(),
            unexpected: Mutex::default(),
        }
    }

    /// Rounds at this rate a second, until the churn is over.
    pub(super) fn turns(&self, rate: f64) -> Turns {
        let mut ticks = interval(Duration::from_secs_f64(1.0 / (rate * self.speed)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Turns { ticks, over: self.over.subscribe() }
    }

    pub(super) fn stop(&self) {
        self.over.send_replace(true);
    }

    /// A number that no other call gives.
    pub(super) fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sandboxes that may be asked for now; they may be gone when the request arrives.
    pub(super) fn admit(&self, id: &str) {
        lock(&self.ids).push(id.to_owned());
    }

    pub(super) fn dismiss(&self, id: &str) {
        lock(&self.ids).retain(|known| known != id);
    }

    /// One of them, another each time; the ID of nobody where there is none.
    pub(super) fn any(&self) -> String {
        let ids = lock(&self.ids);
        let choice = self.choices.fetch_add(1, Ordering::Relaxed) as usize;
        if ids.is_empty() { "soak--nobody".to_owned() } else { ids[choice % ids.len()].clone() }
    }

    /// A request for a sandbox.
    pub(super) fn request(&self, id: &str, path: &str) -> Request {
        Request::get(path).header("e2b-sandbox-id", id).header("e2b-sandbox-port", self.at.port.to_string())
    }

    /// The same, byte by byte; `more` is further header lines.
    pub(super) fn bytes(&self, method: &str, id: &str, path: &str, more: &str) -> Vec<u8> {
        let port = self.at.port;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: soak.test\r\ne2b-sandbox-id: {id}\r\ne2b-sandbox-port: {port}\r\n{more}\r\n"
        )
        .into_bytes()
    }

    /// Looks at an answer to a request for `id`: its own sandbox's, or a refusal that the churn explains.
    pub(super) fn answered(&self, id: &str, reply: &Reply) {
        match reply.status {
            200 if reply.seen("x-sandbox-id") == [id] => self.did("answered"),
            // Not there, not running, gone meanwhile, over a limit, not connected.
            429 | 502 | 503 | 504 => self.did("turned away"),
            _ => self.unexpected(format!("{id}: {} {}", reply.status, reply.text())),
        }
    }

    pub(super) fn did(&self, what: &'static str) {
        *lock(&self.done).entry(what).or_default() += 1;
    }

    pub(super) fn done(&self) -> Vec<(&'static str, u64)> {
        lock(&self.done).iter().map(|(what, count)| (*what, *count)).collect()
    }

    pub(super) fn unexpected(&self, what: String) {
        self.did("unexpected");
        let mut unexpected = lock(&self.unexpected);
        if unexpected.len() < TOLD {
            unexpected.push(what);
        }
    }

    pub(super) fn unexpected_so_far(&self) -> Vec<String> {
        lock(&self.unexpected).clone()
    }
}

/// The address of a sandbox's life.
pub(super) fn address(number: u32) -> IpAddr {
    let [_, _, third, fourth] = (number % ADDRESSES).to_be_bytes();
    Ipv4Addr::new(127, 91, third, fourth).into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rounds of one who takes part.
pub(super) struct Turns {
    ticks: Interval,
    over: watch::Receiver<bool>,
}

impl Turns {
    /// Waits for the next round; `false` when there is none.
    pub(super) async fn next(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.over.wait_for(|over| *over) => false,
            _ = self.ticks.tick() => true,
        }
    }
}
