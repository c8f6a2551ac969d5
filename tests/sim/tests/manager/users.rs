//! Users of the API: what they ask for, of which manager, and what they know.
//!
//! A user who hears nothing (the manager died, the answer was lost, patience ended) may ask again, of any
//! manager, if the create had an `Idempotency-Key`.

mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandgate_manager::{Caller, Dimension, Filter, Limit, NewSandbox, Scope};
use sandgate_sim::{Random, World};

use crate::laws::check_quotas;
use crate::process::{Ask, Manager};
use crate::surroundings::NAMESPACE;

/// A create, with everything that was sent for it.
pub(crate) struct Order {
    pub(crate) user: usize,
    pub(crate) wanted: NewSandbox,
    /// The ID that a user was told.
    pub(crate) accepted: Option<String>,
    /// The processes of attempts whose end the user does not know.
    pub(crate) in_doubt: BTreeSet<u64>,
    /// The processes of attempts that the user did not wait for.
    pub(crate) given_up: BTreeSet<u64>,
    /// The processes that have said that nothing was done.
    pub(crate) refused_by: BTreeSet<u64>,
    /// How many attempts are under way.
    open: usize,
}

/// A sandbox that a user was told of.
pub(crate) struct Owned {
    pub(crate) order: usize,
    /// Somebody was asked to kill it.
    pub(crate) to_die: bool,
    /// The process that answered the create.
    told_by: u64,
    /// A request for it was cut off, and may still be done.
    muddled: bool,
}

/// Something that was asked for and is not answered yet.
struct Sent {
    slot: usize,
    process: u64,
    user: usize,
    what: What,
    at: Timestamp,
    /// Nothing else was asked for about the same sandbox meanwhile.
    alone: bool,
}

#[derive(Clone, Debug)]
enum What {
    Create(usize),
    Get(String),
    /// The sandbox of another user.
    Peek(String),
    Connect(String),
    Pause(String),
    Resume(String),
    SetTimeout(String, u64),
    Kill(String),
    List,
}

impl What {
    /// The sandbox that it may change.
    fn changes(&self) -> Option<&str> {
        match self {
            Self::Create(_) | Self::Get(_) | Self::Peek(_) | Self::List => None,
            Self::Connect(id)
            | Self::Pause(id)
            | Self::Resume(id)
            | Self::SetTimeout(id, _)
            | Self::Kill(id) => Some(id),
        }
    }
}

/// All users.
pub(crate) struct Users {
    pub(crate) callers: Vec<Caller>,
    pub(crate) orders: Vec<Order>,
    pub(crate) owned: BTreeMap<String, Owned>,
    sent: BTreeMap<u64, Sent>,
    tickets: u64,
    deaf: u64,
}

fn caller(number: u32, quota: &[Limit]) -> Caller {
    Caller {
        owner: format!("00000000-0000-4000-8000-{number:012}").into(),
        team: "team".into(),
        namespace: Some(NAMESPACE.into()),
        quota: quota.into(),
    }
}

impl Users {
    /// Users who miss so many of a thousand answers.
    pub(crate) fn new(deaf: u64) -> Self {
        let count = |scope, limit| Limit { dimension: Dimension::Sandboxes, scope, limit };
        Self {
            callers: vec![
                caller(1, &[]),
                caller(2, &[count(Scope::All, 2)]),
                caller(3, &[count(Scope::Running, 1), count(Scope::All, 3)]),
            ],
            orders: Vec::new(),
            owned: BTreeMap::new(),
            sent: BTreeMap::new(),
            tickets: 0,
            deaf,
        }
    }

    /// Nobody misses anything from here.
    pub(crate) fn rest(&mut self) {
        self.deaf = 0;
    }

