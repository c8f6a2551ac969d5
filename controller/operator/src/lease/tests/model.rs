//! Two candidates and a model of the lease, in lock-step: clocks of different speed, requests and answers
//! that are late or lost, crashes and clean stops. Never do two lead at one instant.

use proptest::prelude::*;

use super::super::election::{Election, Record, Step};
use super::*;
use crate::Random;

/// What happens next, which one it happens to, and a number for it.
type Choice = (u8, u8, u16);

enum Request {
    Step(Step),
    Release(String),
}

struct Node {
    number: usize,
    election: Election,
    begin: Instant,
    /// How fast this node's clock runs.
    rate: f64,
    /// The request under way, with the local times at which it was sent and is given up.
    waits: Option<(u64, Instant, bool)>,
    /// The local time of the next step.
    next: Instant,
    /// Whether its requests get lost.
    cut: bool,
}

struct World {
    times: Times,
    now: Duration,
    lease: Option<Record>,
    versions: u64,
    nodes: Vec<Node>,
    lives: usize,
    sent: u64,
    /// Requests and answers that are under way, each with the node and the number of its request.
    requests: Vec<(usize, u64, Request)>,
    answers: Vec<(usize, u64, Result<Option<Record>, ()>)>,
    leaders: usize,
}

impl Node {
    fn local(&self, now: Duration) -> Instant {
        self.begin + now.mul_f64(self.rate)
    }
}

impl World {
    fn new(times: Times, rates: [f64; 2]) -> Self {
        let begin = Instant::now();
        let mut world = World {
            times,
            now: Duration::ZERO,
            lease: None,
            versions: 0,
            nodes: Vec::new(),
            lives: 0,
            sent: 0,
            requests: Vec::new(),
            answers: Vec::new(),
            leaders: 0,
        };
        for (offset, rate) in [(0, rates[0]), (100_000, rates[1])] {
            let node = world.born(begin + seconds(offset), rate);
            world.nodes.push(node);
        }
        world
    }

    fn born(&mut self, begin: Instant, rate: f64) -> Node {
        self.lives += 1;
        let name: std::sync::Arc<str> = self.lives.to_string().into();
        let election = Election::new(name, self.times);
        Node { number: self.lives, election, begin, rate, waits: None, next: begin, cut: false }
    }

    fn happen(&mut self, (what, which, number): Choice) {
        let node = usize::from(which) % 2;
        match what % 16 {
            0..3 => self.now += Duration::from_millis(u64::from(number % 3000)),
            3..6 => self.act(node),
            6..9 => self.commit(usize::from(which)),
            9..12 => self.answer(usize::from(which)),
            12 if !self.requests.is_empty() => {
                drop(self.requests.remove(usize::from(which) % self.requests.len()));
            }
            13 if !self.answers.is_empty() => {
                drop(self.answers.remove(usize::from(which) % self.answers.len()));
            }
            14 if number % 4 == 0 => self.nodes[node].cut = !self.nodes[node].cut,
            15 if number % 32 == 0 => self.replace(node),
            15 if number % 32 == 1 => self.stop(node),
            _ => {}
        }
    }

    /// The node gives up its request, or sends the next one.
    fn act(&mut self, node: usize) {
        let (now, renew) = (self.now, self.times.renew);
        let node = &mut self.nodes[node];
        let local = node.local(now);
        if let Some((_, sent, claims)) = node.waits {
            if local >= sent + renew / 2 {
                node.waits = None;
                if claims {
                    node.election.not_claimed();
                }
            }
        } else if local >= node.next {
            let step = node.election.step(local);
            self.sent += 1;
            node.waits = Some((self.sent, local, matches!(step, Step::Claim(_))));
            if !node.cut {
                self.requests.push((node.number, self.sent, Request::Step(step)));
            }
        }
    }

    /// A request reaches the API server.
    fn commit(&mut self, which: usize) {
        if self.requests.is_empty() {
            return;
        }
        let (node, id, request) = self.requests.remove(which % self.requests.len());
        let version = self.lease.as_ref().map(|lease| lease.version.clone());
        let written = |versions: &mut u64, holder: Option<usize>, transitions| {
            *versions += 1;
            Record {
                version: versions.to_string(),
                holder: holder.map(|holder| holder.to_string().into()),
                duration: Some(self.times.duration),
                transitions,
            }
        };
        let answer = match request {
            Request::Step(Step::Read) => Ok(self.lease.clone()),
            Request::Step(Step::Claim(claim)) if claim.replaces == version => {
                self.lease = Some(written(&mut self.versions, Some(node), claim.transitions));
                Ok(self.lease.clone())
            }
            Request::Release(replaces) if Some(&replaces) == version.as_ref() => {
                let transitions = self.lease.as_ref().map_or(0, |lease| lease.transitions);
                self.lease = Some(written(&mut self.versions, None, transitions));
                Ok(None)
            }
            _ => Err(()),
        };
        self.answers.push((node, id, answer));
    }

