//! HTTP/2, by clients that obey GOAWAY.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::request::LoadError;
use super::{Kind, PATIENCE, World};
use crate::Client;

/// So many clients, with one connection for new requests each.
const CLIENTS: usize = 4;
/// So many requests under way on a connection at most; the next takes a new one. Well below what the gateway
/// allows: a request that waits for its turn when the GOAWAY comes is dropped by the client's library, which
/// cannot say whether it was sent.
const UNDER_WAY: usize = 50;

/// The connection of each client.
#[derive(Default)]
pub(super) struct Connections([Mutex<Option<Arc<Connection>>>; CLIENTS]);

/// Open for as long as anybody has it: those who have requests under way on it, and its client until there is
/// another.
struct Connection {
    client: Client,
    gateway: SocketAddr,
    served: std::sync::Once,
}

/// One request, due at `due`.
pub(super) async fn exchange(world: Arc<World>, connections: Arc<Connections>, number: u64, due: Instant) {
    world.tally.sent(Kind::Http2);
    let mut gateway = None;
    let one = once(&world, &connections, number, &mut gateway);
    match timeout(PATIENCE, one).await.unwrap_or_else(|_| Err(LoadError::Late("answer"))) {
        Ok(()) => world.tally.answer(Kind::Http2, due.elapsed()),
        Err(what) => world.tally.failure(Kind::Http2, gateway, &what.to_string()),
    }
}

async fn once(
    world: &World,
    connections: &Connections,
    number: u64,
    gateway: &mut Option<SocketAddr>,
) -> Result<(), LoadError> {
    let target = world.target(number);
    let client = usize::try_from(number).map_or(0, |number| number % CLIENTS);
    loop {
        let connection = current(world, &connections.0[client], gateway).await?;
        *gateway = Some(connection.gateway);
        match connection.client.share().send(target.request(number)).await {
            Ok(reply) => {
                target.judge(number, &reply)?;
                connection.served.call_once(|| world.tally.serves(connection.gateway));
                return Ok(());
            }
            // It was never on the wire: the connection takes no new requests.
            Err(error) if error.is_canceled() || error.is_closed() => {}
            Err(error) => return Err(LoadError::during("")(error)),
        }
        // Unless another request of this client was first.
        let mut slot = connections.0[client].lock().await;
        if slot.as_ref().is_some_and(|current| Arc::ptr_eq(current, &connection)) {
            *slot = None;
            world.tally.left(Kind::Http2);
        }
    }
}

/// The connection of a client. One that was closed is found by the request that it takes no more.
async fn current(
    world: &World,
    slot: &Mutex<Option<Arc<Connection>>>,
    gateway: &mut Option<SocketAddr>,
) -> Result<Arc<Connection>, LoadError> {
    let mut slot = slot.lock().await;
    // The slot has one, and each request that is under way.
    if let Some(connection) = &*slot
        && Arc::strong_count(connection) <= UNDER_WAY
    {
        return Ok(Arc::clone(connection));
    }
    let address = world.front.next().ok_or(LoadError::NoGateway)?;
    *gateway = Some(address);
    let client = Client::http2(address).await.map_err(LoadError::during("cannot connect: "))?;
    world.tally.connection(Kind::Http2);
    let connection = Arc::new(Connection { client, gateway: address, served: std::sync::Once::new() });
    *slot = Some(Arc::clone(&connection));
    Ok(connection)
}
