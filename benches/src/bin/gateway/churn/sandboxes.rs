//! The sandboxes that come and go: one thread that answers at every address of theirs, and sees when a
//! deleted one's connection closes.
//!
//! Of those that come when the fleet is there, one in [`KEPT`] keeps its connection, so that there is one to
//! close. All others end theirs with the answer, so that files are not what runs out.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use crate::failure::Result;
use crate::process::pin;
use crate::upstream::{Habits, Server};

/// One in so many keeps its connection.
pub(super) const KEPT: usize = 5;

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
    let mut server = Server::new(Chosen { first, watched })?;
    let port = server.port()?;
    thread::spawn(move || {
        let Err(failure) = pin(core).and_then(|()| server.serve());
        eprintln!("the sandboxes ended: {failure}");
    });
    Ok(port)
}

/// Some keep their connection, and are watched.
struct Chosen {
    /// Those before this one keep none, whatever their number is.
    first: usize,
    watched: Watched,
}

impl Habits for Chosen {
    type Memory = Ipv4Addr;

    fn opened(&mut self, stream: &TcpStream) -> Option<Ipv4Addr> {
        let Ok(SocketAddr::V4(local)) = stream.local_addr() else { return None };
        if self.keeps(local.ip()) {
            self.watched.opened(*local.ip());
        }
        Some(*local.ip())
    }

    fn keeps(&self, address: &Ipv4Addr) -> bool {
        keeps(number(*address)) && number(*address) >= self.first
    }

    fn closed(&mut self, address: Ipv4Addr) {
        if self.keeps(&address) {
            self.watched.closed(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::message;

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
