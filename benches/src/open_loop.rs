//! Requests at a constant rate, whatever the answers take: a late answer does not put off the next request,
//! and latency counts from the moment a request was due. (A closed loop waits with the next request while the
//! proxy is slow, and so leaves the slow moments out.)
//!
//! One thread: a timer of the kernel's for the schedule, keep-alive connections taken in turn. A request that
//! is due while all of them are busy waits, and its wait counts.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::num::NonZeroU64;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::stats::percentile;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::failure::{Doing as _, Failure, Result};
use crate::fleet::Walk;
use crate::message;
use crate::process;
use crate::questions::{Answers, Latency, Questions};

/// What a program calls this generator, as a subcommand: `RATE QUESTIONS…`, which prints the [`Answers`] as
/// JSON.
pub const SUBCOMMAND: &str = "__open-loop";
const TIMER: u64 = u64::MAX;
const CONNECTIONS: usize = 64;
/// How long answers may be late after the last request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks the questions at this rate, and waits for the last answers.
///
/// # Errors
/// When the gateway cannot be connected to.
pub fn run(questions: &Questions, rate: u32) -> Result<Answers> {
    // A timer may be late by this much so that the kernel can wake several at once; we want none of that.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut client = Client::new(questions)?;
    client.warm(questions)?;
    let started = Instant::now();
    let due = schedule(rate, questions.seconds);
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK).doing("a timer")?;
    epoll::add(&client.poll, &timer, EventData::new_u64(TIMER), EventFlags::IN).doing("polling")?;
    let mut sent = 0;
    let mut events = Vec::with_capacity(CONNECTIONS + 1);
    while client.answered + client.bad < due.len() as u64 {
        while sent < due.len() && started.elapsed() >= due[sent] {
            client.ask(started + due[sent])?;
            sent += 1;
        }
        let wake = if sent < due.len() { due[sent] } else { questions.duration() + PATIENCE };
        let left = (started + wake).saturating_duration_since(Instant::now());
        if sent == due.len() && left.is_zero() {
            break;
        }
        set_timer(&timer, left)?;
        events.clear();
        match epoll::wait(&client.poll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.doing("polling")?,
        };
        for event in &events {
            match event.data.u64() {
                TIMER => {
                    let _ = rustix::io::read(&timer, &mut [0; 8]);
                }
                token => client.receive(usize::try_from(token).unwrap_or(usize::MAX))?,
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    // What was never answered is as slow as it gets, and counts as failed.
    let missing = due.len() as u64 - client.answered - client.bad;
    Ok(Answers {
        requests: client.answered,
        seconds,
        failed: client.bad + missing,
        latency: Some(latency(&mut client.micros)),
    })
}

/// The same in a process of its own on a core of its own choosing: this program's [`SUBCOMMAND`].
///
/// # Errors
/// When it fails.
pub fn run_on(core: usize, questions: &Questions, rate: u32) -> Result<Answers> {
    run_by(process::own(core, SUBCOMMAND), questions, rate)
}

/// The same with a command for this program's [`SUBCOMMAND`] that somebody else has made.
///
/// # Errors
/// When it fails.
pub fn run_by(mut command: Command, questions: &Questions, rate: u32) -> Result<Answers> {
    command.arg(rate.to_string()).args(questions.to_args());
    let output = command.stderr(Stdio::piped()).output().doing("starting the open loop")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answers = serde_json::from_str(text.trim()).ok().filter(|_| output.status.success());
    answers.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::Asked(format!("the open loop failed ({}): {said}{text}", output.status))
    })
}

/// When each request is due, from the start.
fn schedule(rate: u32, seconds: f64) -> Vec<Duration> {
    let rate = f64::from(rate.max(1));
    (0u32..)
        .map(|number| f64::from(number) / rate)
        .take_while(|&at| at < seconds)
        .map(Duration::from_secs_f64)
        .collect()
}

fn latency(micros: &mut [f64]) -> Latency {
    let [p50, p99, p999] = [50.0, 99.0, 99.9].map(|percent| percentile(micros, percent));
    Latency { p50, p99, p999 }
}

fn set_timer(timer: impl std::os::fd::AsFd, left: Duration) -> Result<()> {
    // Zero would turn the timer off.
    let left = left.max(Duration::from_nanos(1));
    let at = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
    let never = Timespec { tv_sec: 0, tv_nsec: 0 };
    let when = Itimerspec { it_interval: never, it_value: at };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &when).doing("setting the timer")?;
    Ok(())
}