    /// How many wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.sent.len()
    }

    /// One thing that one user does.
    pub(crate) fn step(&mut self, world: &mut World<Manager>) {
        let slot = world.random.below(world.copies());
        let weights =
            [(30, 0), (15, 1), (15, 2), (4, 3), (10, 4), (12, 5), (12, 6), (8, 7), (10, 8), (6, 9), (4, 10)];
        match world.random.weighted(&weights) {
            Some(0) => {
                let order = self.order(&mut world.random);
                self.create(world, slot, order, "creates");
            }
            Some(1) => {
                if let Some(order) = self.to_be_repeated(&mut world.random) {
                    self.create(world, slot, order, "creates again");
                }
            }
            Some(9) => {
                let user = world.random.below(self.callers.len());
                let ask = Ask::List(Filter { limit: 1000, ..Filter::default() });
                self.send(world, slot, user, What::List, ask, "lists");
            }
            Some(10) => self.give_up(world),
            Some(choice) => {
                let Some(id) = self.some_id(&mut world.random) else { return };
                self.about(world, slot, choice, &id);
            }
            None => {}
        }
    }

    /// One thing that is done to a sandbox.
    fn about(&mut self, world: &mut World<Manager>, slot: usize, choice: i32, id: &str) {
        let owned = self.owned.get_mut(id).expect("it was just chosen");
        let user = self.orders[owned.order].user;
        let seconds = 30 + world.random.next() % 300;
        let time = Duration::from_secs(seconds);
        let id = id.to_owned();
        let (user, what, ask) = match choice {
            2 => (user, What::Get(id.clone()), Ask::Get(id.clone())),
            3 => ((user + 1) % self.callers.len(), What::Peek(id.clone()), Ask::Get(id.clone())),
            4 => (user, What::Connect(id.clone()), Ask::Connect(id.clone(), time)),
            5 => (user, What::Pause(id.clone()), Ask::Pause(id.clone())),
            6 => (user, What::Resume(id.clone()), Ask::Resume(id.clone(), time)),
            7 => (user, What::SetTimeout(id.clone(), seconds), Ask::SetTimeout(id.clone(), time)),
            _ => {
                owned.to_die = true;
                (user, What::Kill(id.clone()), Ask::Kill(id.clone()))
            }
        };
        let verb = match what {
            What::Peek(_) => "looks at another's",
            What::Connect(_) => "connects to",
            What::Pause(_) => "pauses",
            What::Resume(_) => "resumes",
            What::SetTimeout(..) => "sets the end of",
            What::Kill(_) => "kills",
            _ => "looks at",
        };
        self.send(world, slot, user, what, ask, &format!("{verb} {id}"));
    }

    /// What is asked for next.
    fn order(&mut self, random: &mut Random) -> usize {
        let number = self.orders.len();
        let mut wanted = NewSandbox {
            template: if random.chance(850) { "base" } else { "rare" }.to_owned(),
            timeout: Some(Duration::from_secs(30 + random.next() % 300)),
            auto_pause: random.chance(200),
            ..NewSandbox::default()
        };
        wanted.metadata.insert("order".to_owned(), number.to_string());
        wanted.idempotency_key = random.chance(500).then(|| format!("key-{number}"));
        wanted.extensions.only_from_stock = random.chance(300) && wanted.template == "base";
        if random.chance(300) {
            wanted.env_vars.insert("A".to_owned(), "b".to_owned());
        }
        self.orders.push(Order {
            user: random.below(self.callers.len()),
            wanted,
            accepted: None,
            in_doubt: BTreeSet::new(),
            given_up: BTreeSet::new(),
            refused_by: BTreeSet::new(),
            open: 0,
        });
        number
    }

    /// An order that may be sent once more: its user does not know how it ended, or has no patience.
    fn to_be_repeated(&self, random: &mut Random) -> Option<usize> {
        let repeatable = |order: &Order| {
            order.wanted.idempotency_key.is_some()
                && (order.open > 0 || !order.in_doubt.is_empty() || !order.given_up.is_empty())
        };
        let orders: Vec<usize> =
            (0..self.orders.len()).filter(|number| repeatable(&self.orders[*number])).collect();
        if orders.is_empty() { None } else { Some(*random.pick(&orders)) }
    }

    fn some_id(&self, random: &mut Random) -> Option<String> {
        // Mostly one that lives: what is dead is asked for rarely.
        let ids: Vec<&String> = self
            .owned
            .iter()
            .filter(|(_, owned)| !owned.to_die || random.chance(50))
            .map(|(id, _)| id)
            .collect();
        if ids.is_empty() { None } else { Some((*random.pick(&ids)).clone()) }
    }

    /// Sends an order to a manager.
    pub(crate) fn create(&mut self, world: &mut World<Manager>, slot: usize, order: usize, verb: &str) {
        let of = &mut self.orders[order];
        of.open += 1;
        let (user, wanted) = (of.user, of.wanted.clone());
        let line = format!("{verb} order {order} from {}", wanted.template);
        self.send(world, slot, user, What::Create(order), Ask::Create(Box::new(wanted)), &line);
    }

    /// An order of this shape, for the sweeps.
    pub(crate) fn push(&mut self, user: usize, mut wanted: NewSandbox) -> usize {
        let number = self.orders.len();
        wanted.metadata.insert("order".to_owned(), number.to_string());
        self.orders.push(Order {
            user,
            wanted,
            accepted: None,
            in_doubt: BTreeSet::new(),
            given_up: BTreeSet::new(),
            refused_by: BTreeSet::new(),
            open: 0,
        });
        number
    }

    /// Each user with a quota that has room asks for one more sandbox.
    pub(crate) fn order_what_fits(&mut self, world: &mut World<Manager>) -> Vec<usize> {
        let mut orders = Vec::new();
        for user in 0..self.callers.len() {
            if check_quotas(&world.model, std::slice::from_ref(&self.callers[user]), 1).is_ok() {
                let wanted = NewSandbox {
                    template: "rare".to_owned(),
                    timeout: Some(Duration::from_secs(300)),
                    ..NewSandbox::default()
                };
                let order = self.push(user, wanted);
                self.create(world, 0, order, "creates");
                orders.push(order);
            }
        }
        orders
    }

    fn send(
        &mut self,
        world: &mut World<Manager>,
        slot: usize,
        user: usize,
        what: What,
        ask: Ask,
        line: &str,
    ) {
        self.tickets += 1;
        let ticket = self.tickets;
        let process = world.number(slot);
        let mut alone = true;
        if let Some(id) = what.changes() {
            for other in self.sent.values_mut().filter(|other| other.what.changes() == Some(id)) {
                other.alone = false;
                alone = false;
            }
        }
        world.tell(&format!("user {user} #{ticket} {line} at p{process}"));
        let caller = Arc::new(self.callers[user].clone());
        world.process(slot).ask(ticket, caller, ask);
        let at = world.now();
        self.sent.insert(ticket, Sent { slot, process, user, what, at, alone });
    }

    /// A user goes away without waiting for the answer.
    fn give_up(&mut self, world: &mut World<Manager>) {
        let tickets: Vec<u64> = self.sent.keys().copied().collect();
        if !tickets.is_empty() {
            let ticket = *world.random.pick(&tickets);
            self.leave(world, ticket);
        }
    }

    /// The user of this request goes away, if the request is still under way.
    pub(crate) fn leave(&mut self, world: &mut World<Manager>, ticket: u64) {
        let Some(sent) = self.sent.remove(&ticket) else { return };
        world.tell(&format!("user {} gives up #{ticket}", sent.user));
        world.process(sent.slot).give_up(ticket);
        if let What::Create(order) = sent.what {
            let order = &mut self.orders[order];
            // With a key the create goes on: the user may ask for it again.
            let ends = if order.wanted.idempotency_key.is_some() {
                &mut order.in_doubt
            } else {
                &mut order.given_up
            };
            ends.insert(sent.process);
            order.open -= 1;
        }
        self.muddle(&sent);
    }

    /// The newest request.
    pub(crate) fn newest(&self) -> u64 {
        self.tickets
    }
}
