//! Clients that ask for one sandbox after the other, most often for those that something has just happened
//! to, or that have just left an address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::{Client, Request};
use tokio::task::JoinSet;

use super::ledger::Ledger;
use super::{DRIVERS, Name, Random};
use crate::kubernetes::{asks, refusals};

/// What tells the tenant who was asked for, and when.
pub(super) const ASKED: &str = "x-churn-asked";
pub(super) const STARTED: &str = "x-churn-started";

pub(super) fn stamped(request: Request, name: &str, ledger: &Ledger) -> Request {
    request.header(ASKED, name).header(STARTED, ledger.now().to_string())
}

pub(super) struct Clients {
    /// The name that each driver has in hand.
    pub(super) hot: Arc<[AtomicUsize; DRIVERS]>,
    stop: Arc<AtomicBool>,
    running: JoinSet<()>,
}

impl Clients {
    pub(super) fn start(
        count: usize,
        gateway: SocketAddr,
        namespace: &str,
        names: &Arc<[Name]>,
        ledger: &Arc<Ledger>,
        seed: u64,
    ) -> Self {
        let hot = Arc::<[AtomicUsize; DRIVERS]>::default();
        let (stop, mut running) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for number in 0..count {
            let (hot, stop, names, ledger) =
                (Arc::clone(&hot), Arc::clone(&stop), Arc::clone(names), Arc::clone(ledger));
            let (namespace, mut random) = (namespace.to_owned(), Random::new(seed, 1000 + number as u64));
            running.spawn(async move {
                let mut client = Client::http1(gateway).await.expect("connect to the gateway");
                while !stop.load(Ordering::Relaxed) {
                    let suspect = if random.one_in(2) { ledger.suspect(&mut random) } else { None };
                    let at = match suspect {
                        Some(suspect) => suspect,
                        None if random.one_in(4) => random.below(names.len()),
                        None => random.pick(&*hot).load(Ordering::Relaxed),
                    };
                    ask(&mut client, &names[at], &namespace, &ledger, &mut random).await;
                }
            });
        }
        Self { hot, stop, running }
    }

    pub(super) async fn stop(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.running.join_next().await {
            ended.expect("the client came to its end");
        }
    }
}

async fn ask(client: &mut Client, target: &Name, namespace: &str, ledger: &Ledger, random: &mut Random) {
    let Name { kind, name } = target;
    let mut forms = asks(*kind, namespace, name);
    let form = random.below(forms.len());
    let reply = client.send(stamped(forms.swap_remove(form), name, ledger)).await.expect("an answer");
    let right = match reply.status {
        200 => reply.json()["name"] == **name,
        // The tenant of the address refused: the ledger has judged whether that may be.
        421 => true,
        // It left its address while the request was under way.
        503 if reply.json()["reason"] == "sandbox_gone" => true,
        status => {
            let reason = reply.json()["reason"].clone();
            refusals(*kind).iter().any(|refusal| *refusal == (status, reason.as_str().unwrap_or_default()))
        }
    };
    if !right {
        ledger.violation(format!("asked for {name}, and got {} {}", reply.status, reply.text()));
    }
}
