//! An issuer of traffic tokens: an HTTPS server with an OpenID configuration and a key set, as OpenKruise's
//! manager has one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::Authority;

/// An issuer that serves until it is dropped.
pub struct Issuer {
    address: SocketAddr,
    ca: PathBuf,
    keys: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
    server: JoinHandle<()>,
}

impl Issuer {
    /// Starts one whose key set is this document. Its authority is in the folder.
    pub async fn start(folder: &Path, keys: String) -> Self {
        let authority = Authority::new(folder);
        let acceptor = authority.server("localhost", false);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("bind");
        let address = listener.local_addr().expect("an address");
        let keys = Arc::new(Mutex::new(Some(keys)));
        let asked = Arc::new(AtomicUsize::new(0));
        let issuer = format!("https://localhost:{}", address.port());
        let server = tokio::spawn({
            let (keys, asked) = (Arc::clone(&keys), Arc::clone(&asked));
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, keys, asked) = (acceptor.clone(), Arc::clone(&keys), Arc::clone(&asked));
                    let issuer = issuer.clone();
                    tokio::spawn(async move {
                        let Ok(mut stream) = acceptor.accept(stream).await else { return };
                        let mut head = Vec::new();
                        while !head.ends_with(b"\r\n\r\n") {
                            match stream.read_u8().await {
                                Ok(byte) => head.push(byte),
                                Err(_) => return,
                            }
                        }
                        let body = if head.starts_with(b"GET /keys ") {
                            asked.fetch_add(1, Ordering::Relaxed);
                            keys.lock().expect("the keys").clone()
                        } else {
                            let jwks = format!("{issuer}/keys");
                            Some(json!({ "issuer": issuer, "jwks_uri": jwks }).to_string())
                        };
                        let (status, body) = match body {
                            Some(body) => ("200 OK", body),
                            None => ("503 Service Unavailable", String::new()),
                        };
                        let head = format!(
                            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
                             connection: close\r\n\r\n",
                            body.len()
                        );
                        let _ = stream.write_all((head + &body).as_bytes()).await;
                        let _ = stream.shutdown().await;
                    });
                }
            }
        });
        Self { address, ca: authority.file(), keys, asked, server }
    }

    /// What its tokens have as `iss`.
    pub fn name(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// The gateway's settings for it, in `auth.traffic-jwt`.
    pub fn settings(&self) -> serde_json::Value {
        json!({
            "discovery-url": format!("{}/.well-known/openid-configuration", self.name()),
            "ca-file": self.ca,
            "min-refetch-seconds": 1,
        })
    }

    /// Replaces the key set; `None` answers 503.
    pub fn publish(&self, keys: Option<String>) {
        *self.keys.lock().expect("the keys") = keys;
    }

    /// How often the key set was asked for.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.server.abort();
    }
}
