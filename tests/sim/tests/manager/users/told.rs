//! What users are told, and whether it is true.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sandgate_manager::{Described, Error, ErrorKind, Page, ShownState};
use sandgate_objects::openkruise::names;
use sandgate_sim::World;
use sandgate_sim::model::object::{annotation, condition, deleting, label};
use sandgate_sim::model::{Model, SANDBOXES};
use serde_json::Value;

use super::{Act, Owned, Sent, Users, What};
use crate::laws::{Broken, LABEL_ID, Laws};
use crate::process::{Answer, Manager};
use crate::surroundings::{has_ended, is_to_pause, time};

fn broken(what: String) -> Result<(), Broken> {
    Err(Broken(what))
}

/// The sandbox of this ID, as it is in the cluster.
pub(crate) fn find<'a>(model: &'a Model, id: &str) -> Option<&'a Value> {
    let mut found = model.list(&SANDBOXES).filter(|sandbox| label(sandbox, LABEL_ID) == id);
    found.next().map(|sandbox| &**sandbox)
}

impl Users {
    /// Users get the answers that are there, or do not.
    pub(crate) fn hear(&mut self, world: &mut World<Manager>, laws: &Laws) -> Result<(), Broken> {
        for slot in 0..world.copies() {
            for (ticket, answer) in world.process(slot).answers() {
                let Some(sent) = self.sent.remove(&ticket) else { continue };
                if self.deaf > 0 && world.random.chance(self.deaf) {
                    world.tell(&format!("user {} never hears of #{ticket}", sent.user));
                    self.never_heard(ticket, &sent, says_all(&answer));
                    continue;
                }
                self.told(world, laws, ticket, &sent, answer)?;
            }
        }
        let lost: Vec<u64> = self
            .sent
            .iter()
            .filter(|(_, sent)| world.number(sent.slot) != sent.process)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in lost {
            let Some(sent) = self.sent.remove(&ticket) else { continue };
            world.tell(&format!("user {} never hears of #{ticket}: p{} is dead", sent.user, sent.process));
            self.never_heard(ticket, &sent, false);
        }
        Ok(())
    }

    /// What was asked for may have been done. Unless the manager has ended with it, it may still be.
    fn never_heard(&mut self, ticket: u64, sent: &Sent, has_ended: bool) {
        if let What::Create(order) = sent.what {
            let order = &mut self.orders[order];
            order.in_doubt.insert(sent.process);
            order.unsettled |= !has_ended;
            order.open -= 1;
        }
        if has_ended {
            self.has_ended(ticket, sent);
        }
        self.muddle(sent);
    }

    /// Nothing more is done for this request.
    fn has_ended(&mut self, ticket: u64, sent: &Sent) {
        if let Some(owned) = sent.what.changes().and_then(|id| self.owned.get_mut(id)) {
            owned.asked.remove(&ticket);
        }
    }

    pub(super) fn muddle(&mut self, sent: &Sent) {
        if let Some(owned) = sent.what.changes().and_then(|id| self.owned.get_mut(id)) {
            owned.muddled = true;
        }
    }

    fn told(
        &mut self,
        world: &mut World<Manager>,
        laws: &Laws,
        ticket: u64,
        sent: &Sent,
        answer: Result<Answer, Error>,
    ) -> Result<(), Broken> {
        if let Err(error) = &answer
            && error.kind == ErrorKind::Internal
        {
            return broken(format!("a user is told of a defect: {error}"));
        }
        self.ended.insert(ticket, answer.as_ref().map(drop).map_err(|error| error.kind));
        if says_all(&answer) {
            self.has_ended(ticket, sent);
        } else {
            self.muddle(sent);
        }
        match (&sent.what, answer) {
            (What::Create(order), Ok(Answer::Described(made))) => {
                world.tell(&format!("user {} #{ticket} is told of a new sandbox {}", sent.user, made.id));
                self.accepted(world, laws, *order, sent, &made)
            }
            (What::Create(order), Err(error)) => {
                let order = &mut self.orders[*order];
                order.open -= 1;
                // With a key it stays for the retry. Without one nobody could ask for it again.
                if error.kind == ErrorKind::Unknown && order.wanted.idempotency_key.is_some() {
                    order.in_doubt.insert(sent.process);
                    order.unsettled = true;
                } else {
                    order.refused_by.insert(sent.process);
                }
                Ok(())
            }
            (What::List, Ok(Answer::Listed(page))) => self.listed(&world.model, laws, sent, &page),
            (What::About(act, id), answer) => self.told_about(world, *act, id, sent, answer),
            _ => Ok(()),
        }
    }

    /// What was asked for about a sandbox was answered.
    fn told_about(
        &self,
        world: &World<Manager>,
        act: Act,
        id: &str,
        sent: &Sent,
        answer: Result<Answer, Error>,
    ) -> Result<(), Broken> {
        match (act, answer) {
            (Act::Peek, Ok(_)) => broken(format!("another user is shown {id}")),
            (Act::Peek, Err(_)) => Ok(()),
            (_, Err(error)) if error.kind == ErrorKind::NotFound && self.lives(&world.model, id) => {
                broken(format!("{id} was given to user {} and is not found: {error}", sent.user))
            }
            (_, Err(_)) => Ok(()),
            (Act::Kill, Ok(_)) => match find(&world.model, id) {
                Some(sandbox) if !deleting(sandbox) => broken(format!("{id} was killed, and lives")),
                _ => Ok(()),
            },
            (_, Ok(Answer::Described(shown))) if shown.id != id => {
                broken(format!("who asks for {id} is shown {}", shown.id))
            }
            (Act::Get, Ok(Answer::Described(shown))) if sent.at_rest => {
                self.check_shown(&world.model, sent, &shown)
            }
            (act, Ok(answer)) if sent.alone => self.check_state(world, act, id, sent, &answer),
            _ => Ok(()),
        }
    }

