//! The runtimes of all sandboxes: one server that answers everything on every address of this machine, on a
//! thread of its own.

use std::net::{Ipv4Addr, TcpListener as Listener};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Starts it and says its port.
pub(crate) fn start() -> u16 {
    let listener = Listener::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    listener.set_nonblocking(true).expect("not blocking");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).expect("a listener");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream));
            }
        });
    });
    port
}

/// Answers one request after the other, whatever it is.
async fn serve(stream: TcpStream) {
    let _soon = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    let mut length = 0_u64;
    loop {
        line.clear();
        match stream.read_line(&mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let header = line.trim().to_ascii_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if !header.is_empty() {
            continue;
        }
        let mut body = (&mut stream).take(length);
        if tokio::io::copy(&mut body, &mut tokio::io::sink()).await.is_err() {
            return;
        }
        length = 0;
        if stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n").await.is_err() {
            return;
        }
    }
}
