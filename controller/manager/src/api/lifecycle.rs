//! What the API needs of the manager, as a trait, so that handlers can be tested without a cluster.

use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

use crate::{
    Caller, Connected, Described, Error, Filter, LogLine, Manager, Metric, Network, NewSandbox, NewSnapshot,
    Page, Snapshot, Template,
};

/// A request that is being done.
pub type Doing<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// What the API asks for. [`Manager`] says what each of them does.
#[expect(missing_docs, reason = "each method is the manager's method of the same name")]
pub trait Lifecycle: Send + Sync + 'static {
    fn create<'a>(&'a self, caller: &'a Caller, new: NewSandbox) -> Doing<'a, Described>;
    fn connect<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
    ) -> Doing<'a, (Described, Connected)>;
    fn get<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, Described>;
    fn list(&self, caller: &Caller, filter: &Filter) -> Result<Page<Described>, Error>;
    fn kill<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()>;
    fn set_timeout<'a>(&'a self, caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()>;
    fn refresh<'a>(&'a self, caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()>;
    fn pause<'a>(&'a self, caller: &'a Caller, id: &'a str, reserve: Option<Duration>) -> Doing<'a, ()>;
    fn resume<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        auto_pause: Option<bool>,
    ) -> Doing<'a, Described>;
    fn update_network<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        network: Network,
        allow_internet_access: Option<bool>,
    ) -> Doing<'a, ()>;
    fn snapshot<'a>(&'a self, caller: &'a Caller, id: &'a str, new: NewSnapshot) -> Doing<'a, Snapshot>;
    fn snapshots(
        &self,
        caller: &Caller,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        next: Option<&str>,
    ) -> Result<Page<Snapshot>, Error>;
    fn delete_snapshot<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()>;
    fn fork<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        count: usize,
    ) -> Doing<'a, Vec<Result<Described, Error>>>;
    fn templates(&self, caller: &Caller) -> Vec<Template>;
    fn template(&self, caller: &Caller, name: &str) -> Result<Template, Error>;
    fn metrics<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Doing<'a, Vec<Metric>>;
    fn metric_if_known<'a>(&'a self, caller: &'a Caller, id: &'a str) -> BoxFuture<'a, Option<Metric>>;
    fn logs<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, Vec<LogLine>>;
}

impl Lifecycle for Manager {
    fn create<'a>(&'a self, caller: &'a Caller, new: NewSandbox) -> Doing<'a, Described> {
        Box::pin(Self::create(self, caller, new))
    }

    fn connect<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
    ) -> Doing<'a, (Described, Connected)> {
        Box::pin(Self::connect(self, caller, id, timeout))
    }

    fn get<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, Described> {
        Box::pin(Self::get(self, caller, id))
    }

    fn list(&self, caller: &Caller, filter: &Filter) -> Result<Page<Described>, Error> {
        Self::list(self, caller, filter)
    }

    fn kill<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        Box::pin(Self::kill(self, caller, id))
    }

    fn set_timeout<'a>(&'a self, caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()> {
        Box::pin(Self::set_timeout(self, caller, id, timeout))
    }

    fn refresh<'a>(&'a self, caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()> {
        Box::pin(Self::refresh(self, caller, id, timeout))
    }

    fn pause<'a>(&'a self, caller: &'a Caller, id: &'a str, reserve: Option<Duration>) -> Doing<'a, ()> {
        Box::pin(Self::pause(self, caller, id, reserve))
    }

    fn resume<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        auto_pause: Option<bool>,
    ) -> Doing<'a, Described> {
        Box::pin(Self::resume(self, caller, id, timeout, auto_pause))
    }

    fn update_network<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        network: Network,
        allow_internet_access: Option<bool>,
    ) -> Doing<'a, ()> {
        Box::pin(Self::update_network(self, caller, id, network, allow_internet_access))
    }

    fn snapshot<'a>(&'a self, caller: &'a Caller, id: &'a str, new: NewSnapshot) -> Doing<'a, Snapshot> {
        Box::pin(Self::snapshot(self, caller, id, new))
    }

    fn snapshots(
        &self,
        caller: &Caller,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        next: Option<&str>,
    ) -> Result<Page<Snapshot>, Error> {
        Self::snapshots(self, caller, sandbox, name, limit, next)
    }

    fn delete_snapshot<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        Box::pin(Self::delete_snapshot(self, caller, id))
    }

    fn fork<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        count: usize,
    ) -> Doing<'a, Vec<Result<Described, Error>>> {
        Box::pin(Self::fork(self, caller, id, timeout, count))
    }

    fn templates(&self, caller: &Caller) -> Vec<Template> {
        Self::templates(self, caller)
    }

    fn template(&self, caller: &Caller, name: &str) -> Result<Template, Error> {
        Self::template(self, caller, name)
    }

    fn metrics<'a>(
        &'a self,
        caller: &'a Caller,
        id: &'a str,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Doing<'a, Vec<Metric>> {
        Box::pin(Self::metrics(self, caller, id, start, end))
    }

    fn metric_if_known<'a>(&'a self, caller: &'a Caller, id: &'a str) -> BoxFuture<'a, Option<Metric>> {
        Box::pin(Self::metric_if_known(self, caller, id))
    }

    fn logs<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, Vec<LogLine>> {
        Box::pin(Self::logs(self, caller, id))
    }
}
