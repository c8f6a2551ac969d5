//! The switch between the places: takes each frame that a place sends, and passes it on late, twice, out of
//! turn or not at all.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{checksum, thread_in};

/// How long the relay sleeps when nothing is under way.
const IDLE: Duration = Duration::from_millis(20);
/// Before the frame: flags, and the number of the line in bytes 4 to 6.
const HEADER: usize = 8;
/// Packets that may be under way at a time; more are lost, as in any queue.
const ROOM: usize = 10_000;

/// What a line does to a packet in either direction. Between two places both their lines count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// How long it takes.
    pub delay: Duration,
    /// By how much longer it may take, evenly distributed: packets overtake each other.
    pub jitter: Duration,
    /// How many of a thousand are lost.
    pub loss: u16,
    /// How many of a thousand arrive twice.
    pub twice: u16,
    /// Nothing passes.
    pub cut: bool,
}

/// Packets so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Passed on.
    pub passed: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Passed on once more.
    pub twice: u64,
    /// Passed on before one that was sent earlier.
    pub overtook: u64,
    /// Lost because a line was cut.
    pub cut: u64,
}

#[derive(Default)]
struct Counters {
    passed: AtomicU64,
    lost: AtomicU64,
    twice: AtomicU64,
    overtook: AtomicU64,
    cut: AtomicU64,
}

struct Shared {
    lines: Mutex<Vec<Conditions>>,
    counters: Counters,
    stop: AtomicBool,
}

pub(super) struct Relay {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(super) fn start(namespace: &str, own: Ipv4Addr, wire: SocketAddr, lines: u8, seed: u64) -> Self {
        let shared = Arc::new(Shared {
            lines: Mutex::new(vec![Conditions::default(); lines.into()]),
            counters: Counters::default(),
            stop: AtomicBool::new(false),
        });
        let (bound, is_bound) = mpsc::channel();
        let seen = Arc::clone(&shared);
        let thread = thread_in(namespace, "relay", move || {
            let socket = UdpSocket::bind((own, wire.port())).expect("the relay's port");
            let _heard = bound.send(());
            Switch {
                shared: seen,
                socket,
                wire,
                random: seed | 1,
                number: 0,
                latest: 0,
                queue: BinaryHeap::new(),
            }
            .run();
        });
        is_bound.recv().expect("the relay begins");
        Self { shared, thread: Some(thread) }
    }

    pub(super) fn set(&self, line: usize, conditions: Conditions) {
        self.shared.lines.lock().expect("no holder panics")[line] = conditions;
    }

    pub(super) fn traffic(&self) -> Traffic {
        let Counters { passed, lost, twice, overtook, cut } = &self.shared.counters;
        let [passed, lost, twice, overtook, cut] =
            [passed, lost, twice, overtook, cut].map(|counter| counter.load(Ordering::Relaxed));
        Traffic { passed, lost, twice, overtook, cut }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// A packet under way: when it is due, its number in the order of sending, and itself.
type UnderWay = Reverse<(Instant, u64, Vec<u8>)>;

struct Switch {
    shared: Arc<Shared>,
    socket: UdpSocket,
    wire: SocketAddr,
    random: u64,
    number: u64,
    /// The latest packet that was passed on.
    latest: u64,
    queue: BinaryHeap<UnderWay>,
}

impl Switch {
    fn run(mut self) {
        let mut buffer = [0; 2048];
        while !self.shared.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let wait =
                self.queue.peek().map_or(IDLE, |Reverse((due, ..))| due.saturating_duration_since(now));
            if wait.is_zero() {
                self.pass_on();
                continue;
            }
            self.socket.set_read_timeout(Some(wait.min(IDLE))).expect("a timeout above zero");
            match self.socket.recv(&mut buffer) {
                Ok(length) => self.take(&buffer[..length]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // What the other end says of a packet it did not want.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => panic!("the relay's socket: {error}"),
            }
        }
    }

    fn pass_on(&mut self) {
        let Some(Reverse((_, number, packet))) = self.queue.pop() else { return };
        let counters = &self.shared.counters;
        if number < self.latest {
            counters.overtook.fetch_add(1, Ordering::Relaxed);
        }
        self.latest = self.latest.max(number);
        counters.passed.fetch_add(1, Ordering::Relaxed);
        // A device that is gone takes no more packets.
        let _gone = self.socket.send_to(&packet, self.wire);
    }

    /// To whom it is addressed, or to all others: the last byte of a place's hardware address is the number
    /// of its line.
    fn take(&mut self, packet: &[u8]) {
        let lines = self.shared.lines.lock().expect("no holder panics").clone();
        let (Some(&from), Some(&[first, .., last])) =
            (packet.get(6), packet.get(HEADER..HEADER + 6).and_then(|mac| <&[u8; 6]>::try_from(mac).ok()))
        else {
            return;
        };
        let is_group = first & 1 == 1;
        let everyone = 1..=u8::try_from(lines.len()).unwrap_or(u8::MAX);
        for to in everyone.filter(|to| *to != from && (is_group || *to == last)) {
            if let Some(own) = lines.get(usize::from(from).wrapping_sub(1)) {
                self.send(packet, to, &[*own, lines[usize::from(to) - 1]]);
            }
        }
    }

    fn send(&mut self, packet: &[u8], to: u8, lines: &[Conditions]) {
        let shared = Arc::clone(&self.shared);
        let counters = &shared.counters;
        if lines.iter().any(|line| line.cut) {
            counters.cut.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if lines.iter().any(|line| self.by_chance(line.loss)) || self.queue.len() >= ROOM {
            counters.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut copies = 1;
        if lines.iter().any(|line| self.by_chance(line.twice)) {
            counters.twice.fetch_add(1, Ordering::Relaxed);
            copies = 2;
        }
        for _ in 0..copies {
            let takes: Duration = lines.iter().map(|line| line.delay + self.part_of(line.jitter)).sum();
            let mut packet = packet.to_vec();
            packet[6] = to;
            checksum::complete(&mut packet[HEADER..]);
            self.number += 1;
            self.queue.push(Reverse((Instant::now() + takes, self.number, packet)));
        }
    }

    fn by_chance(&mut self, of_a_thousand: u16) -> bool {
        self.next() % 1000 < u64::from(of_a_thousand)
    }

    fn part_of(&mut self, most: Duration) -> Duration {
        let micros = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(if micros == 0 { 0 } else { self.next() % micros })
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