struct Client {
    poll: std::os::fd::OwnedFd,
    connections: Vec<Connection>,
    free: VecDeque<usize>,
    /// Requests that were due when no connection was free.
    waiting: VecDeque<Instant>,
    walk: Walk,
    head: String,
    tail: String,
    port: u16,
    refused: bool,
    answered: u64,
    bad: u64,
    micros: Vec<f64>,
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    due: Option<Instant>,
}

impl Client {
    fn new(questions: &Questions) -> Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC).doing("polling")?;
        let (head, tail) = questions.around_number();
        let mut client = Self {
            poll,
            connections: Vec::new(),
            free: (0..CONNECTIONS).collect(),
            waiting: VecDeque::new(),
            walk: questions.walk(),
            head,
            tail,
            port: questions.port,
            refused: questions.refused(),
            answered: 0,
            bad: 0,
            micros: Vec::new(),
        };
        for token in 0..CONNECTIONS {
            let connection = Connection::new(questions.port)?;
            let data = EventData::new_u64(token as u64);
            epoll::add(&client.poll, &connection.stream, data, EventFlags::IN).doing("polling")?;
            client.connections.push(connection);
        }
        Ok(client)
    }

    /// One request on each connection, so that none of the counted ones pays for Envoy accepting it.
    fn warm(&mut self, questions: &Questions) -> Result<()> {
        for at in 0..self.connections.len() {
            let text = self.next_request();
            let stream = &mut self.connections[at].stream;
            stream.set_nonblocking(false).doing("blocking")?;
            stream.set_read_timeout(Some(PATIENCE)).doing("a time limit")?;
            stream.write_all(text.as_bytes()).doing(format!("asking port {}", questions.port))?;
            let mut answer = Vec::new();
            let mut buffer = [0; 4096];
            while message::response(&answer).is_none() {
                match stream.read(&mut buffer).doing(format!("hearing from port {}", questions.port))? {
                    0 => return Err(Failure::Asked("the gateway closed a fresh connection".to_owned())),
                    length => answer.extend_from_slice(&buffer[..length]),
                }
            }
            stream.set_nonblocking(true).doing("not blocking")?;
        }
        Ok(())
    }

    fn next_request(&mut self) -> String {
        format!("{}{:07}{}", self.head, self.walk.next_number(), self.tail)
    }

    fn ask(&mut self, due: Instant) -> Result<()> {
        match self.free.pop_front() {
            Some(at) => self.send(at, due),
            None => {
                self.waiting.push_back(due);
                Ok(())
            }
        }
    }

    fn send(&mut self, at: usize, due: Instant) -> Result<()> {
        let text = self.next_request();
        let connection = &mut self.connections[at];
        connection.due = Some(due);
        match connection.stream.write_all(text.as_bytes()) {
            Ok(()) => Ok(()),
            Err(_) => self.lost(at),
        }
    }

    fn receive(&mut self, at: usize) -> Result<()> {
        let Some(connection) = self.connections.get_mut(at) else { return Ok(()) };
        let mut buffer = [0; 4096];
        match connection.stream.read(&mut buffer) {
            Ok(0) => return self.lost(at),
            Ok(length) => connection.buffer.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(());
            }
            Err(_) => return self.lost(at),
        }
        let Some(response) = message::response(&connection.buffer) else { return Ok(()) };
        connection.buffer.drain(..response.length);
        let Some(due) = connection.due.take() else { return Ok(()) };
        if (response.status >= 400) == self.refused {
            self.answered += 1;
            self.micros.push(due.elapsed().as_secs_f64() * 1e6);
        } else {
            self.bad += 1;
        }
        if response.last {
            self.reconnect(at)?;
        }
        self.freed(at)
    }

    /// The connection ended. Its request, if it had one, has failed.
    fn lost(&mut self, at: usize) -> Result<()> {
        let asked = self.connections[at].due.take().is_some();
        self.reconnect(at)?;
        if asked {
            self.bad += 1;
            return self.freed(at);
        }
        Ok(())
    }

    fn reconnect(&mut self, at: usize) -> Result<()> {
        self.connections[at] = Connection::new(self.port)?;
        let stream = &self.connections[at].stream;
        stream.set_nonblocking(true).doing("not blocking")?;
        epoll::add(&self.poll, stream, EventData::new_u64(at as u64), EventFlags::IN).doing("polling")
    }

    fn freed(&mut self, at: usize) -> Result<()> {
        match self.waiting.pop_front() {
            Some(due) => self.send(at, due),
            None => {
                self.free.push_back(at);
                Ok(())
            }
        }
    }
}

impl Connection {
    fn new(port: u16) -> Result<Self> {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).doing(format!("connecting to port {port}"))?;
        stream.set_nodelay(true).doing("sending at once")?;
        Ok(Self { stream, buffer: Vec::new(), due: None })
    }
}

#[cfg(test)]
mod tests;
