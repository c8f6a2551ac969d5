//! Open-loop load: clients that keep a schedule, whatever becomes of their requests, and count what they see.
//!
//! ```ignore
//! let front = Front::to([old]);
//! let traffic = Load::new(&front).sandbox(&demo).http1(100).http2(60).websockets(6).start();
//! traffic.more(100).await; // of each kind, answered
//! // Replace something.
//! let outcome = traffic.finish().await;
//! outcome.assert_none_failed();
//! ```
//!
//! **The schedule.** A request is due every so many milliseconds. It goes out then, also when those before it
//! have no answer yet: it takes another connection. Latency counts from the time it was due.
//!
//! **What a client may rely on**, and what it makes of it:
//!
//! - **HTTP/1.1, keep-alive.** It takes another connection after an answer that says `connection: close`. Any
//!   other end of a request is a failure, also on a kept connection that was closed under it. Nothing is sent
//!   twice.
//! - **HTTP/2.** After a GOAWAY new requests take a new connection, and those under way finish on the old
//!   one. A request that was put on the wire and has no answer is a failure.
//! - **WebSocket.** It may be ended if the scenario has said so ([`Traffic::may_end`]). Any other end is a
//!   failure, and so is an upgrade that is refused, or an echo that is wrong, late or missing.
//!
//! An answer is a 200 of the sandbox that was asked for, by its own word and complete. Some requests take a
//! while and some carry a body, so that there are always some under way. A message that was under way when
//! its WebSocket was ended as it may be is lost, and counted as that.
//!
//! Kept connections are used in turn, so that none is idle for long, and each is closed by its client after a
//! number of answers, so that new ones are made all the time. A client does not close a kept connection
//! because its gateway has left the [`Front`]: a Service of Kubernetes does not either.
//!
//! The clients have a thread and a runtime of their own: a scenario that blocks does not hold the schedule
//! up. On one thread, also, a request that HTTP/2's client hands back was never on the wire: between a GOAWAY
//! and the next request nobody else runs.

mod arrivals;
mod front;
mod http1;
mod http2;
mod outcome;
mod request;
mod tally;
mod websocket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use front::Front;
pub use outcome::Outcome;
pub use tally::{Counts, Failure, Kind};

use crate::{DEADLINE, Sandbox, eventually};
use request::Target;
use tally::Tally;

/// How long a client waits for an answer. Less than what the scenario waits for, so that it is counted.
const PATIENCE: Duration = Duration::from_secs(15);

/// Describes the load.
pub struct Load {
    front: Front,
    targets: Vec<Target>,
    http1: u32,
    http2: u32,
    websockets: usize,
}

/// What all clients share.
struct World {
    front: Front,
    targets: Vec<Target>,
    tally: Arc<Tally>,
    stop: watch::Receiver<bool>,
}

impl World {
    fn target(&self, number: u64) -> &Target {
        let count = u64::try_from(self.targets.len()).expect("a few sandboxes");
        &self.targets[usize::try_from(number % count).expect("below a usize")]
    }
}

impl Load {
    /// None yet, through this front.
    pub fn new(front: &Front) -> Self {
        Self { front: front.clone(), targets: Vec::new(), http1: 0, http2: 0, websockets: 0 }
    }

    /// Asks for this sandbox too, on its first port, as `default--NAME`.
    #[must_use]
    pub fn sandbox(mut self, sandbox: &Sandbox) -> Self {
        self.targets.push(Target::new(sandbox));
        self
    }

    /// So many requests a second over HTTP/1.1.
    #[must_use]
    pub fn http1(mut self, rate: u32) -> Self {
        self.http1 = rate;
        self
    }

    /// So many requests a second over HTTP/2.
    #[must_use]
    pub fn http2(mut self, rate: u32) -> Self {
        self.http2 = rate;
        self
    }

    /// So many WebSockets at a time, with twenty messages a second each.
    #[must_use]
    pub fn websockets(mut self, count: usize) -> Self {
        self.websockets = count;
        self
    }

