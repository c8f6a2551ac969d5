//! The sandboxes of a run: one process that answers on every address of 127/8 with three bytes.
//!
//! It listens on all addresses because 127/8 has no name of its own to listen on, and turns away whoever does not come from 127/8.

use std::collections::HashMap;
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

/// Serves until it is killed. With `close`, every connection ends with its first answer.
pub fn serve(close: bool) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("listening")?;
    listener.set_nonblocking(true).doing("not blocking")?;
    println!("{}", listener.local_addr().doing("asking for the port")?.port());
    let poll = epoll::create(CreateFlags::CLOEXEC).doing("polling")?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).doing("polling")?;
    let mut server = Server { poll, connections: HashMap::new(), next: LISTENER + 1, close };
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&server.poll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.doing("polling")?,
        };
        for event in &events {
            match event.data.u64() {
                LISTENER => server.accept(&listener)?,
                token => server.answer(token),
            }
        }
    }
}

struct Server {
    poll: OwnedFd,
    connections: HashMap<u64, Connection>,
    next: u64,
    close: bool,
}

struct Connection {
    stream: TcpStream,
    /// What came of a request that is not whole yet.
    begun: Vec<u8>,
}

impl Server {
    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        loop {
            let (stream, peer) = match listener.accept() {
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
            let token = self.next;
            self.next += 1;
            epoll::add(&self.poll, &stream, EventData::new_u64(token), EventFlags::IN).doing("polling")?;
            self.connections.insert(token, Connection { stream, begun: Vec::new() });
        }
    }

    fn answer(&mut self, token: u64) {
        let reply = if self.close { CLOSED } else { KEPT };
        let Some(connection) = self.connections.get_mut(&token) else { return };
        // Dropping the connection closes it, which also ends the polling for it.
        if !connection.answer(reply) || self.close && connection.begun.is_empty() {
            self.connections.remove(&token);
        }
    }
}

impl Connection {
    /// Reads what is there and answers it. `false` when the peer is gone.
    fn answer(&mut self, reply: &[u8]) -> bool {
        let mut buffer = [0; 4096];
        let length = match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => length,
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let whole = self.begun.is_empty() && message::request(&buffer[..length]) == Some(length);
        if whole {
            return self.stream.write_all(reply).is_ok();
        }
        self.begun.extend_from_slice(&buffer[..length]);
        while let Some(length) = message::request(&self.begun) {
            self.begun.drain(..length);
            if self.stream.write_all(reply).is_err() {
                return false;
            }
        }
        true
    }
}
