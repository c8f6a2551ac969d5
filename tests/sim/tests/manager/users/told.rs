//! What users are told, and whether it is true.

use jiff::SignedDuration;
use sandgate_manager::{Described, Error, ErrorKind, Page, ShownState};
use sandgate_objects::openkruise::names;
use sandgate_sim::World;
use sandgate_sim::model::object::{annotation, condition, deleting, label};
use sandgate_sim::model::{Model, SANDBOXES};
use serde_json::Value;

use super::{Owned, Sent, Users, What};
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
                    self.never_heard(&sent);
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
            self.never_heard(&sent);
        }
        Ok(())
    }

    /// What was asked for may have been done, or may still be.
    pub(super) fn never_heard(&mut self, sent: &Sent) {
        if let What::Create(order) = sent.what {
            self.orders[order].in_doubt.insert(sent.process);
            self.orders[order].open -= 1;
        }
        self.muddle(sent);
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
        if let Err(error) = &answer {
            if error.kind == ErrorKind::Internal {
                return broken(format!("a user is told of a defect: {error}"));
            }
            if matches!(error.kind, ErrorKind::Unknown | ErrorKind::Unavailable | ErrorKind::Timeout) {
                self.muddle(sent);
            }
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
                } else {
                    order.refused_by.insert(sent.process);
                }
                Ok(())
            }
            (What::Peek(id), Ok(_)) => broken(format!("another user is shown {id}")),
            (What::Get(id) | What::Connect(id) | What::Resume(id), Ok(Answer::Described(shown)))
                if shown.id != *id =>
            {
                broken(format!("who asks for {id} is shown {}", shown.id))
            }
            (What::Kill(id), Ok(_)) => {
                if find(&world.model, id).is_some_and(|sandbox| !deleting(sandbox)) {
                    return broken(format!("{id} was killed, and lives"));
                }
                Ok(())
            }
            (What::List, Ok(Answer::Listed(page))) => self.listed(&world.model, sent, &page),
            (
                What::Get(id)
                | What::Connect(id)
                | What::Pause(id)
                | What::Resume(id)
                | What::SetTimeout(id, _)
                | What::Kill(id),
                Err(error),
            ) if error.kind == ErrorKind::NotFound && self.lives(&world.model, id) => {
                broken(format!("{id} was given to user {} and is not found: {error}", sent.user))
            }
            (what, Ok(answer)) if sent.alone => self.check_state(world, what, sent, &answer),
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
        let owned = Owned { order, to_die: false, told_by, muddled: false };
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
    fn lives(&self, model: &Model, id: &str) -> bool {
        let is_wanted = self.owned.get(id).is_some_and(|owned| !owned.to_die);
        is_wanted
            && find(model, id).is_some_and(|sandbox| !deleting(sandbox) && !has_ended(sandbox, model.now()))
    }

    /// A list has only the user's own, and all that the same manager has told the user of.
    fn listed(&self, model: &Model, sent: &Sent, page: &Page<Described>) -> Result<(), Broken> {
        for shown in &page.items {
            let owner = find(model, &shown.id).map(|sandbox| annotation(sandbox, names::ANNOTATION_OWNER));
            if owner.is_some_and(|owner| owner != &*self.callers[sent.user].owner) {
                return broken(format!("user {} is listed another's {}", sent.user, shown.id));
            }
        }
        for (id, owned) in &self.owned {
            if self.orders[owned.order].user == sent.user
                && owned.told_by == sent.process
                && self.lives(model, id)
                && !page.items.iter().any(|shown| shown.id == *id)
            {
                return broken(format!("p{} has given {id} and does not list it", sent.process));
            }
        }
        Ok(())
    }

    /// What was asked for, by one user at a time, is so.
    fn check_state(
        &self,
        world: &World<Manager>,
        what: &What,
        sent: &Sent,
        answer: &Answer,
    ) -> Result<(), Broken> {
        let Some(owned) = what.changes().and_then(|id| self.owned.get(id)) else { return Ok(()) };
        let wanted = &self.orders[owned.order].wanted;
        let Some(sandbox) = what.changes().and_then(|id| find(&world.model, id)) else { return Ok(()) };
        if owned.muddled || owned.to_die || wanted.auto_pause || has_ended(sandbox, world.now()) {
            return Ok(());
        }
        let paused = condition(sandbox, names::CONDITION_PAUSED) == "True" && is_to_pause(sandbox);
        let ready = condition(sandbox, names::CONDITION_READY) == "True" && !is_to_pause(sandbox);
        match what {
            What::Pause(id) if !paused => broken(format!("{id} was paused, and is not")),
            What::Resume(id) | What::Connect(id) if !ready => {
                broken(format!("{id} was resumed or connected to ({answer:?}), and does not run"))
            }
            What::SetTimeout(id, seconds) => {
                let lasts = SignedDuration::from_secs(i64::try_from(*seconds).unwrap_or(i64::MAX));
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
