//! Three gateways in network namespaces of their own, over lines that delay, lose, repeat and reorder
//! packets, and that are cut.
//!
//! Two senders, each with half of the history in an order of its own, push to all three. In turn each gateway
//! is cut off, for longer than a message is tried, while the versions move on. What must hold: the others
//! converge meanwhile; after the line is back the one that was cut off has their table within [`BOUND`], to
//! the byte, by pushes alone; and at no gateway is a request served from a version older than one that it had
//! acknowledged, so never from a dead one.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sandgate_peering::{Credentials, Delivery, PeerAddress, Peers, PushSettings, Pusher, RouteMessage};
use sandgate_tests::netns::{Begun, Conditions};
use sandgate_tests::{PLANES, Planes, SANDBOXES, eventually, sandbox_address};
use tokio::time::Instant;

use crate::said::{Acknowledged, Said, ask_on, heard, history, table_of, versions_in};
use crate::support::{PORT, Seeded};

/// Versions in each part of the history.
const VERSIONS: u64 = 150;
/// A sender's longest wait between two tries is a second, and a try takes a tenth of one: twenty of them may
/// be in vain.
const BOUND: Duration = Duration::from_secs(22);
/// A fair connection to the next city on a bad day.
const BAD: Conditions = Conditions {
    delay: Duration::from_millis(5),
    jitter: Duration::from_millis(5),
    loss: 20,
    twice: 20,
    cut: false,
};

/// What all threads share.
struct Truth {
    by_version: BTreeMap<u64, Said>,
    acknowledged: [Acknowledged; PLANES],
    stop: AtomicBool,
}

fn sender(planes: &Planes) -> Pusher {
    let peers = planes.peers().map(|peer| PeerAddress::at(peer, false, None)).to_vec();
    planes.sender().run(|| async {
        let pusher = Pusher::start(PushSettings::default(), Peers::Static(peers), &Credentials::default());
        let pusher = pusher.expect("no credentials, so none are wrong");
        assert!(pusher.found(Instant::now() + BOUND).await);
        pusher
    })
}

/// Pushes what one sender has heard, and notes what each gateway has acknowledged as that is told.
fn push(planes: &Planes, pusher: &Pusher, said: Vec<Said>, truth: &Arc<Truth>) {
    let ips: Vec<IpAddr> = (0..SANDBOXES.len()).map(sandbox_address).collect();
    for said in said {
        let message: RouteMessage = serde_json::from_value(said.message(&ips)).expect("a message");
        let ticket = pusher.push(&message).expect("it has an order");
        let (truth, peers) = (Arc::clone(truth), planes.peers());
        planes.sender().begin(move || async move {
            for (peer, delivery) in ticket.outcomes(Instant::now() + BOUND).await {
                let at = peers.iter().position(|known| peer == PeerAddress::at(*known, false, None));
                if delivery == Delivery::Delivered {
                    truth.acknowledged[at.expect("a peer of ours")].note(&said);
                }
            }
        });
    }
}

/// Waits until a gateway has these versions.
fn has(planes: &Planes, number: usize, wanted: &BTreeMap<String, String>) {
    let (gateway, wanted) = (planes.gateway(number), wanted.clone());
    planes.namespace(number).run(move || async move {
        eventually(&format!("gateway {number} has {wanted:?}"), BOUND, async || {
            let table = serde_json::from_str(&gateway.table_dump().await).expect("a dump is JSON");
            (versions_in(&table) == wanted).then_some(())
        })
        .await;
    });
}