    /// Begins.
    pub fn start(self) -> Traffic {
        assert!(!self.targets.is_empty(), "a load needs a sandbox");
        let mut kinds = Vec::new();
        kinds.extend((self.http1 > 0).then_some(Kind::Http1));
        kinds.extend((self.http2 > 0).then_some(Kind::Http2));
        kinds.extend((self.websockets > 0).then_some(Kind::WebSocket));
        let (stop, stopped) = watch::channel(false);
        let tally = Arc::new(Tally::new());
        let world = Arc::new(World {
            front: self.front,
            targets: self.targets,
            tally: Arc::clone(&tally),
            stop: stopped,
        });
        let (finished, done) = oneshot::channel();
        let (http1, http2, websockets) = (self.http1, self.http2, self.websockets);
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(run(world, http1, http2, websockets));
            // Nobody may be waiting any more.
            let _dropped = finished.send(());
        });
        let thread = Some(thread.expect("start a thread"));
        Traffic { tally, kinds, stop, done, thread }
    }
}

async fn run(world: Arc<World>, http1: u32, http2: u32, websockets: usize) {
    let mut clients = JoinSet::new();
    if http1 > 0 {
        let pool = Arc::new(http1::Pool::default());
        let exchange = {
            let world = Arc::clone(&world);
            move |number, due| http1::exchange(Arc::clone(&world), Arc::clone(&pool), number, due)
        };
        clients.spawn(arrivals::keep(http1, world.stop.clone(), exchange));
    }
    if http2 > 0 {
        let connections = Arc::new(http2::Connections::default());
        let exchange = {
            let world = Arc::clone(&world);
            move |number, due| http2::exchange(Arc::clone(&world), Arc::clone(&connections), number, due)
        };
        clients.spawn(arrivals::keep(http2, world.stop.clone(), exchange));
    }
    for number in 0..websockets {
        clients.spawn(websocket::stay(Arc::clone(&world), number));
    }
    while let Some(ended) = clients.join_next().await {
        ended.expect("no client panics");
    }
}

/// Load that is under way. Dropping it ends it; when the scenario has failed, what was counted is shown.
pub struct Traffic {
    tally: Arc<Tally>,
    kinds: Vec<Kind>,
    stop: watch::Sender<bool>,
    done: oneshot::Receiver<()>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    /// What was counted so far.
    pub fn so_far(&self) -> Outcome {
        self.tally.outcome()
    }

    /// Waits until so many more requests, and messages, of each kind are answered.
    pub async fn more(&self, count: u64) {
        let before: Vec<u64> = self.kinds.iter().map(|kind| self.tally.answered(*kind)).collect();
        eventually(&format!("{count} more answers of each kind"), DEADLINE, async || {
            let mut now = self.kinds.iter().map(|kind| self.tally.answered(*kind)).zip(&before);
            now.all(|(now, before)| now >= before + count).then_some(())
        })
        .await;
    }

    /// Waits until so many more connections were made to a gateway, with an answer on each.
    pub async fn more_connections(&self, gateway: SocketAddr, count: u64) {
        let before = self.tally.served(gateway);
        eventually(&format!("{count} more connections that {gateway} serves"), DEADLINE, async || {
            (self.tally.served(gateway) >= before + count).then_some(())
        })
        .await;
    }

    /// Waits until so many WebSockets in all were ended as they may be.
    pub async fn ended(&self, count: u64) {
        eventually(&format!("{count} WebSockets were ended"), DEADLINE, async || {
            (self.so_far().websockets.left >= count).then_some(())
        })
        .await;
    }

    /// WebSockets that were begun through this gateway until now may be ended by it from now on.
    pub fn may_end(&self, gateway: SocketAddr) {
        self.tally.may_end(gateway);
    }

    /// Sends nothing more, waits for what is under way, and gives what was counted.
    pub async fn finish(mut self) -> Outcome {
        let _gone = self.stop.send(true);
        let waited = timeout(2 * DEADLINE, &mut self.done).await.expect("the clients end");
        if waited.is_err()
            && let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
        {
            std::panic::resume_unwind(panic);
        }
        let outcome = self.tally.outcome();
        outcome.assert_complete();
        outcome
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what the clients counted ---\n{}\n---", self.so_far());
        }
    }
}
