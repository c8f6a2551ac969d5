//! HTTP/1.1 with keep-alive, by clients that obey `connection: close`.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::time::{Instant, timeout};

use super::request::{LoadError, Target};
use super::{Kind, PATIENCE, World};
use crate::{Client, Reply};

/// So many connections are kept at most.
const KEPT: usize = 8;
/// So many answers on one connection at most; then the client closes it.
const ANSWERS: u32 = 8;

/// Connections on which nothing is under way. The one that was idle for longest is used first.
#[derive(Default)]
pub(super) struct Pool(Mutex<VecDeque<Kept>>);

struct Kept {
    client: Client,
    gateway: SocketAddr,
    answers: u32,
}

impl Pool {
    /// A kept connection that is still open. One that is not was closed by the gateway without a word.
    fn take(&self, world: &World) -> Option<Kept> {
        let mut idle = self.0.lock().expect("no holder panics");
        while let Some(kept) = idle.pop_front() {
            if !kept.client.is_closed() {
                return Some(kept);
            }
            world.tally.found_closed(Kind::Http1);
        }
        None
    }

    fn keep(&self, kept: Kept) {
        let mut idle = self.0.lock().expect("no holder panics");
        if idle.len() < KEPT {
            idle.push_back(kept);
        }
    }
}

/// One request, due at `due`.
pub(super) async fn exchange(world: Arc<World>, pool: Arc<Pool>, number: u64, due: Instant) {
    world.tally.sent(Kind::Http1);
    let mut gateway = None;
    let one = once(&world, &pool, number, &mut gateway);
    match timeout(PATIENCE, one).await.unwrap_or_else(|_| Err(LoadError::Late("answer"))) {
        Ok(()) => world.tally.answer(Kind::Http1, due.elapsed()),
        Err(what) => world.tally.failure(Kind::Http1, gateway, &what.to_string()),
    }
}

async fn once(
    world: &World,
    pool: &Pool,
    number: u64,
    gateway: &mut Option<SocketAddr>,
) -> Result<(), LoadError> {
    let target = world.target(number);
    let mut kept = match pool.take(world) {
        Some(kept) => kept,
        None => connect(world, gateway).await?,
    };
    *gateway = Some(kept.gateway);
    let reply = kept.client.send(target.request(number)).await;
    let reply = reply.map_err(|error| match kept.answers {
        0 => LoadError::during("on a new connection: ")(error),
        answers => LoadError::during(&format!("on a connection kept after {answers} answers: "))(error),
    })?;
    judge(world, pool, target, number, kept, &reply)
}

async fn connect(world: &World, gateway: &mut Option<SocketAddr>) -> Result<Kept, LoadError> {
    let address = world.front.next().ok_or(LoadError::NoGateway)?;
    *gateway = Some(address);
    let client = Client::http1(address).await.map_err(LoadError::during("cannot connect: "))?;
    world.tally.connection(Kind::Http1);
    Ok(Kept { client, gateway: address, answers: 0 })
}

fn judge(
    world: &World,
    pool: &Pool,
    target: &Target,
    number: u64,
    mut kept: Kept,
    reply: &Reply,
) -> Result<(), LoadError> {
    target.judge(number, reply)?;
    if kept.answers == 0 {
        world.tally.serves(kept.gateway);
    }
    kept.answers += 1;
    let words = reply.headers.get_all("connection").iter().filter_map(|value| value.to_str().ok());
    if words.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case("close")) {
        world.tally.left(Kind::Http1);
    } else if kept.answers < ANSWERS {
        pool.keep(kept);
    }
    Ok(())
}