    /// An answer reaches its node, if that still waits for it.
    fn answer(&mut self, which: usize) {
        if self.answers.is_empty() {
            return;
        }
        let (number, id, answer) = self.answers.remove(which % self.answers.len());
        let (now, retry) = (self.now, self.times.retry);
        let Some(node) = self.nodes.iter_mut().find(|node| node.number == number) else { return };
        let Some((_, sent, claims)) = node.waits.filter(|(waits, ..)| *waits == id) else { return };
        let local = node.local(now);
        node.waits = None;
        node.next = local;
        match (answer, claims) {
            (Ok(Some(lease)), true) => {
                node.election.claimed(sent, local, lease);
                node.next = local + retry;
            }
            (Ok(lease), _) => {
                node.election.observed(local, lease);
                if node.election.step(local) == Step::Read {
                    node.next = local + retry;
                }
            }
            (Err(()), _) => node.election.not_claimed(),
        }
    }

    /// The node crashes, and another process takes its place.
    fn replace(&mut self, node: usize) {
        let Node { begin, rate, .. } = self.nodes[node];
        let local = self.nodes[node].local(self.now);
        self.nodes[node] = self.born(begin, rate);
        self.nodes[node].next = local;
    }

    /// The node stops cleanly, and another process takes its place.
    fn stop(&mut self, node: usize) {
        self.nodes[node].election.resign();
        if let Some(record) = self.nodes[node].election.mine() {
            self.sent += 1;
            self.requests.push((
                self.nodes[node].number,
                self.sent,
                Request::Release(record.version.clone()),
            ));
        }
        self.replace(node);
    }

    fn leading(&self) -> usize {
        self.nodes.iter().filter(|node| node.election.leads(node.local(self.now)).is_some()).count()
    }

    /// Returns whether two ever led at one instant. Between two things that happen, leaders only end.
    fn run(&mut self, choices: impl IntoIterator<Item = Choice>) -> bool {
        for choice in choices {
            self.happen(choice);
            self.leaders += self.leading();
            if self.leading() > 1 {
                return true;
            }
        }
        false
    }

    /// Everything works again.
    fn recover(&mut self) -> impl Iterator<Item = Choice> + use<> {
        self.requests.clear();
        self.answers.clear();
        self.nodes.iter_mut().for_each(|node| node.cut = false);
        (0..400).flat_map(|_| [(0, 0, 100), (3, 0, 0), (3, 1, 0), (6, 0, 0), (6, 0, 0), (9, 0, 0), (9, 0, 0)])
    }
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec(any::<Choice>(), 0..600)
}

proptest! {
    #[test]
    fn two_never_lead_at_one_instant_and_in_the_end_one_does(
        choices in choices(),
        rates in [0.8..1.2_f64, 0.8..1.2_f64],
    ) {
        let mut world = World::new(Times::default(), rates);
        prop_assert!(!world.run(choices));
        let calm = world.recover();
        prop_assert!(!world.run(calm));
        prop_assert_eq!(world.leading(), 1);
    }
}

/// The model finds two leaders where the durations allow them, and sees leaders often enough to mean
/// something.
#[test]
fn the_model_would_notice_two_leaders() {
    let run = |times, seed| {
        let mut random = Random::seeded(seed);
        let choices: Vec<Choice> = (0..2000)
            .map(|_| {
                let bytes = random.number().to_le_bytes();
                (bytes[0], bytes[1], u16::from_le_bytes([bytes[2], bytes[3]]))
            })
            .collect();
        let mut world = World::new(times, [1.0, 1.0]);
        (world.run(choices), world.leaders)
    };
    let wrong = Times { renew: seconds(40), ..Times::default() };
    assert!((0..20).any(|seed| run(wrong, seed).0), "nobody noticed");
    let right: Vec<_> = (0..20).map(|seed| run(Times::default(), seed)).collect();
    assert!(right.iter().all(|(two, _)| !two));
    assert!(right.iter().map(|(_, leaders)| leaders).sum::<usize>() > 4000, "{right:?}");
}
