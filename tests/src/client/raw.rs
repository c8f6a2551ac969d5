//! Requests byte by byte, for what no client library would send.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::DEADLINE;

/// Writes `request` and returns everything the server wrote until it closed the connection. Ask it to close.
pub async fn raw_exchange(server: SocketAddr, request: &[u8]) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(server).await.expect("connect");
        stream.write_all(request).await.expect("write the request");
        let mut answer = Vec::new();
        // A reset after the answer is no loss: the server has closed without reading what was left of the
        // request.
        let _reset = stream.read_to_end(&mut answer).await;
        answer
    };
    let answer =
        timeout(DEADLINE, exchange).await.expect("the server closes the connection within the deadline");
    String::from_utf8_lossy(&answer).into_owned()
}
