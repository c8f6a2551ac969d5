//! A sandbox that answers every request with the same bytes, for what no server library would send.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::Place;

/// A running server. Dropping it closes its listener and its connections.
pub struct RawSandbox {
    place: Place,
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl RawSandbox {
    /// A sandbox on an address of its own, at a free port. The connection closes after the answer.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        let place = Place::reserve();
        let listener = TcpListener::bind((place.ip(), 0)).await.expect("listen on an address of one's own");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (answer, requests) = (Arc::new(answer.into()), Arc::new(AtomicUsize::new(0)));
        let task = tokio::spawn(accept(listener, answer, Arc::clone(&requests)));
        Self { place, address, requests, task }
    }

    /// Its address.
    pub fn ip(&self) -> IpAddr {
        self.place.ip()
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Requests seen so far.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for RawSandbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, answer: Arc<Vec<u8>>, requests: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&answer), Arc::clone(&requests)));
    }
}

/// Reads the head of one request and answers it. A client that goes away sees what the scenario asserts on.
async fn serve(mut stream: TcpStream, answer: Arc<Vec<u8>>, requests: Arc<AtomicUsize>) {
    let mut head = Vec::new();
    let mut chunk = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&chunk[..read]),
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let _gone = stream.write_all(&answer).await;
    let _gone = stream.shutdown().await;
    // The other side closes when it has read the answer; closing first could lose the end of it.
    while matches!(stream.read(&mut chunk).await, Ok(read) if read > 0) {}
}
