//! Three gateways, each in a network namespace of its own, and a fourth namespace to push to them from.
//!
//! In each gateway's namespace the same sandboxes run at the same addresses of 127/8, so that one table is
//! right for all three. The way from the sender to a gateway is a line that can be made bad, and cut.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::netns::{Conditions, Namespace, Network, Traffic};
use crate::{Builder, Gateway, Place, Sandbox};

/// How many gateways there are.
pub const PLANES: usize = 3;
/// The sandboxes in every gateway's namespace.
pub const SANDBOXES: [&str; 4] = ["north", "south", "east", "west"];
const SENDER: usize = PLANES;
const PORT: u16 = 7789;

/// The gateways and what they need. Dropping it ends everything.
pub struct Planes {
    gateways: Vec<Arc<Gateway>>,
    _sandboxes: Vec<Sandbox>,
    // The last, so that everything in it has ended.
    network: Network,
}

impl Planes {
    /// Starts them, with sandboxes that listen on `port`; or nothing where this process may not make
    /// namespaces, which is said.
    pub fn start(scenario: &str, seed: u64, port: u16) -> Option<Self> {
        let network = Network::or_skip(scenario, 4, seed)?;
        let (mut gateways, mut sandboxes) = (Vec::new(), Vec::new());
        let begun: Vec<_> = (0..PLANES)
            .map(|number| {
                network.place(number).begin(move || async move {
                    let mut sandboxes = Vec::new();
                    for (at, name) in SANDBOXES.into_iter().enumerate() {
                        sandboxes.push(Sandbox::start_at(name, Place::shared(address(at)), &[port]).await);
                    }
                    (builder().start().await, sandboxes)
                })
            })
            .collect();
        for begun in begun {
            let (gateway, all) = begun.finish();
            gateways.push(Arc::new(gateway));
            sandboxes.extend(all);
        }
        Some(Self { gateways, _sandboxes: sandboxes, network })
    }

    /// The namespace that pushes are sent from.
    pub fn sender(&self) -> &Namespace {
        self.network.place(SENDER)
    }

    /// The namespace of a gateway.
    pub fn namespace(&self, number: usize) -> &Namespace {
        self.network.place(number)
    }

    /// A gateway. It is reached from its own namespace only.
    pub fn gateway(&self, number: usize) -> Arc<Gateway> {
        Arc::clone(&self.gateways[number])
    }

    /// Where the gateways are pushed to, from the sender.
    pub fn peers(&self) -> [SocketAddr; PLANES] {
        std::array::from_fn(|number| (self.network.place(number).ip(), PORT).into())
    }

    /// Changes the line of a gateway.
    pub fn set(&self, number: usize, conditions: Conditions) {
        self.network.set(number, conditions);
    }

    /// What became of the packets so far.
    pub fn traffic(&self) -> Traffic {
        self.network.traffic()
    }

    /// The digest of a gateway's table.
    pub fn digest(&self, number: usize) -> String {
        let gateway = self.gateway(number);
        self.namespace(number).run(move || async move { gateway.digest().await })
    }

    /// The table of a gateway.
    pub fn table(&self, number: usize) -> Value {
        let gateway = self.gateway(number);
        let dump = self.namespace(number).run(move || async move { gateway.table_dump().await });
        serde_json::from_str(&dump).expect("a dump is JSON")
    }
}

/// Where a sandbox is, in every gateway's namespace.
pub fn address(sandbox: usize) -> IpAddr {
    Ipv4Addr::new(127, 77, 0, u8::try_from(sandbox + 1).expect("few sandboxes")).into()
}

fn builder() -> Builder {
    let refresh = json!({ "address": "0.0.0.0", "port": PORT, "provider": "openkruise", "insecure": true });
    Gateway::builder().routes("routes: []").setting("refresh", refresh)
}
