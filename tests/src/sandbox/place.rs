//! Addresses of 127/8, each held by one sandbox of one test of one process.

use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Whoever listens here holds the address. Below the range that the system hands out for outgoing
/// connections.
const LOCK_PORT: u16 = 31_999;

/// An address, held until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Place {
    ip: IpAddr,
    _lock: Option<Arc<TcpListener>>,
}

/// The address that a number stands for, if it is one to give out. Hardly any number has none: the search
/// for an address does not run dry, wherever it starts.
fn candidate(host: u32) -> Option<Ipv4Addr> {
    let [first, second, third, fourth] = host.to_be_bytes();
    // 127.0/16 is where everybody else's servers are; .0 and .255 confuse readers.
    let second = (u16::from_be_bytes([first, second]) % 255 + 1).to_be_bytes()[1];
    (fourth != 0 && fourth != 255).then(|| Ipv4Addr::new(127, second, third, fourth))
}

impl Place {
    /// An address nobody else holds.
    pub fn reserve() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Processes start far apart; the lock decides where they meet.
        let start = std::process::id().wrapping_mul(0x9E37_79B1) >> 8;
        for _ in 0..10_000 {
            let host = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let Some(ip) = candidate(host) else { continue };
            if let Ok(lock) = TcpListener::bind((ip, LOCK_PORT)) {
                return Self { ip: ip.into(), _lock: Some(Arc::new(lock)) };
            }
        }
        panic!("no free address in 127/8");
    }

    /// An address that others use too, such as `::1`: only ports keep its users apart.
    pub fn shared(ip: IpAddr) -> Self {
        Self { ip, _lock: None }
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.ip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_for_an_address_finds_one_wherever_it_starts() {
        for start in [0, 0x0000_8000, 0x00FE_FFFF, 0x00FF_FFFF, u32::MAX] {
            let found = (0..3).filter_map(|step| candidate(start.wrapping_add(step))).collect::<Vec<_>>();
            assert!(!found.is_empty(), "nothing from {start:#x} on");
            assert!(found.iter().all(|ip| ip.octets()[1] != 0), "{found:?} is where others' servers are");
        }
    }
}
