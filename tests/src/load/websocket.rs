//! WebSockets that send all the time and want an echo of everything, in order.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, interval, timeout};

use super::arrivals::stopped;
use super::request::LoadError;
use super::{Kind, PATIENCE, World};
use crate::{SocketEnd, WebSocket};

const KIND: Kind = Kind::WebSocket;
/// The time between two messages of one.
const TURN: Duration = Duration::from_millis(50);

/// One that is open, and what it waits for.
struct Open {
    socket: WebSocket,
    gateway: SocketAddr,
    begun: Instant,
    waiting: VecDeque<(String, Instant)>,
}

/// Has a WebSocket open until the stop, a new one when the last has ended.
pub(super) async fn stay(world: Arc<World>, number: usize) {
    let mut stop = world.stop.clone();
    let mut messages = interval(TURN);
    let mut life = 0_u64;
    while !*stop.borrow() {
        life += 1;
        let Some(mut open) = open(&world, number).await else {
            tokio::select! {
                () = stopped(&mut stop) => return,
                _ = messages.tick() => continue,
            }
        };
        let mut count = 0_u64;
        let ended = loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break open.close(&world).await,
                _ = messages.tick() => {
                    count += 1;
                    if let Err(why) = open.send(&world, format!("{number}.{life}.{count}")).await {
                        break Err(why);
                    }
                }
                message = open.socket.receive() => if let Err(why) = open.echo(&world, message) {
                    break Err(why);
                },
            }
        };
        if let Err(why) = ended {
            world.tally.end(open.gateway, open.begun, open.waiting.len(), &why.to_string());
        }
        if stop.has_changed().is_err() {
            return;
        }
    }
}

/// Opens one; its first message is the name of the sandbox.
async fn open(world: &World, number: usize) -> Option<Open> {
    let due = Instant::now();
    world.tally.sent(KIND);
    let target = world.target(u64::try_from(number).unwrap_or_default());
    let mut gateway = None;
    let opening = async {
        let address = world.front.next().ok_or(LoadError::NoGateway)?;
        gateway = Some(address);
        let opened = WebSocket::open(address, None, "/ws", &target.headers()).await;
        let mut socket = opened.map_err(LoadError::during("no upgrade: "))?;
        world.tally.connection(KIND);
        let name = socket.receive().await.map_err(LoadError::during(""))?;
        if name != target.name() {
            return Err(LoadError::Wrong(format!("{} was asked for, and {name} is there", target.name())));
        }
        world.tally.serves(address);
        Ok(Open { socket, gateway: address, begun: due, waiting: VecDeque::new() })
    };
    match timeout(PATIENCE, opening).await.unwrap_or_else(|_| Err(LoadError::Late("upgrade"))) {
        Ok(open) => {
            world.tally.answer(KIND, due.elapsed());
            Some(open)
        }
        Err(what) => {
            world.tally.failure(KIND, gateway, &what.to_string());
            None
        }
    }
}

impl Open {
    async fn send(&mut self, world: &World, text: String) -> Result<(), LoadError> {
        if let Some((late, sent)) = self.waiting.front()
            && sent.elapsed() > PATIENCE
        {
            return Err(LoadError::Wrong(format!("no echo of {late}")));
        }
        world.tally.sent(KIND);
        let sent = self.socket.try_send(&text).await;
        self.waiting.push_back((text, Instant::now()));
        sent.map_err(LoadError::during(""))
    }

    fn echo(&mut self, world: &World, message: Result<String, SocketEnd>) -> Result<(), LoadError> {
        let message = message.map_err(LoadError::during(""))?;
        match self.waiting.front() {
            Some((text, sent)) if *text == message => {
                world.tally.answer(KIND, sent.elapsed());
                self.waiting.pop_front();
                Ok(())
            }
            other => Err(LoadError::Wrong(format!("{message} came where {other:?} was to come"))),
        }
    }

    /// Waits for the last echoes and says good-bye.
    async fn close(&mut self, world: &World) -> Result<(), LoadError> {
        let closing = async {
            while !self.waiting.is_empty() {
                let message = self.socket.receive().await;
                self.echo(world, message)?;
            }
            self.socket.say_goodbye().await.map_err(LoadError::during("no good-bye: "))
        };
        timeout(PATIENCE, closing).await.unwrap_or_else(|_| Err(LoadError::Late("echo or good-bye")))
    }
}
