//! A manager and keys that remember what they were asked for and answer the same to everybody.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::api::{CreatedKey, Doing, KeyFacts, KeyMask, Keys, Lifecycle, NewKey, Team};
use crate::{
    AccessToken, Caller, Connected, Described, Error, ErrorKind, Filter, LogLine, Metric, Network,
    NewSandbox, NewSnapshot, Page, ShownState, Snapshot, Template,
};

/// A key that is known.
pub(in crate::api) const KEY: &str = "e2b_00112233445566778899aabbccddeeff00112233";
/// The token of every sandbox.
pub(in crate::api) const TRAFFIC_TOKEN: &str = "00000000000000000000000000traff1c";
pub(in crate::api) const TOKEN: &str = "00000000000000000000000000t0ken0";

#[derive(Default)]
pub(in crate::api) struct Fake {
    asked: Mutex<Vec<String>>,
    created: Mutex<Option<NewSandbox>>,
    filter: Mutex<Option<Filter>>,
    failure: Mutex<Option<Error>>,
    next: Mutex<Option<String>>,
    panic: Mutex<bool>,
}

impl Fake {
    /// What was asked since the last time.
    pub(in crate::api) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }

    /// The sandbox that was asked for.
    pub(in crate::api) fn created(&self) -> NewSandbox {
        self.created.lock().take().expect("a create")
    }

    /// What the last list was asked for.
    pub(in crate::api) fn filter(&self) -> Filter {
        self.filter.lock().take().expect("a list")
    }

    /// Everything fails like this from now on.
    pub(in crate::api) fn fail(&self, error: Error) {
        *self.failure.lock() = Some(error);
    }

    /// Lists go on after this.
    pub(in crate::api) fn continues(&self, next: &str) {
        *self.next.lock() = Some(next.to_owned());
    }

    /// The next request panics.
    pub(in crate::api) fn panic(&self) {
        *self.panic.lock() = true;
    }

    fn answer<T>(&self, what: impl Debug, value: T) -> Result<T, Error> {
        assert!(!*self.panic.lock(), "on cue");
        self.asked.lock().push(format!("{what:?}"));
        self.failure.lock().clone().map_or(Ok(value), Err)
    }

    fn about<T>(&self, what: &str, id: &str, rest: impl Debug, value: T) -> Result<T, Error> {
        let found = self.answer((what, id, rest), value)?;
        if id.starts_with("missing") { Err(Error::no_sandbox(id)) } else { Ok(found) }
    }
}

pub(in crate::api) fn time() -> Timestamp {
    "2026-11-18T08:00:00Z".parse().unwrap()
}

pub(in crate::api) fn described(id: &str) -> Described {
    Described {
        id: id.to_owned(),
        resource: format!("team-a/{id}"),
        template: "base".to_owned(),
        state: if id.starts_with("paused") { ShownState::Paused } else { ShownState::Running },
        started: time(),
        ends: Some("2026-11-18T08:05:00Z".parse().unwrap()),
        auto_pause: id.starts_with("paused"),
        auto_resume: false,
        cpu_millis: 1500,
        memory_mb: 512,
        disk_mb: 1024,
        metadata: BTreeMap::from([("user".to_owned(), "ann".to_owned())]),
        access_token: Some(AccessToken::new(TOKEN)),
        traffic_token: id.starts_with("private").then(|| AccessToken::new(TRAFFIC_TOKEN)),
        allow_internet_access: true,
        network: None,
        ip: None,
    }
}

fn template() -> Template {
    Template {
        name: "base".to_owned(),
        namespace: "team-a".to_owned(),
        created: time(),
        cpu_millis: 2000,
        memory_mb: 512,
        disk_mb: 1024,
        available: 3,
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        id: "snap1".to_owned(),
        names: vec!["mine".to_owned()],
        sandbox: "sbx1".to_owned(),
        created: time(),
    }
}

fn metric() -> Metric {
    Metric {
        at: time(),
        cpu_count: 2,
        cpu_used_pct: 12.5,
        mem_used: 10,
        mem_total: 20,
        mem_cache: 3,
        disk_used: 30,
        disk_total: 40,
    }
}

fn now<'a, T: Send + 'a>(answer: Result<T, Error>) -> Doing<'a, T> {
    Box::pin(ready(answer))
}

impl Lifecycle for Fake {
    fn create<'a>(&'a self, _caller: &'a Caller, new: NewSandbox) -> Doing<'a, Described> {
        *self.created.lock() = Some(new);
        now(self.answer("create", described("sbx1")))
    }

