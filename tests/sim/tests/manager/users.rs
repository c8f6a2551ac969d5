//! Users of the API: what they ask for, of which manager, and what they know.
//!
//! A user who hears nothing (the manager died, the answer was lost, patience ended) may ask again, of any
//! manager, if the create had an `Idempotency-Key`.

mod act;
mod choices;
mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sandgate_manager::{Caller, Dimension, ErrorKind, Filter, Limit, NewSandbox, Scope};
use sandgate_sim::World;
use sandgate_sim::model::object::{annotation, text};
use serde_json::Value;

pub(crate) use act::Act;
pub(crate) use told::find;

use crate::laws::{Broken, check_quotas};
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
    /// Nobody was told how one of these attempts ended. It may have left a sandbox that only a sweep finds.
    pub(crate) unsettled: bool,
    /// The processes of attempts that the user did not wait for.
    pub(crate) given_up: BTreeSet<u64>,
    /// The processes that have said that nothing was done.
    pub(crate) refused_by: BTreeSet<u64>,
    /// How many attempts are under way.
    open: usize,
}

impl Order {
    fn new(user: usize, wanted: NewSandbox) -> Self {
        Self {
            user,
            wanted,
            accepted: None,
            in_doubt: BTreeSet::new(),
            unsettled: false,
            given_up: BTreeSet::new(),
            refused_by: BTreeSet::new(),
            open: 0,
        }
    }
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
    /// What was asked for and may still be done, by ticket: when, and what.
    asked: BTreeMap<u64, (Timestamp, Act)>,
}

impl Owned {
    /// Whether something that was asked for gives it this end.
    pub(crate) fn may_end(&self, end: Timestamp, now: Timestamp) -> bool {
        let gives = |(at, act): &(Timestamp, Act)| act.ends(*at, now).is_some_and(|ends| ends.contains(&end));
        self.asked.values().any(gives)
    }
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
    /// The manager has been shown everything that there is.
    at_rest: bool,
}

enum What {
    Create(usize),
    About(Act, String),
    List,
}

impl What {
    /// The sandbox that it may change.
    fn changes(&self) -> Option<&str> {
        match self {
            Self::About(act, id) if act.is_change() => Some(id),
            Self::Create(_) | Self::About(..) | Self::List => None,
        }
    }
}

/// All users.
pub(crate) struct Users {
    pub(crate) callers: Vec<Caller>,
    pub(crate) orders: Vec<Order>,
    pub(crate) owned: BTreeMap<String, Owned>,
    /// How the requests ended whose users were told.
    pub(crate) ended: BTreeMap<u64, Result<(), ErrorKind>>,
    sent: BTreeMap<u64, Sent>,
    tickets: u64,
    deaf: u64,
}

/// The request for a list of all.
fn all() -> Ask {
    Ask::List(Filter { limit: 1000, ..Filter::default() })
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
            ended: BTreeMap::new(),
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

    /// The order that a claimed sandbox is of.
    pub(crate) fn order_of(&self, sandbox: &Value) -> Result<(usize, &Order), Broken> {
        let number = annotation(sandbox, "order");
        let found = number.parse().ok().and_then(|number| Some((number, self.orders.get(number)?)));
        found.ok_or_else(|| Broken(format!("{} is of order {number:?}", text(sandbox, "/metadata/name"))))
    }

    /// The owner of a sandbox, or whoever peeks, asks for something about it. Returns the ticket.
    pub(crate) fn ask(&mut self, world: &mut World<Manager>, slot: usize, act: Act, id: &str) -> u64 {
        let owned = self.owned.get_mut(id).expect("a user was told of it");
        owned.to_die |= act == Act::Kill;
        let owner = self.orders[owned.order].user;
        let user = if act == Act::Peek { (owner + 1) % self.callers.len() } else { owner };
        let line = format!("{} {id}", act.verb());
        self.send(world, slot, user, What::About(act, id.to_owned()), act.ask(id), &line)
    }

    /// Every user looks at everything, at every manager. The managers have been shown everything.
    pub(crate) fn look_around(&mut self, world: &mut World<Manager>) {
        let before = self.tickets;
        let living = self.owned.keys().filter(|id| self.lives(&world.model, id));
        let living: Vec<String> = living.cloned().collect();
        for slot in 0..world.copies() {
            for user in 0..self.callers.len() {
                self.send(world, slot, user, What::List, all(), "asks for everything");
            }
            for id in &living {
                self.ask(world, slot, Act::Get, id);
            }
        }
        for (_, sent) in self.sent.range_mut(before + 1..) {
            sent.at_rest = true;
        }
    }

    /// Sends an order to a manager.
    pub(crate) fn create(&mut self, world: &mut World<Manager>, slot: usize, order: usize, verb: &str) {
        let of = &mut self.orders[order];
        of.open += 1;
        let (user, wanted) = (of.user, of.wanted.clone());
        let line = format!("{verb} order {order} from {}", wanted.template);
        self.send(world, slot, user, What::Create(order), Ask::Create(Box::new(wanted)), &line);
    }

    /// An order of this shape.
    pub(crate) fn push(&mut self, user: usize, mut wanted: NewSandbox) -> usize {
        let number = self.orders.len();
        wanted.metadata.insert("order".to_owned(), number.to_string());
        self.orders.push(Order::new(user, wanted));
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
    ) -> u64 {
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
        if let What::About(act, id) = &what
            && act.is_change()
            && let Some(owned) = self.owned.get_mut(id)
        {
            owned.asked.insert(ticket, (at, *act));
        }
        self.sent.insert(ticket, Sent { slot, process, user, what, at, alone, at_rest: false });
        ticket
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
            order.unsettled |= order.wanted.idempotency_key.is_some();
            order.open -= 1;
        }
        self.muddle(&sent);
    }

    /// The newest request.
    pub(crate) fn newest(&self) -> u64 {
        self.tickets
    }
}
