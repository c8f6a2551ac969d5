//! What stands before the gateways, as a Service of Kubernetes does: where a new connection goes to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The gateways that new connections go to, in turn. All clones are one.
#[derive(Clone, Debug)]
pub struct Front(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    gateways: Vec<SocketAddr>,
    turn: usize,
}

impl Front {
    /// In front of these.
    pub fn to(gateways: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self(Arc::new(Mutex::new(Inner { gateways: gateways.into_iter().collect(), turn: 0 })))
    }

    /// New connections may go there from now on.
    pub fn add(&self, gateway: SocketAddr) {
        self.inner().gateways.push(gateway);
    }

    /// No new connection goes there any more.
    pub fn remove(&self, gateway: SocketAddr) {
        self.inner().gateways.retain(|one| *one != gateway);
    }

    /// Where the next connection goes.
    pub(super) fn next(&self) -> Option<SocketAddr> {
        let mut inner = self.inner();
        inner.turn = inner.turn.wrapping_add(1);
        let turn = inner.turn.checked_rem(inner.gateways.len())?;
        Some(inner.gateways[turn])
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no holder panics")
    }
}