/// Waits until each sender has been out of tries for a gateway: what it misses is then what they keep for it.
/// Not until both are at the same moment: while one tries again nothing of it is pending, and two that try in
/// turn may never rest together.
fn given_up(planes: &Planes, senders: &[Pusher; 2], number: usize) {
    let (senders, at) = (senders.clone(), PeerAddress::at(planes.peers()[number], false, None));
    planes.sender().run(move || async move {
        let is_out = |pusher: &Pusher| {
            pusher.metrics().iter().any(|peer| peer.peer == at && peer.error.is_some() && peer.pending > 0)
        };
        let mut trying: Vec<&Pusher> = senders.iter().collect();
        eventually("the tries are out", BOUND, async || {
            trying.retain(|pusher| !is_out(pusher));
            trying.is_empty().then_some(())
        })
        .await;
    });
}

/// Puts the line back and waits until the gateway has the others' table.
fn heal(planes: &Planes, cut_off: usize, wanted: &BTreeMap<String, String>) {
    let digest = planes.digest((cut_off + 1) % PLANES);
    assert_ne!(planes.digest(cut_off), digest, "what is cut off hears nothing");
    planes.set(cut_off, BAD);
    let gateway = planes.gateway(cut_off);
    planes.namespace(cut_off).run(move || async move {
        let same = async || (gateway.digest().await == digest).then_some(());
        eventually(&format!("gateway {cut_off} has the table of the others"), BOUND, same).await;
    });
    has(planes, cut_off, wanted);
}

fn partitions(seed: u64) {
    let Some(planes) = Planes::start("partition", seed, PORT) else { return };
    (0..PLANES).for_each(|number| planes.set(number, BAD));
    let mut random = Seeded(seed);
    let whole = history(&mut random, 1..=VERSIONS * (PLANES as u64 + 1), SANDBOXES.len());
    let truth = Arc::new(Truth {
        by_version: whole.iter().map(|said| (said.version, said.clone())).collect(),
        acknowledged: Default::default(),
        stop: AtomicBool::new(false),
    });
    let asking: Vec<Begun<(usize, usize)>> = (0..PLANES)
        .map(|number| {
            let (gateway, truth) = (planes.gateway(number), Arc::clone(&truth));
            planes.namespace(number).begin(move || async move {
                let names = SANDBOXES.map(str::to_owned);
                let Truth { by_version, acknowledged, stop } = &*truth;
                ask_on(&gateway, &names, by_version, &acknowledged[number], stop).await
            })
        })
        .collect();
    let senders = [sender(&planes), sender(&planes)];
    for (part, said) in whole.chunks(usize::try_from(VERSIONS).expect("few")).enumerate() {
        // Nobody is cut off in the first part.
        let cut_off = part.checked_sub(1);
        if let Some(number) = cut_off {
            planes.set(number, Conditions { cut: true, ..BAD });
        }
        for (at, pusher) in senders.iter().enumerate() {
            let own: Vec<Said> = said.iter().skip(at).step_by(senders.len()).cloned().collect();
            push(&planes, pusher, heard(&mut random, &own), &truth);
        }
        let wanted = table_of(&whole[..said.len() * (part + 1)]);
        for number in (0..PLANES).filter(|number| Some(*number) != cut_off) {
            has(&planes, number, &wanted);
        }
        if let Some(number) = cut_off {
            given_up(&planes, &senders, number);
            heal(&planes, number, &wanted);
        }
    }
    truth.stop.store(true, Ordering::SeqCst);
    for asked in asking {
        let (served, refused) = asked.finish();
        assert!(
            served > 10 && refused > 10,
            "the requests saw too little: {served} served, {refused} refused"
        );
    }
    let tables: Vec<String> = (0..PLANES).map(|number| planes.table(number).to_string()).collect();
    assert!(tables.iter().all(|table| *table == tables[0]), "{tables:?}");
    let traffic = planes.traffic();
    let bad = [traffic.lost, traffic.twice, traffic.overtook, traffic.cut];
    assert!(bad.iter().all(|count| *count > 0), "the lines were better than they should be: {traffic:?}");
}

#[test]
fn a_gateway_that_was_cut_off_has_the_table_of_the_others_soon_after_its_line_is_back() {
    partitions(0x5eed_0003);
}
