//! Who makes sandboxes come and go: pushes what becomes of them to the gateway, and asks for each new one
//! once.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sandgate_benches::rng::Rng;

use super::sandboxes::{Watched, address, keeps};
use crate::failure::{Doing as _, Failure, Result};
use crate::fleet;
use crate::message;
use crate::process::pin;

/// Requests that may be held at a time.
const ASKERS: usize = 64;
const STEP: Duration = Duration::from_millis(5);
/// Pushes that are under way at a time.
const PIPELINE: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);
/// A connection that was silent for this long is not used again.
const SILENT: Duration = Duration::from_secs(2);
/// A sandbox is not deleted before so many came after it: its first request is answered by then.
const YOUNG: usize = 2_000;
/// The letter of these sandboxes' IDs.
const LETTER: char = 'd';

#[derive(Default)]
pub(super) struct Progress {
    pub(super) asked: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Why the driver gave up, if it did.
    pub(super) problem: Mutex<Option<String>>,
}

/// Where everything is.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) gateway: u16,
    pub(super) push: u16,
    pub(super) sandboxes: u16,
    pub(super) core: usize,
}

pub(super) struct Driver {
    push: Push,
    ask: SyncSender<usize>,
    next: usize,
    live: Vec<usize>,
    young: VecDeque<usize>,
    watched: Watched,
    pub(super) progress: Arc<Progress>,
}

impl Driver {
    pub(super) fn new(ports: Ports, watched: Watched) -> Result<Self> {
        let progress = Arc::new(Progress::default());
        let (ask, asked) = sync_channel(ASKERS);
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..ASKERS {
            let (asked, progress) = (Arc::clone(&asked), Arc::clone(&progress));
            thread::spawn(move || {
                if let Err(failure) = ask_all(ports, &asked, &progress) {
                    progress.give_up(&failure);
                }
            });
        }
        let push = Push::new(ports.push)?;
        Ok(Self { push, ask, next: 0, live: Vec::new(), young: VecDeque::new(), watched, progress })
    }

    /// Makes so many sandboxes, which nobody asks for yet.
    pub(super) fn make(&mut self, count: usize) -> Result<()> {
        for number in self.next..self.next + count {
            self.push.running(number)?;
            self.live.push(number);
        }
        self.next += count;
        self.push.settle()
    }

    /// Asks for these of those there are.
    pub(super) fn ask_for(&self, which: std::ops::Range<usize>) -> Result<()> {
        self.live[which].iter().try_for_each(|number| self.ask(*number))
    }

    fn ask(&self, number: usize) -> Result<()> {
        let gone = |_| Failure::Asked("nobody asks for the sandboxes".to_owned());
        self.ask.send(number).map_err(gone)
    }

    /// From now on so many are asked for, each second. While `churn` says so each of them is new, and if
    /// `delete` one goes for each; otherwise they are some of those that are there.
    pub(super) fn run(mut self, core: usize, rate: u32, churn: Arc<AtomicBool>, delete: bool) {
        thread::spawn(move || {
            let progress = Arc::clone(&self.progress);
            if let Err(failure) = pin(core).and_then(|()| self.keep_pace(rate, &churn, delete)) {
                progress.give_up(&failure);
            }
        });
    }

    fn keep_pace(&mut self, rate: u32, churn: &AtomicBool, delete: bool) -> Result<()> {
        let mut rng = Rng::new(5);
        let (started, mut made) = (Instant::now(), 0.0);
        loop {
            thread::park_timeout(STEP);
            let due = started.elapsed().as_secs_f64() * f64::from(rate);
            let mut asked = Vec::new();
            while made < due {
                made += 1.0;
                if churn.load(Ordering::Relaxed) {
                    if delete {
                        self.delete_one(&mut rng)?;
                    }
                    self.push.running(self.next)?;
                    self.young.push_back(self.next);
                    asked.push(self.next);
                    self.next += 1;
                } else if let Some(number) =
                    self.live.get(rng.below(self.live.len())).filter(|live| !keeps(**live))
                {
                    asked.push(*number);
                }
            }
            self.push.settle()?;
            asked.into_iter().try_for_each(|number| self.ask(number))?;
        }
    }

    fn delete_one(&mut self, rng: &mut Rng) -> Result<()> {
        let gone = self.live.swap_remove(rng.below(self.live.len()));
        self.watched.deleted(gone);
        self.push.dead(gone)?;
        if self.young.len() > YOUNG {
            self.live.extend(self.young.pop_front());
        }
        Ok(())
    }
}

impl Progress {
    fn give_up(&self, failure: &Failure) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure.to_string());
    }
}

