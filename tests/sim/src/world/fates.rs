//! What becomes of requests.

use std::sync::Arc;

use serde_json::Value;

use super::{Happened, Process, World};
use crate::model::Place;
use crate::network::{Operation, UnderWay};

/// A request that the server has done, or refused.
#[derive(Debug)]
pub struct Committed {
    /// The process that sent it. It may be dead.
    pub caller: u64,
    /// What it asked for.
    pub operation: Arc<Operation>,
    /// The status code of the answer.
    pub code: u16,
    /// The object that it was about, before.
    pub before: Option<Arc<Value>>,
    /// Whether the process still waits for the answer.
    pub awaited: bool,
}

impl<P: Process> World<P> {
    /// Nothing becomes of the requests of this process, of those that it is yet to send neither, until
    /// [`let_go`](Self::let_go).
    pub fn hold(&mut self, number: u64) {
        self.held.insert(number);
        self.tell(&format!("p{number} is cut off"));
    }

    /// What was held is under way again.
    pub fn let_go(&mut self, number: u64) {
        if self.held.remove(&number) {
            self.tell(&format!("p{number} is not cut off any more"));
        }
    }

    /// One of the requests for which this holds.
    fn some_call(&mut self, which: impl Fn(&UnderWay) -> bool) -> Option<UnderWay> {
        let mut calls = self.network.under_way();
        calls.retain(|call| !self.held.contains(&call.caller) && which(call));
        if calls.is_empty() { None } else { Some(self.random.pick(&calls).clone()) }
    }

    pub(super) fn commit_one(&mut self) -> Option<Happened> {
        let call = self.some_call(|call| !call.answered)?;
        self.commit(&call)
    }

    pub(super) fn commit(&mut self, call: &UnderWay) -> Option<Happened> {
        let target: Option<Place> = call.operation.target();
        let before = target.and_then(|place| self.model.get(&place).ok().cloned());
        let code = self.network.commit(call.number, &mut self.model)?;
        self.tell(&format!("server: p{} #{} {} -> {code}", call.caller, call.number, call.operation));
        let (caller, operation) = (call.caller, Arc::clone(&call.operation));
        Some(Happened::Committed(Committed { caller, operation, code, before, awaited: call.awaited }))
    }

    pub(super) fn deliver_one(&mut self) -> Option<Happened> {
        let call = self.some_call(|call| call.answered)?;
        self.network.deliver(call.number);
        let learnt = if call.awaited { "gets" } else { "is not there for" };
        self.say(Some(format!("p{} {learnt} the answer to #{}", call.caller, call.number)))
    }

    pub(super) fn lose_one(&mut self) -> Option<Happened> {
        let call = self.some_call(|_| true)?;
        self.network.lose(call.number);
        let what = if call.answered { "the answer to" } else { "the request" };
        self.say(Some(format!("p{} loses {what} #{} {}", call.caller, call.number, call.operation)))
    }

    /// Every request that is under way is lost, and so is every answer.
    pub fn lose_all(&mut self) {
        for call in self.network.under_way() {
            self.network.lose(call.number);
            self.tell(&format!("#{} {} is lost", call.number, call.operation));
        }
    }

    pub(super) fn refuse_one(&mut self) -> Option<Happened> {
        let call = self.some_call(|call| !call.answered)?;
        let code = *self.random.pick(&[409, 429, 500, 503, 504]);
        self.network.refuse(call.number, code);
        self.say(Some(format!("p{} #{} {} is refused: {code}", call.caller, call.number, call.operation)))
    }
}
