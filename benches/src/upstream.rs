//! The sandboxes of a run: a thread that answers on every address of 127/8 with three bytes.
//!
//! It listens on all addresses because 127/8 has no name of its own to listen on, and turns away whoever does
//! not come from 127/8.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::failure::{Doing as _, Result};
use crate::message;

const LISTENER: u64 = 0;
const KEPT: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
const CLOSED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";

/// What the sandboxes do with their connections.
pub trait Habits {
    /// What they remember of a connection.
    type Memory;

    /// A connection was made. Without a memory of it it is closed again.
    fn opened(&mut self, stream: &TcpStream) -> Option<Self::Memory>;

    /// Whether it stays open after an answer.
    fn keeps(&self, memory: &Self::Memory) -> bool;

    /// It is over.
    fn closed(&mut self, memory: Self::Memory);
}

/// Every connection is kept.
struct KeepAll;

impl Habits for KeepAll {
    type Memory = ();

    fn opened(&mut self, _stream: &TcpStream) -> Option<()> {
        Some(())
    }

    fn keeps(&self, (): &()) -> bool {
        true
    }

    fn closed(&mut self, (): ()) {}
}

/// Serves until it is killed, and says its port first. Connections are kept.
///
/// # Errors
/// When it cannot listen, or not go on.
pub fn serve() -> Result<()> {
    let mut server = Server::new(KeepAll)?;
    println!("{}", server.port()?);
    match server.serve()? {}
}

/// Sandboxes that listen.
pub struct Server<H: Habits> {
    listener: TcpListener,
    poll: OwnedFd,
    connections: HashMap<u64, Connection<H::Memory>>,
    next: u64,
    habits: H,
}

struct Connection<M> {
    stream: TcpStream,
    memory: M,
    /// What came of a request that is not whole yet.
    begun: Vec<u8>,
}

impl<H: Habits> Server<H> {
    /// Listens on a free port.
    ///
    /// # Errors
    /// When it cannot.
    pub fn new(habits: H) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("listening")?;
        listener.set_nonblocking(true).doing("not blocking")?;
        let poll = epoll::create(CreateFlags::CLOEXEC).doing("polling")?;
        epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).doing("polling")?;
        Ok(Self { listener, poll, connections: HashMap::new(), next: LISTENER + 1, habits })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn port(&self) -> Result<u16> {
        Ok(self.listener.local_addr().doing("asking for the port")?.port())
    }

    /// Answers for as long as it can.
    ///
    /// # Errors
    /// When it cannot any more.
    pub fn serve(&mut self) -> Result<Infallible> {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.poll, spare_capacity(&mut events), None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.doing("polling")?,
            };
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    token => self.answer(token),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        loop {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error).doing("accepting"),
            };
            if !matches!(peer.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
                continue;
            }
            stream.set_nonblocking(true).doing("not blocking")?;
            // Fails only for a peer that has gone.
            let _ = stream.set_nodelay(true);
            let Some(memory) = self.habits.opened(&stream) else { continue };
            let token = self.next;
            self.next += 1;
            epoll::add(&self.poll, &stream, EventData::new_u64(token), EventFlags::IN).doing("polling")?;
            self.connections.insert(token, Connection { stream, memory, begun: Vec::new() });
        }
    }

    fn answer(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else { return };
        let keeps = self.habits.keeps(&connection.memory);
        // Dropping the connection closes it, which also ends the polling for it.
        if !connection.answer(keeps)
            && let Some(connection) = self.connections.remove(&token)
        {
            self.habits.closed(connection.memory);
        }
    }
}

impl<M> Connection<M> {
    /// Reads what is there and answers it. `false` when the connection is over.
    fn answer(&mut self, keeps: bool) -> bool {
        let reply = if keeps { KEPT } else { CLOSED };
        let mut buffer = [0; 4096];
        let length = match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let whole = self.begun.is_empty() && message::request(&buffer[..length]) == Some(length);
        if whole {
            return self.stream.write_all(reply).is_ok() && keeps;
        }
        self.begun.extend_from_slice(&buffer[..length]);
        while let Some(length) = message::request(&self.begun) {
            self.begun.drain(..length);
            if self.stream.write_all(reply).is_err() || !keeps {
                return false;
            }
        }
        true
    }
}