/// Asks for whoever is next, over one connection, until nobody is any more.
fn ask_all(ports: Ports, asked: &Mutex<Receiver<usize>>, progress: &Progress) -> Result<()> {
    pin(ports.core)?;
    let mut stream = connect(ports.gateway)?;
    loop {
        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(number) = next else { return Ok(()) };
        let host = fleet::host(ports.sandboxes, LETTER, number);
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).doing("asking for a sandbox")?;
        let response = read_answer(&mut stream, &mut Vec::new())?;
        progress.asked.fetch_add(1, Ordering::Relaxed);
        if response.status != 200 {
            progress.failed.fetch_add(1, Ordering::Relaxed);
        }
        if response.last {
            stream = connect(ports.gateway)?;
        }
    }
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream =
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).doing(format!("connecting to port {port}"))?;
    stream.set_nodelay(true).doing("sending at once")?;
    stream.set_read_timeout(Some(PATIENCE)).doing("a time limit")?;
    Ok(stream)
}

fn read_answer(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Result<message::Response> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(response) = message::response(unread) {
            unread.drain(..response.length);
            return Ok(response);
        }
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Failure::Asked("a connection ended before the answer".to_owned())),
            Ok(length) => unread.extend_from_slice(&buffer[..length]),
            // A read with a time limit is not begun again by itself.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("waiting for an answer"),
        }
    }
}

/// Tells the gateway what became of sandboxes, many at a time over one connection.
struct Push {
    port: u16,
    stream: TcpStream,
    unread: Vec<u8>,
    unsent: String,
    unanswered: usize,
    answered_at: Instant,
    version: u64,
}

impl Push {
    fn new(port: u16) -> Result<Self> {
        let (stream, answered_at) = (connect(port)?, Instant::now());
        let (unread, unsent) = (Vec::new(), String::new());
        Ok(Self { port, stream, unread, unsent, unanswered: 0, answered_at, version: 1 })
    }

    fn running(&mut self, number: usize) -> Result<()> {
        self.say(number, "running")
    }

    fn dead(&mut self, number: usize) -> Result<()> {
        self.say(number, "dead")
    }

    fn say(&mut self, number: usize, state: &str) -> Result<()> {
        let (id, ip, version) = (fleet::id(LETTER, number), address(number), self.version);
        self.version += 1;
        let body = format!(
            r#"{{"id":"{id}","namespace":"bench","name":"{LETTER}{number:07}","uid":"{LETTER}{number}","owner":"","state":"{state}","ip":"{ip}","resourceVersion":"{version}"}}"#
        );
        let head = "POST /refresh HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json";
        self.unsent += &format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.unanswered += 1;
        if self.unanswered >= PIPELINE { self.settle() } else { Ok(()) }
    }

    /// Sends what is unsent and waits for every answer.
    fn settle(&mut self) -> Result<()> {
        if self.unanswered == 0 {
            return Ok(());
        }
        // The receiver ends a connection that was silent for long.
        if self.answered_at.elapsed() > SILENT {
            self.stream = connect(self.port)?;
        }
        self.stream.write_all(std::mem::take(&mut self.unsent).as_bytes()).doing("pushing")?;
        for _ in 0..std::mem::take(&mut self.unanswered) {
            let response = read_answer(&mut self.stream, &mut self.unread)?;
            if response.status != 204 {
                return Err(Failure::Asked(format!("a push was answered with {}", response.status)));
            }
        }
        self.answered_at = Instant::now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn pushes_go_together_and_each_has_an_answer_and_a_version_of_its_own() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let gateway = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let (mut text, mut buffer) = (String::new(), [0; 4096]);
            while text.matches("\"resourceVersion\"").count() < 3 || !text.ends_with('}') {
                let length = stream.read(&mut buffer).expect("pushes");
                text += std::str::from_utf8(&buffer[..length]).expect("text");
            }
            stream.write_all(&b"HTTP/1.1 204 No Content\r\n\r\n".repeat(3)).expect("answers");
            text
        });
        let mut push = Push::new(port).expect("connected");
        push.running(7).expect("kept");
        push.dead(7).expect("kept");
        push.running(8).expect("kept");
        push.settle().expect("answered");
        let text = gateway.join().expect("a gateway");
        for version in 1..=3 {
            assert!(text.contains(&format!(r#""resourceVersion":"{version}""#)), "{text}");
        }
        assert_eq!(text.matches(r#""state":"dead""#).count(), 1);
        assert_eq!(text.matches("bench--d0000007").count(), 2);
    }
}
