//! Networks of network namespaces, with lines between them that delay, lose, repeat and reorder packets, and
//! that can be cut.
//!
//! Every place of a [`Network`] is a namespace with a loopback device and one line, on which it has the
//! address [`Namespace::ip`]. The line is a VXLAN device: its frames go as UDP packets to the [`relay`], a
//! thread of ours that passes them on to the others as the line's [`Conditions`] say. TCP above it is the
//! kernel's own, with its own patience. It is what netem does, and is done here because many kernels are
//! built without netem.
//!
//! Namespaces have names of this process, and go with the network, also when a scenario fails. What a killed
//! process left behind is removed by the next one.

mod checksum;
mod inside;
mod relay;

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

pub use inside::{Begun, Inside};
use relay::Relay;
pub use relay::{Conditions, Traffic};

const PREFIX: &str = "sandgate-test-";
/// VXLAN's port, in namespaces of our own.
const PORT: u16 = 4789;
const RELAY: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 1);
const WIRE: Ipv4Addr = Ipv4Addr::new(10, 254, 0, 2);
/// Room for VXLAN's headers in a packet of 1500 bytes.
const MTU: &str = "1400";

/// Some places and the lines between them.
pub struct Network {
    // The first, so that nobody is inside when the namespaces go.
    places: Vec<Namespace>,
    relay: Relay,
    _names: Names,
}

/// One namespace with a line.
pub struct Namespace {
    inside: Inside,
    number: u8,
}

impl Namespace {
    /// Its address on the line.
    pub fn ip(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, self.number)
    }
}

impl std::ops::Deref for Namespace {
    type Target = Inside;

    fn deref(&self) -> &Inside {
        &self.inside
    }
}

/// This process may not make network namespaces. Trying again does not help.
#[derive(Debug, thiserror::Error)]
#[error("no right to make network namespaces: {0}")]
pub struct NotPermitted(String);

impl Network {
    /// Makes one of so many places. What the relay does by chance depends on the seed.
    ///
    /// # Errors
    /// When this process may not make namespaces: it needs root, or `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`.
    ///
    /// # Panics
    /// When it may and something else is wrong: `ip` of iproute2 is missing, or the kernel has no VXLAN or
    /// veth.
    pub fn new(places: u8, seed: u64) -> Result<Self, NotPermitted> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        sweep();
        let stem = format!("{PREFIX}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut names = Names(Vec::new());
        let wire = names.add(&format!("{stem}-wire"))?;
        let hub = names.add(&format!("{stem}-relay"))?;
        let (inner, outer) = (format!("{WIRE}/24"), format!("{RELAY}/24"));
        ip(&["-n", &wire, "link", "add", "line", "type", "veth", "peer", "name", "line", "netns", &hub]);
        for (namespace, address) in [(&wire, &inner), (&hub, &outer)] {
            ip(&["-n", namespace, "address", "add", address, "dev", "line"]);
            ip(&["-n", namespace, "link", "set", "line", "up"]);
        }
        let mut all = Vec::new();
        for number in 1..=places {
            let name = names.add(&format!("{stem}-{number}"))?;
            let device = format!("line{number}");
            // A VXLAN device sends and receives in the namespace it was made in, wherever it is moved to.
            let (id, port) = (number.to_string(), PORT.to_string());
            let (relay, wire_ip) = (RELAY.to_string(), WIRE.to_string());
            ip(&[
                "-n", &wire, "link", "add", &device, "type", "vxlan", "id", &id, "remote", &relay, "local",
                &wire_ip, "dstport", &port,
            ]);
            ip(&["-n", &wire, "link", "set", &device, "netns", &name]);
            let mac = format!("02:00:00:00:00:{number:02x}");
            ip(&["-n", &name, "link", "set", &device, "address", &mac, "mtu", MTU, "gso_max_segs", "1"]);
            let address = format!("{}/24", Ipv4Addr::new(10, 77, 0, number));
            ip(&["-n", &name, "address", "add", &address, "dev", &device]);
            ip(&["-n", &name, "link", "set", &device, "up"]);
            ip(&["-n", &name, "link", "set", "lo", "up"]);
            all.push(Namespace { inside: Inside::new(&name), number });
        }
        let relay = Relay::start(&hub, RELAY, (WIRE, PORT).into(), places, seed);
        Ok(Self { places: all, relay, _names: names })
    }

    /// The same. Without root it fails in CI and is skipped elsewhere: see [`root`](crate::root).
    pub fn or_skip(scenario: &str, places: u8, seed: u64) -> Option<Self> {
        crate::root::or_skip(scenario, Self::new(places, seed))
    }

    /// One of its places, from 0.
    pub fn place(&self, number: usize) -> &Namespace {
        &self.places[number]
    }

    /// Changes the line of one place.
    pub fn set(&self, number: usize, conditions: Conditions) {
        self.relay.set(number, conditions);
    }

    /// What became of the packets so far.
    pub fn traffic(&self) -> Traffic {
        self.relay.traffic()
    }
}

struct Names(Vec<String>);

impl Names {
    fn add(&mut self, name: &str) -> Result<String, NotPermitted> {
        let added = Command::new("ip").args(["netns", "add", name]).output();
        let added = added.unwrap_or_else(|error| panic!("ip (Debian: iproute2): {error}"));
        if !added.status.success() {
            let said = String::from_utf8_lossy(&added.stderr).trim().to_owned();
            let denied = ["not permitted", "denied"].iter().any(|word| said.contains(word));
            assert!(denied, "ip netns add {name}: {said}");
            return Err(NotPermitted(said));
        }
        self.0.push(name.to_owned());
        Ok(name.to_owned())
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for name in &self.0 {
            // What is left is removed by the next run.
            let _removed = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

/// Removes what processes left that are gone.
fn sweep() {
    let Ok(found) = fs::read_dir("/run/netns") else { return };
    for name in found.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !crate::process_exists(pid.parse().unwrap_or(0))) {
            let _removed = Command::new("ip").args(["netns", "delete", &name]).output();
        }
    }
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().expect("run ip");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {}: {said}", arguments.join(" "));
}

/// Moves this thread, and those and the processes it will start, into a namespace.
fn enter(name: &str) {
    let file = File::open(format!("/run/netns/{name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .unwrap_or_else(|error| panic!("enter {name}: {error}"));
}

/// A thread in a namespace, that ends with what it is told by.
fn thread_in(name: &str, what: &str, run: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
    let namespace: Arc<str> = name.into();
    let thread = std::thread::Builder::new().name(format!("{what} of {name}"));
    thread
        .spawn(move || {
            enter(&namespace);
            run();
        })
        .expect("start a thread")
}
