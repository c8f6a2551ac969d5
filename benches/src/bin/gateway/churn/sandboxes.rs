//! The sandboxes that come and go: one thread that answers at every address of theirs, and sees when a deleted one's connection closes.
//!
//! Of those that come when the fleet is there, one in [`KEPT`] keeps its connection, so that there is one to close. All others end theirs
//! with the answer, so that files are not what runs out.

use std::collections::HashMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use crate::failure::{Doing as _, Result};
use crate::message;
use crate::process::pin;

/// One in so many keeps its connection.
pub(super) const KEPT: usize = 5;
const LISTENER: u64 = 0;
const KEEPS: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n";
const CLOSES: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n";

/// 127.16.0.1 and on: each sandbox that ever was has its own.
pub(super) fn address(number: usize) -> Ipv4Addr {
    Ipv4Addr::from(0x7f10_0001 + u32::try_from(number).expect("fewer sandboxes than 127/8 has addresses"))
}

fn number(address: Ipv4Addr) -> usize {
    u32::from(address).wrapping_sub(0x7f10_0001) as usize
}

/// Whether a sandbox keeps its connection.
pub(super) fn keeps(number: usize) -> bool {
    number.is_multiple_of(KEPT)
}

/// What became of the connections to deleted sandboxes.
#[derive(Default)]
pub(super) struct Seen {
    open: HashMap<Ipv4Addr, usize>,
    deleted: HashMap<Ipv4Addr, Instant>,
    /// How long each stayed open after the deletion, in milliseconds.
    pub(super) closed_after: Vec<f64>,
}

/// Shared by the thread and who started it.
#[derive(Clone, Default)]
pub(super) struct Watched(Arc<Mutex<Seen>>);

impl Watched {
    pub(super) fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This sandbox is about to be deleted.
    pub(super) fn deleted(&self, number: usize) {
        let address = address(number);
        let mut seen = self.lock();
        if seen.open.contains_key(&address) {
            seen.deleted.insert(address, Instant::now());
        }
    }

    /// How many of the deleted have a connection still.
    pub(super) fn left_open(&self) -> usize {
        let seen = self.lock();
        seen.deleted.keys().filter(|address| seen.open.contains_key(address)).count()
    }

    fn opened(&self, address: Ipv4Addr) {
        *self.lock().open.entry(address).or_default() += 1;
    }

    fn closed(&self, address: Ipv4Addr) {
        let mut seen = self.lock();
        let left = seen.open.get_mut(&address).map(|open| {
            *open -= 1;
            *open
        });
        if left == Some(0) {
            seen.open.remove(&address);
            if let Some(since) = seen.deleted.remove(&address) {
                seen.closed_after.push(since.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
}

/// Starts them on a core; gives their port. The thread ends with the process.
pub(super) fn start(core: usize, first: usize, watched: Watched) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).doing("listening")?;
    listener.set_nonblocking(true).doing("not blocking")?;
    let port = listener.local_addr().doing("asking for the port")?.port();
    let poll = epoll::create(CreateFlags::CLOEXEC).doing("polling")?;
    epoll::add(&poll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).doing("polling")?;
    let mut server = Server { poll, connections: HashMap::new(), next: LISTENER + 1, first, watched };
    thread::spawn(move || {
        let served = pin(core).and_then(|()| server.serve(&listener));
        if let Err(failure) = served {
            eprintln!("the sandboxes ended: {failure}");
        }
    });
    Ok(port)
}

struct Connection {
    stream: TcpStream,
    address: Ipv4Addr,
    begun: Vec<u8>,
}

struct Server {
    poll: OwnedFd,
    connections: HashMap<u64, Connection>,
    next: u64,
    /// Those before this one keep no connection, whatever their number is.
    first: usize,
    watched: Watched,
}

impl Server {
    fn keeps(&self, address: Ipv4Addr) -> bool {
        keeps(number(address)) && number(address) >= self.first
    }

    fn serve(&mut self, listener: &TcpListener) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.poll, spare_capacity(&mut events), None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.doing("polling")?,
            };
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(listener)?,
                    token => self.answer(token),
                }
            }
        }
    }

    fn accept(&mut self, listener: &TcpListener) -> Result<()> {
        loop {
            let (stream, peer) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error).doing("accepting"),
            };
            let Ok(SocketAddr::V4(local)) = stream.local_addr() else { continue };
            if !matches!(peer.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
                continue;
            }
            stream.set_nonblocking(true).doing("not blocking")?;
            // Fails only for a peer that has gone.
            let _ = stream.set_nodelay(true);
            let token = self.next;
            self.next += 1;
            epoll::add(&self.poll, &stream, EventData::new_u64(token), EventFlags::IN).doing("polling")?;
            let address = *local.ip();
            if self.keeps(address) {
                self.watched.opened(address);
            }
            self.connections.insert(token, Connection { stream, address, begun: Vec::new() });
        }
    }

    fn answer(&mut self, token: u64) {
        let Some(address) = self.connections.get(&token).map(|connection| connection.address) else { return };
        let keeps = self.keeps(address);
        let Some(connection) = self.connections.get_mut(&token) else { return };
        if !connection.answer(keeps) {
            self.connections.remove(&token);
            if keeps {
                self.watched.closed(address);
            }
        }
    }
}

impl Connection {
    /// Answers what is there. `false` when the connection is over.
    fn answer(&mut self, keeps: bool) -> bool {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(length) => self.begun.extend_from_slice(&buffer[..length]),
            Err(error) => return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
        while let Some(length) = message::request(&self.begun) {
            self.begun.drain(..length);
            if self.stream.write_all(if keeps { KEEPS } else { CLOSES }).is_err() || !keeps {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(mut ready: impl FnMut() -> bool) {
        for _ in 0..10_000 {
            if ready() {
                return;
            }
            thread::park_timeout(std::time::Duration::from_millis(1));
        }
        panic!("never");
    }

    fn ask(number: usize, port: u16) -> TcpStream {
        let mut stream = TcpStream::connect((address(number), port)).expect("a sandbox");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("asked");
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).expect("an answer");
        assert!(message::response(&answer[..length]).is_some_and(|response| response.status == 200));
        stream
    }

    #[test]
    fn the_connection_of_a_deleted_sandbox_is_timed_when_it_closes() {
        let watched = Watched::default();
        let port = start(0, 0, watched.clone()).expect("sandboxes");
        let kept = ask(KEPT, port);
        watched.deleted(KEPT);
        assert_eq!((watched.left_open(), watched.lock().closed_after.len()), (1, 0));
        drop(kept);
        until(|| watched.lock().closed_after.len() == 1);
        assert_eq!(watched.left_open(), 0);
    }

    #[test]
    fn one_that_keeps_no_connection_is_not_waited_for() {
        let watched = Watched::default();
        let port = start(0, 0, watched.clone()).expect("sandboxes");
        let mut closed = ask(1, port);
        assert_eq!(closed.read(&mut [0; 1]).expect("closed"), 0);
        watched.deleted(1);
        assert_eq!((watched.left_open(), watched.lock().deleted.len()), (0, 0));
    }
}
