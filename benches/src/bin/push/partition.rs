//! How long a gateway that was cut off needs for the table of the others once its line is back.
//!
//! Three gateways in network namespaces; one library sender in a fourth. A round cuts one off, changes every
//! one of some sandboxes, waits until the others have all of it and the sender is out of tries for the one,
//! puts the line back, and asks for its digest until that is the others'. A long cut lasts until the sender
//! is at its longest pause between two tries. The clock runs from the moment the line is back; a question
//! takes as long as *a look*.

use std::thread;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use sandgate_benches::failure::{Failure, Result};
use sandgate_benches::record::Record;
use sandgate_peering::{Credentials, PeerAddress, Peers, PushSettings, Pusher, RouteMessage};
use sandgate_tests::netns::Conditions;
use sandgate_tests::{PLANES, Planes, eventually, sandbox_address};
use tokio::time::Instant as Deadline;

use crate::Common;
use crate::words::route;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// As long as the sender needs to be at its longest pause between two tries.
const LONG: Duration = Duration::from_secs(4);

struct Case {
    name: &'static str,
    line: Conditions,
    /// Sandboxes that change while a gateway is cut off.
    changed: u64,
    /// How long it is cut off at the least.
    cut: Duration,
}

const CASES: [Case; 4] = [
    Case { name: "perfect line", line: line(0, 0, 0), changed: 1000, cut: Duration::ZERO },
    Case { name: "bad line", line: line(5, 5, 20), changed: 10, cut: Duration::ZERO },
    Case { name: "bad line", line: line(5, 5, 20), changed: 1000, cut: Duration::ZERO },
    Case { name: "bad line, cut for long", line: line(5, 5, 20), changed: 1000, cut: LONG },
];

/// A packet passes one of these on its way to a gateway and one on its way back.
const fn line(delay: u64, jitter: u64, loss: u16) -> Conditions {
    Conditions {
        delay: Duration::from_millis(delay),
        jitter: Duration::from_millis(jitter),
        loss,
        twice: loss,
        cut: false,
    }
}

pub(crate) fn run(common: &Common, record: &mut Record) -> Result<()> {
    let planes = Planes::start("push partition", 0x5eed, 8000)
        .ok_or_else(|| Failure::Asked("there are no network namespaces to be had".to_owned()))?;
    let peers = planes.peers().map(|peer| PeerAddress::at(peer, false, None)).to_vec();
    let pusher = planes.sender().run(|| async {
        let pusher = Pusher::start(PushSettings::default(), Peers::Static(peers), &Credentials::default());
        let pusher = pusher.map_err(|error| Failure::Asked(error.to_string()))?;
        pusher.found(Deadline::now() + PATIENCE).await;
        Ok::<_, Failure>(pusher)
    })?;
    let rounds = common.rounds(15);
    let bar = ProgressBar::new((rounds * CASES.len()) as u64);
    let mut version = 0;
    for round in 0..rounds {
        for Case { name, line, changed, cut } in CASES {
            let cut_off = round % PLANES;
            (0..PLANES).for_each(|number| planes.set(number, line));
            version += 1;
            push(&pusher, changed, version)?;
            let digest = told_digest(&planes, &pusher, cut_off);
            for number in 0..PLANES {
                has(&planes, number, &digest);
            }
            let began = Instant::now();
            planes.set(cut_off, Conditions { cut: true, ..line });
            version += 1;
            push(&pusher, changed, version)?;
            let digest = told_digest(&planes, &pusher, (cut_off + 1) % PLANES);
            has(&planes, (cut_off + 2) % PLANES, &digest);
            given_up(&planes, &pusher, cut_off);
            while began.elapsed() < cut {
                thread::park_timeout(cut.saturating_sub(began.elapsed()));
            }
            let healed = Instant::now();
            planes.set(cut_off, line);
            let looks = has(&planes, cut_off, &digest);
            let took = healed.elapsed().as_secs_f64() * 1e3;
            let size = usize::try_from(changed).unwrap_or(usize::MAX);
            record.add("healed to the same table, ms", "push", size, name, round, took);
            record.add("a look, ms", "push", size, name, round, took / f64::from(looks));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    println!("{:?}", planes.traffic());
    Ok(())
}

/// Every one of these sandboxes changes.
fn push(pusher: &Pusher, changed: u64, version: u64) -> Result<()> {
    for sandbox in 0..changed {
        let at = usize::try_from(version % 4).unwrap_or(0);
        let text = route(&format!("d{sandbox}"), sandbox, "running", sandbox_address(at), version);
        let message =
            RouteMessage::parse(text.as_bytes()).map_err(|error| Failure::Asked(error.to_string()))?;
        pusher.push(&message).map_err(|error| Failure::Asked(error.to_string()))?;
    }
    Ok(())
}

/// The digest of a gateway that has been told everything.
fn told_digest(planes: &Planes, pusher: &Pusher, number: usize) -> String {
    let peer = PeerAddress::at(planes.peers()[number], false, None);
    let pusher = pusher.clone();
    planes.sender().run(move || async move {
        let idle = async || {
            let metrics = pusher.metrics();
            let own = metrics.iter().find(|metrics| metrics.peer == peer)?;
            (own.pending == 0 && own.lag.is_zero()).then_some(())
        };
        eventually("a gateway is told everything", PATIENCE, idle).await;
    });
    planes.digest(number)
}

/// Waits until a gateway's table has this digest; says how often it was asked.
fn has(planes: &Planes, number: usize, digest: &str) -> u32 {
    let (gateway, digest) = (planes.gateway(number), digest.to_owned());
    planes.namespace(number).run(move || async move {
        let end = Instant::now() + PATIENCE;
        for looks in 1.. {
            if gateway.digest().await == digest {
                return looks;
            }
            assert!(
                Instant::now() < end,
                "gateway {number} has not the table of the others after {PATIENCE:?}"
            );
        }
        unreachable!("the loop ends only above")
    })
}

/// Waits until the sender is out of tries for a gateway.
fn given_up(planes: &Planes, pusher: &Pusher, number: usize) {
    let (pusher, at) = (pusher.clone(), PeerAddress::at(planes.peers()[number], false, None));
    planes.sender().run(move || async move {
        let is_out = async || {
            let metrics = pusher.metrics();
            metrics.iter().any(|peer| peer.peer == at && peer.error.is_some()).then_some(())
        };
        eventually("the tries are out", PATIENCE, is_out).await;
    });
}