    /// A create was answered with a sandbox.
    fn accepted(
        &mut self,
        world: &World<Manager>,
        laws: &Laws,
        order: usize,
        sent: &Sent,
        made: &Described,
    ) -> Result<(), Broken> {
        let of = &mut self.orders[order];
        of.open -= 1;
        if let Some(before) = &of.accepted
            && *before != made.id
        {
            return broken(format!("order {order} has one key and got both {before} and {}", made.id));
        }
        of.accepted = Some(made.id.clone());
        let told_by = sent.process;
        let owned = Owned { order, to_die: false, told_by, muddled: false, asked: BTreeMap::new() };
        if self.owned.entry(made.id.clone()).or_insert(owned).order != order {
            return broken(format!("{} was given to two orders", made.id));
        }
        if made.state != ShownState::Running && of.wanted.idempotency_key.is_none() {
            return broken(format!("{} is new and shown as {:?}", made.id, made.state));
        }
        match find(&world.model, &made.id) {
            None if laws.has_gone(&made.id) => Ok(()),
            None => broken(format!("{} is told to a user and does not exist", made.id)),
            Some(sandbox)
                if annotation(sandbox, names::ANNOTATION_OWNER) != &*self.callers[sent.user].owner =>
            {
                broken(format!("{} is another user's", made.id))
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether a sandbox that a user was told of is there to be found: nobody was asked to kill it, and it
    /// has not reached its end.
    pub(super) fn lives(&self, model: &Model, id: &str) -> bool {
        let is_wanted = self.owned.get(id).is_some_and(|owned| !owned.to_die);
        is_wanted
            && find(model, id).is_some_and(|sandbox| !deleting(sandbox) && !has_ended(sandbox, model.now()))
    }

    /// A list has only the user's own, and all that the same manager has told the user of. At rest every
    /// manager lists everything, as it is.
    fn listed(&self, model: &Model, laws: &Laws, sent: &Sent, page: &Page<Described>) -> Result<(), Broken> {
        for shown in &page.items {
            let owner = find(model, &shown.id).map(|sandbox| annotation(sandbox, names::ANNOTATION_OWNER));
            if owner.is_some_and(|owner| owner != &*self.callers[sent.user].owner) {
                return broken(format!("user {} is listed another's {}", sent.user, shown.id));
            }
        }
        for (id, owned) in &self.owned {
            let must_know = owned.told_by == sent.process && !laws.may_seem_ended(id, model.now());
            if self.orders[owned.order].user == sent.user
                && (sent.at_rest || must_know)
                && self.lives(model, id)
                && !page.items.iter().any(|shown| shown.id == *id)
            {
                let (by, lists) = (owned.told_by, sent.process);
                return broken(format!("p{by} has given {id} and p{lists} does not list it"));
            }
        }
        if !sent.at_rest {
            return Ok(());
        }
        page.items.iter().try_for_each(|shown| self.check_shown(model, sent, shown))
    }

    /// At rest a living sandbox is shown as it is.
    fn check_shown(&self, model: &Model, sent: &Sent, shown: &Described) -> Result<(), Broken> {
        let Some(sandbox) = find(model, &shown.id).filter(|_| self.lives(model, &shown.id)) else {
            return Ok(());
        };
        let shutdown = time(sandbox, "/spec/shutdownTime");
        let (state, ends) = if is_to_pause(sandbox) {
            (ShownState::Paused, shutdown)
        } else {
            (ShownState::Running, time(sandbox, "/spec/pauseTime").or(shutdown))
        };
        if (shown.state, shown.ends) == (state, ends) {
            return Ok(());
        }
        let (by, id, is, until) = (sent.process, &shown.id, shown.state, shown.ends);
        broken(format!("p{by} shows {id} as {is:?} until {until:?}, and it is {state:?} until {ends:?}"))
    }

    /// What was asked for, by one user at a time, is so.
    fn check_state(
        &self,
        world: &World<Manager>,
        act: Act,
        id: &str,
        sent: &Sent,
        answer: &Answer,
    ) -> Result<(), Broken> {
        let (Some(owned), Some(sandbox)) = (self.owned.get(id), find(&world.model, id)) else {
            return Ok(());
        };
        let wanted = &self.orders[owned.order].wanted;
        if owned.muddled || owned.to_die || wanted.auto_pause || has_ended(sandbox, world.now()) {
            return Ok(());
        }
        let paused = condition(sandbox, names::CONDITION_PAUSED) == "True" && is_to_pause(sandbox);
        let ready = condition(sandbox, names::CONDITION_READY) == "True" && !is_to_pause(sandbox);
        match act {
            Act::Pause if !paused => broken(format!("{id} was paused, and is not")),
            Act::Resume(_) | Act::Connect(_) if !ready => {
                broken(format!("{id} was resumed or connected to ({answer:?}), and does not run"))
            }
            Act::SetTimeout(seconds) => {
                let lasts = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
                let slack = SignedDuration::from_secs(2);
                let ends = time(sandbox, "/spec/shutdownTime");
                if ends
                    .is_none_or(|ends| ends < sent.at + lasts - slack || ends > world.now() + lasts + slack)
                {
                    return broken(format!("{id} was to live {seconds} s and ends at {ends:?}"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether the answer says that nothing more is done for the request.
fn says_all(answer: &Result<Answer, Error>) -> bool {
    let is_open = |kind| matches!(kind, ErrorKind::Unknown | ErrorKind::Unavailable | ErrorKind::Timeout);
    answer.as_ref().map_or_else(|error| !is_open(error.kind), |_| true)
}
