//! Sandboxes that come and go: in the cluster, told by pushes too, and by pushes alone.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sandgate_peering::{Credentials, Delivery, PeerAddress, Peers, PushSettings, Pusher, RouteMessage};
use tokio::time::Instant;

use super::PUSH_NAME;
use super::world::{World, address};
use crate::Client;
use crate::kubernetes::{Kind, Object};

/// How long a push may take before it is counted as late.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many lives are pushed on one connection.
const LIVES_A_PUSHER: u32 = 10;
/// So many sandboxes live at a time by pushes alone.
const PUSHED: usize = 6;

/// A manager: what it pushes goes to the one gateway, over TLS and signed.
struct Manager {
    pusher: Pusher,
    lives: u32,
}

impl Manager {
    async fn new(world: &World) -> Self {
        Self { pusher: pusher(world).await, lives: 0 }
    }

    /// One more life; now and then on a new connection.
    async fn next_life(&mut self, world: &World) {
        self.lives += 1;
        if self.lives.is_multiple_of(LIVES_A_PUSHER) {
            self.pusher = pusher(world).await;
        }
    }

    async fn push(&self, world: &World, messages: &[RouteMessage]) {
        let tickets: Vec<_> =
            messages.iter().map(|message| self.pusher.push(message).expect("it has an order")).collect();
        for ticket in tickets {
            for (_, delivery) in ticket.outcomes(Instant::now() + PATIENCE).await {
                world.did(match delivery {
                    Delivery::Delivered => "pushed",
                    Delivery::Coalesced => "push coalesced",
                    Delivery::Refused { .. } => "push refused",
                    _ => "push late",
                });
            }
        }
    }
}

async fn pusher(world: &World) -> Pusher {
    let peer = PeerAddress::at(world.at.refresh, true, Some(PUSH_NAME));
    let credentials = Credentials {
        ca: Some(world.at.authority.clone()),
        hmac: Some(("main".to_owned(), world.at.shared_key.clone())),
        ..Credentials::default()
    };
    // A loaded machine may take longer than a manager would wait.
    let settings = PushSettings { try_timeout: Duration::from_secs(2), ..PushSettings::default() };
    let pusher = Pusher::start(settings, Peers::Static(vec![peer]), &credentials).expect("credentials");
    assert!(pusher.found(Instant::now() + PATIENCE).await, "peers that are given are found");
    pusher
}

/// A tenant of the cluster: one sandbox after the other, every second one under the tenant's own name, the
/// others under new ones.
pub(super) async fn in_the_cluster(world: Arc<World>, kind: Kind, tenant: u32) {
    let mut turns = world.turns(1.0);
    let mut manager = Manager::new(&world).await;
    while turns.next().await {
        let number = world.number();
        let name = if number.is_multiple_of(2) { format!("tenant-{tenant}") } else { format!("s{number}") };
        let draft = kind.draft(&world.at.api, &world.at.namespace, &name).running(address(number));
        let draft = if number.is_multiple_of(3) { draft.ending(soon()) } else { draft };
        let object = draft.create().await;
        world.did("created");
        let id = object.id();
        world.admit(&id);
        manager.next_life(&world).await;
        told(&world, &manager, kind, &object, "running", number).await;
        for step in 0..4 {
            if !turns.next().await {
                break;
            }
            match step {
                0 => object.pause().await,
                1 => {
                    told(&world, &manager, kind, &object, "paused", number).await;
                    object.resume(address(world.number())).await;
                }
                2 if number.is_multiple_of(3) => object.end_at(soon()).await,
                _ => ask(&world, &id).await,
            }
        }
        world.dismiss(&id);
        let dead = (kind == Kind::OpenKruise).then_some(message(&object, "dead", number).await);
        object.delete().await;
        if let Some(dead) = dead {
            manager.push(&world, &[dead]).await;
        }
        world.did("deleted");
    }
}

/// A moment that some lives reach and others do not.
fn soon() -> SystemTime {
    SystemTime::now() + Duration::from_secs(4)
}

async fn told(world: &World, manager: &Manager, kind: Kind, object: &Object, state: &str, number: u32) {
    if kind == Kind::OpenKruise {
        manager.push(world, &[message(object, state, number).await]).await;
    }
}

async fn message(object: &Object, state: &str, number: u32) -> RouteMessage {
    RouteMessage {
        ip: address(number).to_string(),
        id: object.id(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        state: state.to_owned(),
        resource_version: object.version().await,
        ..RouteMessage::default()
    }
}

/// Sandboxes that no watch knows: some at a time, so that what waits for the gateway goes together.
pub(super) async fn by_push(world: Arc<World>) {
    let mut turns = world.turns(1.0);
    let mut manager = Manager::new(&world).await;
    while turns.next().await {
        manager.next_life(&world).await;
        let numbers: Vec<u32> = (0..PUSHED).map(|_| world.number()).collect();
        let say = |state: &str, version: u32| -> Vec<RouteMessage> {
            numbers.iter().map(|number| pushed(*number, state, version)).collect()
        };
        manager.push(&world, &say("running", 1)).await;
        for number in &numbers {
            world.admit(&pushed_id(*number));
        }
        for version in 2..6 {
            if !turns.next().await {
                break;
            }
            let state = if version % 2 == 0 { "paused" } else { "running" };
            manager.push(&world, &say(state, version)).await;
            ask(&world, &pushed_id(numbers[version as usize % PUSHED])).await;
        }
        for number in &numbers {
            world.dismiss(&pushed_id(*number));
        }
        manager.push(&world, &say("dead", 6)).await;
        // What comes late brings nobody back.
        manager.push(&world, &say("running", 1)[..1]).await;
    }
}

fn pushed_id(number: u32) -> String {
    format!("pushed--p{number}")
}

fn pushed(number: u32, state: &str, version: u32) -> RouteMessage {
    RouteMessage {
        ip: address(number).to_string(),
        id: pushed_id(number),
        namespace: "pushed".to_owned(),
        name: format!("p{number}"),
        uid: format!("uid-{number}"),
        state: state.to_owned(),
        // Later lives have higher versions, as in a cluster.
        resource_version: (u64::from(number) * 10 + u64::from(version)).to_string(),
        ..RouteMessage::default()
    }
}

async fn ask(world: &World, id: &str) {
    // A connection that breaks belongs to the churn: its sandbox went.
    let Ok(mut client) = Client::http1(world.at.gateway).await else { return world.did("not connected") };
    match client.send(world.request(id, "/")).await {
        Ok(reply) => world.answered(id, &reply),
        Err(_) => world.did("cut off"),
    }
}

/// One sandbox of a push, asked for and gone.
pub(super) async fn one_pushed(world: &World) {
    let manager = Manager::new(world).await;
    let number = world.number();
    manager.push(world, &[pushed(number, "running", 1)]).await;
    ask(world, &pushed_id(number)).await;
    manager.push(world, &[pushed(number, "dead", 2)]).await;
}
