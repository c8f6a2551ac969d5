//! The way between callers and the model, behind kube's client.
//!
//! A request that is sent waits here until somebody says what becomes of it. It may be committed and its
//! answer delivered, the one long before the other; it may be lost before or after it was committed; it may
//! be refused without being looked at. The caller that gives up, or dies, does not take its request back: it
//! may still be committed, as it may be in a cluster.

mod answer;
mod operation;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::oneshot;

pub use answer::Answer;
pub use operation::{Guard, Operation, Scope};

use crate::model::{Model, Refusal};

/// The requests that are under way. Clones share them.
#[derive(Clone, Default)]
pub struct Network(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    last: u64,
    under_way: BTreeMap<u64, Call>,
    dead: BTreeSet<u64>,
}

struct Call {
    caller: u64,
    operation: Arc<Operation>,
    answer: Option<Answer>,
    waiting: oneshot::Sender<Result<Answer, io::Error>>,
}

/// A request that is under way.
#[derive(Clone, Debug)]
pub struct UnderWay {
    /// Its number, in the order of sending.
    pub number: u64,
    /// Who sent it.
    pub caller: u64,
    /// What it asks for.
    pub operation: Arc<Operation>,
    /// Whether it was committed, or refused: only its answer is still to come.
    pub answered: bool,
    /// Whether its caller still waits.
    pub awaited: bool,
}

impl Network {
    /// A client whose requests are those of this caller.
    ///
    /// # Panics
    /// Outside of a Tokio runtime: kube's client runs a task.
    pub fn client(&self, caller: u64) -> kube::Client {
        kube::Client::new(Connection { network: self.clone(), caller }, "default")
    }

    /// The requests that are under way, in the order of sending.
    pub fn under_way(&self) -> Vec<UnderWay> {
        let calls = self.0.lock();
        let each = |(number, call): (&u64, &Call)| UnderWay {
            number: *number,
            caller: call.caller,
            operation: Arc::clone(&call.operation),
            answered: call.answer.is_some(),
            awaited: !call.waiting.is_closed(),
        };
        calls.under_way.iter().map(each).collect()
    }

    /// The server gets the request and does it. Returns the status code of the answer, which is not delivered
    /// yet.
    pub fn commit(&self, number: u64, model: &mut Model) -> Option<u16> {
        let mut calls = self.0.lock();
        let call = calls.under_way.get_mut(&number).filter(|call| call.answer.is_none())?;
        let answer = call.operation.perform(model);
        let code = answer.code;
        call.answer = Some(answer);
        Some(code)
    }

    /// The server, or what stands before it, refuses the request without doing it.
    pub fn refuse(&self, number: u64, code: u16) {
        let mut calls = self.0.lock();
        if let Some(call) = calls.under_way.get_mut(&number).filter(|call| call.answer.is_none()) {
            call.answer = Some(Refusal::of_server(code).into());
        }
    }

    /// The caller gets the answer.
    pub fn deliver(&self, number: u64) {
        let mut calls = self.0.lock();
        if calls.under_way.get(&number).is_some_and(|call| call.answer.is_some())
            && let Some(Call { answer: Some(answer), waiting, .. }) = calls.under_way.remove(&number)
        {
            // A caller that has given up does not learn.
            let _ = waiting.send(Ok(answer));
        }
    }

    /// The connection breaks: the caller learns that it will not learn. A request that was not committed is
    /// lost.
    pub fn lose(&self, number: u64) {
        if let Some(call) = self.0.lock().under_way.remove(&number) {
            let _ = call.waiting.send(Err(io::ErrorKind::ConnectionReset.into()));
        }
    }

    /// The caller is dead. What it has sent is still under way; what a task of it that outlives it would
    /// send, nobody gets.
    pub fn bury(&self, caller: u64) {
        self.0.lock().dead.insert(caller);
    }

    fn send(
        &self,
        caller: u64,
        operation: Operation,
    ) -> Option<oneshot::Receiver<Result<Answer, io::Error>>> {
        let (waiting, answer) = oneshot::channel();
        let mut calls = self.0.lock();
        if calls.dead.contains(&caller) {
            return None;
        }
        calls.last += 1;
        let number = calls.last;
        let operation = Arc::new(operation);
        calls.under_way.insert(number, Call { caller, operation, answer: None, waiting });
        Some(answer)
    }
}

/// What the server answers to a request that nothing happens to on the way.
pub fn answer(model: &mut Model, request: Request<Vec<u8>>) -> Response<Vec<u8>> {
    let (parts, body) = request.into_parts();
    let answer =
        Operation::read(&parts, &body).map_or_else(Answer::from, |operation| operation.perform(model));
    answer.into_response()
}

/// What kube's client is a stack of, with the network in place of a connection.
struct Connection {
    network: Network,
    caller: u64,
}

impl tower::Service<Request<Body>> for Connection {
    type Response = Response<Body>;
    type Error = io::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = io::Result<Response<Body>>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (network, caller) = (self.network.clone(), self.caller);
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await.map_err(io::Error::other)?;
            let answer = match Operation::read(&parts, &body) {
                Ok(operation) => match network.send(caller, operation) {
                    Some(answer) => answer.await.map_err(io::Error::other)??,
                    None => std::future::pending().await,
                },
                // No operation of the model: nothing can happen to it on the way.
                Err(refusal) => refusal.into(),
            };
            Ok(answer.into_response().map(Body::from))
        })
    }
}
