//! Ports of 127.0.0.1, each held by one scenario of one process.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port of 127.0.0.1 that no other scenario has, for what must be told its port before it starts: 0 is no
/// answer there.
///
/// Below the range that the system hands out for outgoing connections.
pub struct LoopbackPort {
    port: u16,
    _lock: TcpListener,
}

impl LoopbackPort {
    /// Takes one.
    pub fn reserve() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        for _ in 0..10_000 {
            let number =
                std::process::id().wrapping_mul(31).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
            let port = 20_000 + u16::try_from(number % 10_000).expect("less than 10,000");
            // Whoever listens there holds the port; the address is one that no sandbox gets.
            let lock = TcpListener::bind((Ipv4Addr::new(127, 1, 1, 0), port));
            if let Ok(lock) = lock
                && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
            {
                return Self { port, _lock: lock };
            }
        }
        panic!("no free port on loopback");
    }

    /// The port.
    pub fn number(&self) -> u16 {
        self.port
    }
}
