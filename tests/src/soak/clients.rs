//! Clients over HTTP/1.1: good ones, slow ones, and those that leave in the middle.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Error;

use super::world::World;
use crate::{Client, WebSocket};

/// So many clients of a kind stop at one time: the next one comes, the first one leaves.
const KEPT: usize = 8;
/// Where the answer is a refusal, it ends.
const CLOSE: &str = "connection: close\r\n";
/// So many requests on one connection.
const REQUESTS: u32 = 40;

/// Asks for one sandbox after the other on connections that are kept for a while.
pub(super) async fn ask(world: Arc<World>) {
    let mut turns = world.turns(20.0);
    let mut client = None;
    let mut sent = 0_u32;
    while turns.next().await {
        sent += 1;
        if sent.is_multiple_of(REQUESTS) {
            client = None;
        }
        if client.is_none() {
            client = Client::http1(world.at.gateway).await.ok();
        }
        let Some(connection) = &mut client else {
            world.did("not connected");
            continue;
        };
        let id = world.any();
        match connection.send(world.request(&id, "/")).await {
            Ok(reply) => world.answered(&id, &reply),
            Err(_) => {
                world.did("cut off");
                client = None;
            }
        }
    }
}

/// Keeps the last few; the oldest leaves.
struct Kept<T>(VecDeque<T>);

impl<T> Kept<T> {
    fn new() -> Self {
        Self(VecDeque::with_capacity(KEPT + 1))
    }

    fn keep(&mut self, one: T) -> Option<T> {
        self.0.push_back(one);
        if self.0.len() > KEPT { self.0.pop_front() } else { None }
    }
}

async fn connected(world: &World, request: &[u8]) -> Option<TcpStream> {
    let mut stream = TcpStream::connect(world.at.gateway).await.ok()?;
    stream.write_all(request).await.ok()?;
    Some(stream)
}

/// Reads what is there until `enough` bytes have come, or the other side has closed.
async fn read_some(stream: &mut TcpStream, enough: usize) {
    let (mut buffer, mut seen) = ([0_u8; 4096], 0);
    while seen < enough {
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => seen += count,
            Ok(0) | Err(_) => return,
        }
    }
}

/// Clients that send half of a body, and leave.
pub(super) async fn half_bodies(world: Arc<World>) {
    let mut turns = world.turns(2.0);
    let mut kept = Kept::new();
    while turns.next().await {
        let mut request = world.bytes("POST", &world.any(), "/upload", "content-length: 131072\r\n");
        request.resize(request.len() + 65_536, b'x');
        if let Some(stream) = connected(&world, &request).await {
            world.did("half a body");
            drop(kept.keep(stream));
        }
    }
}

/// Clients that ask for much and stop to read.
pub(super) async fn stopped_readers(world: Arc<World>) {
    let mut turns = world.turns(1.0);
    let mut kept = Kept::new();
    while turns.next().await {
        let request = world.bytes("GET", &world.any(), "/download?bytes=4194304", CLOSE);
        if let Some(mut stream) = connected(&world, &request).await {
            read_some(&mut stream, 100).await;
            world.did("stopped to read");
            drop(kept.keep(stream));
        }
    }
}

/// Clients that leave while they wait for the answer, and in the middle of it.
pub(super) async fn leavers(world: Arc<World>) {
    let mut turns = world.turns(2.0);
    let mut kept = Kept::new();
    while turns.next().await {
        let waiting = world.bytes("GET", &world.any(), "/slow", "");
        if let Some(stream) = connected(&world, &waiting).await {
            world.did("left waiting");
            drop(kept.keep(stream));
        }
        let reading = world.bytes("GET", &world.any(), "/download?bytes=262144", CLOSE);
        if let Some(mut stream) = connected(&world, &reading).await {
            read_some(&mut stream, 10_000).await;
            world.did("left reading");
        }
    }
}

/// WebSockets that stay for a while; some are closed, some are dropped, some outlive their sandbox.
pub(super) async fn websockets(world: Arc<World>) {
    let mut turns = world.turns(2.0);
    let mut kept = Kept::new();
    let mut round = 0_u32;
    while turns.next().await {
        round += 1;
        if let Some(socket) = websocket(&world, &world.any()).await
            && let Some(oldest) = kept.keep(socket)
            && round.is_multiple_of(2)
        {
            // It may have ended with its sandbox.
            let _ended = oldest.try_close().await;
        }
    }
}

async fn websocket(world: &World, id: &str) -> Option<WebSocket> {
    let port = world.at.port.to_string();
    let headers = [("e2b-sandbox-id", id), ("e2b-sandbox-port", port.as_str())];
    let mut socket = match WebSocket::open(world.at.gateway, None, "/ws", &headers).await {
        Ok(socket) => socket,
        Err(Error::Http(answer)) if matches!(answer.status().as_u16(), 429 | 502 | 503 | 504) => {
            world.did("WebSocket turned away");
            return None;
        }
        Err(Error::Http(answer)) => {
            world.unexpected(format!("a WebSocket to {id}: {}", answer.status()));
            return None;
        }
        Err(_) => {
            world.did("WebSocket cut off");
            return None;
        }
    };
    world.did("WebSocket");
    // Its name, and an echo; either may be cut off.
    socket.next().await?;
    socket.try_send("hello").await.ok()?;
    socket.next().await?;
    Some(socket)
}

/// Requests that no sandbox is there for.
pub(super) async fn refused(world: Arc<World>) {
    let mut turns = world.turns(4.0);
    let mut round = 0_u32;
    while turns.next().await {
        round += 1;
        let id = match round % 4 {
            0 => format!("nobody--n{}", world.number()),
            _ => world.any(),
        };
        let port = match round % 4 {
            1 => "99999".to_owned(),
            // Nobody listens there, and each is a host.
            2 => (1 + round % 16).to_string(),
            _ => world.at.port.to_string(),
        };
        let request = match round % 4 {
            3 => crate::Request::get("/").header("e2b-sandbox-id", "no/id"),
            _ => crate::Request::get("/").header("e2b-sandbox-id", &id).header("e2b-sandbox-port", &port),
        };
        let Ok(mut client) = Client::http1(world.at.gateway).await else {
            world.did("not connected");
            continue;
        };
        match client.send(request).await {
            Ok(reply) if matches!(reply.status, 400 | 404 | 429 | 502 | 503 | 504) => world.did("refused"),
            Ok(reply) => world.unexpected(format!("{id}, port {port}: {} {}", reply.status, reply.text())),
            Err(_) => world.did("cut off"),
        }
    }
}

/// A request on each worker, more or less, and a WebSocket; nobody is there to answer.
pub(super) async fn one_of_each(world: &World) {
    for _ in 0..8 {
        if let Ok(mut client) = Client::http1(world.at.gateway).await
            && let Ok(reply) = client.send(world.request("soak--nobody", "/")).await
        {
            world.answered("soak--nobody", &reply);
        }
    }
    drop(websocket(world, "soak--nobody").await);
}
