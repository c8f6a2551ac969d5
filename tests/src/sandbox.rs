//! A real HTTP server in the place of a sandbox. It says who it is, so that a request in the wrong place is
//! seen.
//!
//! | path | answer |
//! |---|---|
//! | any | `{"sandbox","method","path","host","headers","port","connection"}`: what arrived, and where |
//! | `/ws` | an echo WebSocket whose first message is the sandbox's name |
//! | `/ws-seen` | the same, whose first message is what arrived |
//! | `/sse` | an event stream: each event is sent by [`Sandbox::event`] |
//! | `/slow` | held until [`Sandbox::release`] |
//! | `/late?milliseconds=N` | as any, after so long |
//! | `/upload` | `{"bytes","intact"}` of a body that repeats the [`Pattern`] |
//! | `/download?bytes=N` | N bytes that repeat the [`Pattern`] |
//! | `/trailers` | a body, then the trailer `grpc-status: 0` |
//! | `/takeover.html` | a page whose service worker answers for its origin once it is active |

mod answer;
mod pattern;
mod place;
mod raw;
mod transport;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use pattern::Pattern;
pub use place::Place;
pub use raw::RawSandbox;
use transport::Transport;

use crate::{DEADLINE, eventually};

struct Shared {
    name: String,
    http1_only: bool,
    tls: Option<TlsAcceptor>,
    requests: AtomicUsize,
    connections: AtomicUsize,
    open: AtomicUsize,
    held: AtomicUsize,
    gate: Semaphore,
    takeover: Semaphore,
    events: Mutex<Option<mpsc::Sender<Bytes>>>,
}

/// A running server. Dropping it closes its listeners and its connections.
pub struct Sandbox {
    shared: Arc<Shared>,
    place: Place,
    addresses: Vec<SocketAddr>,
    tasks: Vec<JoinHandle<()>>,
}

impl Sandbox {
    /// A sandbox on an address of its own, at a free port.
    pub async fn start(name: &str) -> Self {
        Self::start_at(name, Place::reserve(), &[0]).await
    }

    /// A sandbox on an address of its own, at these ports (0: a free one).
    pub async fn on_ports(name: &str, ports: &[u16]) -> Self {
        Self::start_at(name, Place::reserve(), ports).await
    }

    /// A sandbox on `::1`, at a free port.
    pub async fn on_ipv6(name: &str) -> Self {
        Self::start_at(name, Place::shared(Ipv6Addr::LOCALHOST.into()), &[0]).await
    }

    /// A sandbox on an address of its own that does not speak HTTP/2, as most servers do not without TLS.
    pub async fn http1_only(name: &str) -> Self {
        Self::listen(name, Place::reserve(), &[0], true, None).await
    }

    /// A sandbox at a given place: the way to give one sandbox's address to the next.
    pub async fn start_at(name: &str, place: Place, ports: &[u16]) -> Self {
        Self::listen(name, place, ports, false, None).await
    }

    /// A sandbox on an address of its own that speaks TLS, at these ports.
    pub async fn over_tls(name: &str, ports: &[u16], tls: TlsAcceptor) -> Self {
        Self::listen(name, Place::reserve(), ports, false, Some(tls)).await
    }

    async fn listen(
        name: &str,
        place: Place,
        ports: &[u16],
        http1_only: bool,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            http1_only,
            tls,
            requests: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            takeover: Semaphore::new(0),
            events: Mutex::new(None),
        });
        let mut sandbox = Self { shared, place, addresses: Vec::new(), tasks: Vec::new() };
        for port in ports {
            let wanted = SocketAddr::new(sandbox.ip(), *port);
            let listener =
                TcpListener::bind(wanted).await.unwrap_or_else(|e| panic!("listen on {wanted}: {e}"));
            sandbox.addresses.push(listener.local_addr().expect("a bound listener has an address"));
            sandbox.tasks.push(tokio::spawn(accept(listener, Arc::clone(&sandbox.shared))));
        }
        sandbox
    }

    /// Its name: what every answer says.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.place.ip()
    }

    /// Its first port.
    pub fn port(&self) -> u16 {
        self.addresses[0].port()
    }

    /// `ip:port` as Envoy's access log writes it.
    pub fn authority(&self) -> String {
        self.addresses[0].to_string()
    }

    /// Requests seen so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Connections open now.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Waits until `count` requests are held at `/slow`.
    pub async fn holding(&self, count: usize) {
        eventually("requests are held at /slow", DEADLINE, async || {
            (self.shared.held.load(Ordering::SeqCst) == count).then_some(())
        })
        .await;
    }

    /// Requests held at `/slow` now.
    pub fn held(&self) -> usize {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// Lets `count` requests held at `/slow` go.
    pub fn release(&self, count: usize) {
        self.shared.gate.add_permits(count);
    }

    /// Sends one event to the client of `/sse`, once there is one.
    pub async fn event(&self, data: &str) {
        let sender = eventually("a client of /sse", DEADLINE, async || {
            self.shared.events.lock().expect("no holder panics").clone()
        })
        .await;
        sender.send(Bytes::from(format!("data: {data}\n\n"))).await.expect("the event stream is open");
    }

    /// Ends the event stream.
    pub fn end_events(&self) {
        self.shared.events.lock().expect("no holder panics").take();
    }

    /// Closes listeners and connections, and hands the place over for another to use.
    pub async fn stop(mut self) -> Place {
        for task in self.tasks.drain(..) {
            task.abort();
            // The error says that the task was ended, which is what is wanted: now its sockets are closed.
            let _ended = task.await;
        }
        self.place.clone()
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Where a request came in.
#[derive(Clone, Copy)]
struct Arrival {
    port: u16,
    connection: usize,
}

/// Counts a connection for as long as it is open.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Owns its connections: they end with the listener.
async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let port = listener.local_addr().map_or(0, |address| address.port());
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let connection = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let shared = Arc::clone(&shared);
        let (http1_only, tls) = (shared.http1_only, shared.tls.clone());
        let open = Open::new(&shared);
        connections.spawn(async move {
            let _open = open;
            let service = service_fn(move |request| {
                answer::answer(Arc::clone(&shared), Arrival { port, connection }, request)
            });
            let stream = match tls {
                None => Transport::Plain(stream),
                Some(tls) => match tls.accept(stream).await {
                    Ok(stream) => Transport::Tls(Box::new(stream)),
                    // A client it does not know; what that client sees is asserted.
                    Err(_) => return,
                },
            };
            let stream = TokioIo::new(stream);
            // A peer that goes away is no failure of the sandbox; the scenario asserts on what the client
            // sees.
            if http1_only {
                let _gone = http1::Builder::new().serve_connection(stream, service).with_upgrades().await;
            } else {
                let builder = auto::Builder::new(TokioExecutor::new());
                let _gone = builder.serve_connection_with_upgrades(stream, service).await;
            }
        });
    }
}
