//! What all who take part in the churn around a gateway know.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::churn::{Churn, lock};
use crate::kubernetes::{ApiServer, Wire};
use crate::{Reply, Request};

/// Addresses are used again after so many lives: later than any two that live at one time, soon enough to be
/// recycled.
const ADDRESSES: u32 = 4096;

/// Where everything is.
pub(super) struct Places {
    pub(super) gateway: SocketAddr,
    pub(super) refresh: SocketAddr,
    /// Where every sandbox listens.
    pub(super) port: u16,
    /// The authority of the push port's certificate.
    pub(super) authority: PathBuf,
    pub(super) shared_key: PathBuf,
    /// The folder of the routes file.
    pub(super) mount: PathBuf,
    pub(super) api: ApiServer,
    pub(super) namespace: String,
    pub(super) wire: Wire,
}

pub(super) struct World {
    pub(super) at: Places,
    churn: Churn,
    choices: AtomicU32,
    ids: Mutex<Vec<String>>,
}

impl World {
    pub(super) fn new(at: Places, speed: f64) -> Self {
        Self { at, churn: Churn::new(speed), choices: AtomicU32::new(0), ids: Mutex::default() }
    }

    /// Sandboxes that may be asked for now; they may be gone when the request arrives.
    pub(super) fn admit(&self, id: &str) {
        lock(&self.ids).push(id.to_owned());
    }

    pub(super) fn dismiss(&self, id: &str) {
        lock(&self.ids).retain(|known| known != id);
    }

    /// One of them, another each time; the ID of nobody where there is none.
    pub(super) fn any(&self) -> String {
        let ids = lock(&self.ids);
        let choice = self.choices.fetch_add(1, Ordering::Relaxed) as usize;
        if ids.is_empty() { "soak--nobody".to_owned() } else { ids[choice % ids.len()].clone() }
    }

    /// A request for a sandbox.
    pub(super) fn request(&self, id: &str, path: &str) -> Request {
        Request::get(path).header("e2b-sandbox-id", id).header("e2b-sandbox-port", self.at.port.to_string())
    }

    /// The same, byte by byte; `more` is further header lines.
    pub(super) fn bytes(&self, method: &str, id: &str, path: &str, more: &str) -> Vec<u8> {
        let port = self.at.port;
        format!(
            "{method} {path} HTTP/1.1\r\nhost: soak.test\r\ne2b-sandbox-id: {id}\r\ne2b-sandbox-port: {port}\r\n{more}\r\n"
        )
        .into_bytes()
    }

    /// Looks at an answer to a request for `id`: its own sandbox's, or a refusal that the churn explains.
    pub(super) fn answered(&self, id: &str, reply: &Reply) {
        match reply.status {
            200 if reply.seen("x-sandbox-id") == [id] => self.did("answered"),
            // Not there, not running, gone meanwhile, over a limit, not connected.
            429 | 502 | 503 | 504 => self.did("turned away"),
            _ => self.unexpected(format!("{id}: {} {}", reply.status, reply.text())),
        }
    }
}

impl Deref for World {
    type Target = Churn;

    fn deref(&self) -> &Churn {
        &self.churn
    }
}

/// The address of a sandbox's life.
pub(super) fn address(number: u32) -> IpAddr {
    let [_, _, third, fourth] = (number % ADDRESSES).to_be_bytes();
    Ipv4Addr::new(127, 91, third, fourth).into()
}