    fn connect<'a>(
        &'a self,
        _caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
    ) -> Doing<'a, (Described, Connected)> {
        let was = if id.starts_with("paused") { Connected::Resumed } else { Connected::Running };
        now(self.about("connect", id, timeout, (described(id), was)))
    }

    fn get<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> Doing<'a, Described> {
        now(self.about("get", id, (), described(id)))
    }

    fn list(&self, _caller: &Caller, filter: &Filter) -> Result<Page<Described>, Error> {
        *self.filter.lock() = Some(filter.clone());
        let items = vec![described("sbx1"), described("paused1")];
        self.answer("list", Page { items, next: self.next.lock().clone() })
    }

    fn kill<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        now(self.about("kill", id, (), ()))
    }

    fn set_timeout<'a>(&'a self, _caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()> {
        now(self.about("timeout", id, timeout, ()))
    }

    fn refresh<'a>(&'a self, _caller: &'a Caller, id: &'a str, timeout: Duration) -> Doing<'a, ()> {
        now(self.about("refresh", id, timeout, ()))
    }

    fn pause<'a>(&'a self, _caller: &'a Caller, id: &'a str, reserve: Option<Duration>) -> Doing<'a, ()> {
        now(self.about("pause", id, reserve, ()))
    }

    fn resume<'a>(
        &'a self,
        _caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        auto_pause: Option<bool>,
    ) -> Doing<'a, Described> {
        now(self.about("resume", id, (timeout, auto_pause), described(id)))
    }

    fn update_network<'a>(
        &'a self,
        _caller: &'a Caller,
        id: &'a str,
        network: Network,
        allow_internet_access: Option<bool>,
    ) -> Doing<'a, ()> {
        now(self.about("network", id, (network.allow_out, network.deny_out, allow_internet_access), ()))
    }

    fn snapshot<'a>(&'a self, _caller: &'a Caller, id: &'a str, new: NewSnapshot) -> Doing<'a, Snapshot> {
        now(self.about("snapshot", id, new, snapshot()))
    }

    fn snapshots(
        &self,
        _caller: &Caller,
        sandbox: Option<&str>,
        name: Option<&str>,
        limit: usize,
        next: Option<&str>,
    ) -> Result<Page<Snapshot>, Error> {
        let page = Page { items: vec![snapshot()], next: self.next.lock().clone() };
        self.answer(("snapshots", sandbox, name, limit, next), page)
    }

    fn delete_snapshot<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        let found = self.answer(("delete", id), ());
        let known = id.starts_with("snap");
        let missing = || Error::new(ErrorKind::NotFound, format!("snapshot {id} was not found"));
        now(found.and_then(|()| known.then_some(()).ok_or_else(missing)))
    }

    fn fork<'a>(
        &'a self,
        _caller: &'a Caller,
        id: &'a str,
        timeout: Option<Duration>,
        count: usize,
    ) -> Doing<'a, Vec<Result<Described, Error>>> {
        let made = vec![Ok(described("sbx2")), Err(Error::new(ErrorKind::Timeout, "it took too long"))];
        now(self.about("fork", id, (timeout, count), made))
    }

    fn templates(&self, _caller: &Caller) -> Vec<Template> {
        vec![template()]
    }

    fn template(&self, _caller: &Caller, name: &str) -> Result<Template, Error> {
        let missing = || Error::new(ErrorKind::NotFound, format!("template {name} was not found"));
        if name == "base" { Ok(template()) } else { Err(missing()) }
    }

    fn metrics<'a>(
        &'a self,
        _caller: &'a Caller,
        id: &'a str,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
    ) -> Doing<'a, Vec<Metric>> {
        now(self.about("metrics", id, (start, end), vec![metric()]))
    }

    fn metric_if_known<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> BoxFuture<'a, Option<Metric>> {
        Box::pin(ready(self.about("metric if known", id, (), metric()).ok()))
    }

    fn logs<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> Doing<'a, Vec<LogLine>> {
        now(self.about("logs", id, (), vec![LogLine { at: time(), line: "hello".to_owned() }]))
    }
}

fn facts() -> KeyFacts {
    KeyFacts {
        id: "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b".to_owned(),
        name: "ci".to_owned(),
        team: "team-a".to_owned(),
        mask: KeyMask {
            prefix: "e2b_".to_owned(),
            length: 40,
            head: "00".to_owned(),
            tail: "2233".to_owned(),
        },
        created: time(),
        created_by: None,
        last_used: None,
        expires: None,
    }
}

impl Keys for Fake {
    fn authenticate(&self, presented: &str) -> Option<Caller> {
        (presented == KEY).then(|| Caller {
            owner: "8c1f03a2-0b4d-4e5f-9a6b-7c8d9e0f1a2b".into(),
            team: "team-a".into(),
            namespace: Some("team-a".into()),
            quota: Arc::new([]),
        })
    }

    fn teams(&self, _caller: &Caller) -> Vec<Team> {
        vec![Team { id: "t1".to_owned(), name: "team-a".to_owned() }]
    }

    fn list(&self, _caller: &Caller) -> Vec<KeyFacts> {
        vec![facts()]
    }

    fn create<'a>(&'a self, _caller: &'a Caller, new: NewKey) -> Doing<'a, CreatedKey> {
        now(self.answer(("key", new), CreatedKey { facts: facts(), key: AccessToken::new(KEY) }))
    }

    fn revoke<'a>(&'a self, _caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        now(self.answer(("revoke", id), ()))
    }
}
