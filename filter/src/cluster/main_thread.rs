//! The main thread's side of one cluster: it has Envoy add the hosts that are wanted and remove those that
//! are not.
//!
//! # One run
//! 1. Answer the bell ([`Shared::begin`]).
//! 2. Apply changes of the table, compare identities with the table where changes were missed, and receive
//!    the messages of workers; at most [`MAX_PER_RUN`] of each. What is left is for the next run, so that
//!    Envoy's main thread does other work in between.
//! 3. Wake requests that were held too long, and close a few shards' unused hosts.
//! 4. Add the hosts that are wanted, in batches: a change costs Envoy nearly as much as many. [`Pace`] says
//!    when.
//! 5. Start a barrier for closed hosts, and remove those that have passed one.
//! 6. Set the timer, then rest: work that arrives now is found by the run that the timer starts.
//!
//! # Why no update is lost
//! The bell is answered before anything is read, so work that arrives during a run rings for another one. A
//! message first makes its identity followed and then reads the table: a change before that read is seen by
//! it, and a change after it passes [`change_filter`]. When the feed overflows, every followed identity is
//! compared with the table.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use envoy_proxy_dynamic_modules_rust_sdk::{EnvoyCluster, envoy_log_error, envoy_log_info};
use sandgate_config::Ending;
use sandgate_routes::{Change, Changes, Moving, Notice, Route, RouteReader};

use super::activity::is_dead;
use super::host::{Endpoint, Host};
use super::hosts::{Add, Book, Closed, QUIET_SWEEPS, TENURE};
use super::pace::{MOST_ADDED, MOST_REMOVED, Pace};
use super::process::Process;
use super::served_at;
use super::shared::{Message, Shared, Waker, Wakeup};
use super::streams::End;
use super::ticker::{Ticker, decide_again};

/// How often those who wait are looked after.
const WAIT_TICK: Duration = Duration::from_millis(50);
/// Hosts that nobody uses are not looked for more often than this.
const SWEEP_STEP: Duration = Duration::from_millis(250);
/// When workers do not pass a barrier, because they are ending, their hosts go all the same.
const BARRIER_LIMIT: Duration = Duration::from_secs(1);
/// How many changes, wants and comparisons one run takes in, each: a few milliseconds at the most.
const MAX_PER_RUN: usize = 4096;
/// How many shards are looked through for hosts that nobody uses when there is no room for more: some
/// thousand hosts.
const EVICT_SHARDS: usize = 64;
/// The metadata by which Envoy chooses a transport socket.
const SOCKET_MATCH: (&str, &str) = ("envoy.transport_socket_match", "sandgate");

/// The filter of this process's subscription: accepts changes of identities that are followed, which have
/// hosts, requests in flight or held requests. In a large fleet that is a small part of all changes.
///
/// The writer calls it for every change, also for those that are missed because the queue is full. So the new
/// ID of an identity is recorded here, and its death.
pub(crate) fn change_filter(
    process: &Arc<Process>,
    table: &RouteReader,
) -> impl Fn(Option<&Route>, Option<&Route>) -> bool + Send + 'static {
    let (process, table) = (Arc::clone(process), table.clone());
    move |before, after| {
        if let Some(after) = after
            && before.map(Route::identity) != Some(after.identity())
        {
            process.usages.set_id(after.identity(), after.id());
        }
        let Some(before) = before else { return false };
        let accepted = process.usages.is_followed(before.identity());
        if after.map(Route::identity) != Some(before.identity())
            && process.usages.is_known(before.identity())
            && is_dead(before, after, &table)
        {
            process.usages.set_gone(before.identity());
        }
        accepted
    }
}

pub(crate) struct MainThread {
    shared: Arc<Shared>,
    messages: Receiver<Message>,
    changes: Changes,
    book: Book<Waker>,
    ticker: Ticker,
    /// Requests to be ended at the next barrier.
    ends: Vec<End>,
    /// Who has yet to be compared with the table, and whether all are to be again after that.
    to_compare: VecDeque<u64>,
    compare_again: bool,
    /// Closed hosts that wait for workers to pass the barrier, and since when.
    barrier: Option<(Instant, Vec<Closed>)>,
    removable: Vec<Closed>,
    pace: Pace,
    next_sweep: Instant,
}

impl MainThread {
    pub(crate) fn new(shared: &Arc<Shared>, messages: Receiver<Message>, changes: Changes) -> Self {
        let now = Instant::now();
        Self {
            shared: Arc::clone(shared),
            messages,
            changes,
            book: Book::new(shared.config().max_ports),
            ticker: Ticker::new(shared),
            ends: Vec::new(),
            to_compare: VecDeque::new(),
            // What happened before this cluster listened is another's to see to, which may be gone by now.
            compare_again: true,
            barrier: None,
            removable: Vec::new(),
            pace: Pace::new(now),
            next_sweep: now,
        }
    }

    /// Ends the clock: after this nothing calls into Envoy any more.
    pub(crate) fn stop(&mut self) {
        self.shared.close();
        self.ticker.stop();
    }

    pub(crate) fn run(&mut self, envoy: &dyn EnvoyCluster) {
        let begun = Instant::now();
        self.shared.begin();
        let taken = [self.receive_changes(), self.compare_with_table(), self.receive_messages()];
        let (found, more) = (taken.iter().sum(), taken.contains(&MAX_PER_RUN));
        self.run_timers(begun);
        self.add(envoy, begun);
        self.pass_barriers(envoy, begun);
        self.remove(envoy, begun);
        self.pace.found(Instant::now(), found);
        self.shared.set_next_add(self.pace.next_add());
        self.set_clock(begun);
        if more {
            self.shared.notify_now();
        } else {
            self.rest();
        }
        let counts = &self.shared.counts;
        counts.hosts.store(self.book.live(), Ordering::Relaxed);
        counts.parked.store(self.book.waiting(), Ordering::Relaxed);
        let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        counts.main_thread_nanos.fetch_add(spent, Ordering::Relaxed);
    }

    /// Takes in what workers want and say, and says how much it was.
    fn receive_messages(&mut self) -> usize {
        let max_wait = self.shared.config().max_wait;
        let mut taken = 0;
        while taken < MAX_PER_RUN
            && let Ok(message) = self.messages.try_recv()
        {
            taken += 1;
            let mut want = match message {
                Message::Want(want) => want,
                Message::Refused { endpoint, identity } => {
                    self.book.give_up(endpoint, identity);
                    continue;
                }
            };
            // Followed before the table is read below, so that a later change is received.
            want.waker.follow(self.shared.usages().of(want.identity, &want.id));
            // Also for one that finds its host here each time and never on its worker.
            if want.since.elapsed() > max_wait {
                want.waker.wake(Wakeup::TooLate);
                continue;
            }
            // The table may have changed since the request was decided, and that change may be behind us
            // already.
            if !self.serves(want.identity, &want.id, want.endpoint) {
                want.waker.wake(Wakeup::DecideAgain);
                continue;
            }
            // Whoever has the address without right loses it at once.
            if let Some(owner) = self.book.owner(want.endpoint)
                && owner != want.identity
                && let Ok(served) = self.served_now(owner)
                && served.flatten() != Some(want.endpoint.ip())
            {
                decide_again(self.book.forget(owner, None));
            }
            if let Some(waker) = self.book.want(want) {
                waker.wake(Wakeup::DecideAgain);
            }
        }
        taken
    }

    /// Whether the table has this identity running at this address.
    fn serves(&self, identity: u64, id: &str, endpoint: Endpoint) -> bool {
        let table = self.shared.reader().pin();
        table
            .get(id)
            .is_some_and(|route| route.identity() == identity && served_at(route) == Some(endpoint.ip()))
    }

    /// Takes in what has changed, and says how much it was.
    fn receive_changes(&mut self) -> usize {
        let mut taken = 0;
        while taken < MAX_PER_RUN
            && let Some(notice) = self.changes.try_recv()
        {
            taken += 1;
            match notice {
                Notice::Changed(change) => self.apply_change(&change),
                Notice::Lagged { missed } => {
                    envoy_log_info!("sandgate: {missed} changes missed, comparing all hosts with the table");
                    self.compare_again = true;
                }
                Notice::Closed => break,
            }
        }
        taken
    }

    fn apply_change(&mut self, change: &Change) {
        let Some(before) = change.before() else { return };
        let was = served_at(before);
        let now = match change.identity_gone() {
            None => change.after().and_then(|after| served_at(after)),
            // It may only have got another ID.
            Some(identity) => match self.served_now(identity) {
                Ok(Some(now)) => now,
                Ok(None) => return self.forget(identity, None, self.shared.config().on_delete),
                Err(Moving) => return self.to_compare.push_back(identity),
            },
        };
        if was.is_some() && was != now {
            self.forget(before.identity(), now, self.shared.config().on_pause);
        }
    }

    /// An identity is served only at `keep` from now on: its hosts elsewhere are closed, and its requests
    /// there end or finish.
    fn forget(&mut self, identity: u64, keep: Option<IpAddr>, ending: Ending) {
        decide_again(self.book.forget(identity, keep));
        if ending == Ending::End {
            self.ends.push(End::now(identity, keep));
        }
    }

    /// Where the table serves a followed identity, if anywhere; `None` if the table has lost it. An identity
    /// that is just getting another ID may be found under neither: the caller tries again.
    fn served_now(&self, identity: u64) -> Result<Option<Option<IpAddr>>, Moving> {
        self.shared.reader().find_consistent(|table| {
            let id = self.shared.usages().id_of(identity)?;
            table.get(&id).filter(|route| route.identity() == identity).map(served_at)
        })
    }

    /// Changes were missed: compares every followed identity with the table, some now and the others later.
    /// Returns how many.
    fn compare_with_table(&mut self) -> usize {
        if self.to_compare.is_empty() && std::mem::take(&mut self.compare_again) {
            self.to_compare = self.shared.usages().followed().into();
        }
        let (mut compared, mut moving) = (0, Vec::new());
        while compared < MAX_PER_RUN
            && let Some(identity) = self.to_compare.pop_front()
        {
            compared += 1;
            // One that is not followed any more has nothing that could be ended.
            if !self.shared.usages().is_followed(identity) {
                continue;
            }
            let config = self.shared.config();
            match self.served_now(identity) {
                Ok(Some(keep)) => self.forget(identity, keep, config.on_pause),
                Ok(None) => self.forget(identity, None, config.on_delete),
                Err(Moving) => moving.push(identity),
            }
        }
        // The next run goes on, also where all are to be compared again.
        let more = self.compare_again || !moving.is_empty();
        self.to_compare.extend(moving);
        if more { MAX_PER_RUN } else { compared }
    }

    fn run_timers(&mut self, now: Instant) {
        if self.book.waiting() > 0
            && let Some(limit) = now.checked_sub(self.shared.config().max_wait)
        {
            for waker in self.book.expire(limit) {
                waker.wake(Wakeup::TooLate);
            }
        }
        self.book.take_turns(now);
        if now >= self.next_sweep {
            let turn = self.shared.config().idle / u32::from(QUIET_SWEEPS);
            let (shards, step) = sweep_step(turn, self.book.shards());
            self.book.sweep(shards);
            self.next_sweep = now + step;
        }
    }

    fn add(&mut self, envoy: &dyn EnvoyCluster, now: Instant) {
        if !self.book.has_vacant() || now < self.pace.next_add() {
            return;
        }
        let room = self.shared.room_for_hosts();
        if room == 0 {
            return self.add_nothing(now);
        }
        let begun = Instant::now();
        let adds = self.book.take_adds(MOST_ADDED.min(room));
        let count = adds.hosts.len();
        for waker in adds.over_the_cap {
            waker.wake(Wakeup::OverTheCap);
        }
        for waker in adds.over_the_share {
            waker.wake(Wakeup::OverTheShare);
        }
        let (plain, tls): (Vec<Add>, Vec<Add>) =
            adds.hosts.into_iter().partition(|add| add.socket.tls.is_none());
        for hosts in [plain, tls] {
            self.add_batch(envoy, adds.shard, &hosts);
        }
        let now = Instant::now();
        self.pace.added(now, now - begun, count, self.book.has_vacant());
    }

    /// There are as many hosts as there may be. If some are about to go, those who wait are waited for; else
    /// some that nobody uses are made to go; and if there are none, nobody waits in vain.
    fn add_nothing(&mut self, now: Instant) {
        self.pace.no_room(now);
        let going = |this: &Self| {
            this.book.has_closed()
                || !this.removable.is_empty()
                || this.barrier.as_ref().is_some_and(|(_, hosts)| !hosts.is_empty())
        };
        if !going(self) {
            self.book.evict(EVICT_SHARDS);
        }
        if !going(self) {
            for waker in self.book.take_vacant(MAX_PER_RUN) {
                waker.wake(Wakeup::NoRoom);
            }
        }
    }

    fn add_batch(&mut self, envoy: &dyn EnvoyCluster, shard: u32, hosts: &[Add]) {
        if hosts.is_empty() {
            return;
        }
        let addresses: Vec<String> = hosts.iter().map(|add| add.endpoint.to_string()).collect();
        let weights = vec![1; hosts.len()];
        // The name is what a TLS server is asked for; without one a short text keeps Envoy from making a long
        // one.
        let name = |add: &Add| add.socket.server_name.clone().unwrap_or_else(|| "-".to_owned());
        let names: Vec<String> = hosts.iter().map(name).collect();
        let metadata = |add: &Add| {
            let socket = add.socket.tls.iter();
            socket.map(|tls| (SOCKET_MATCH.0.to_owned(), SOCKET_MATCH.1.to_owned(), tls.clone())).collect()
        };
        let metadata: Vec<Vec<(String, String, String)>> = hosts.iter().map(metadata).collect();
        let taken = envoy.add_hosts_with_hostnames_and_locality_to_priority(
            shard,
            &addresses,
            &names,
            &weights,
            &[],
            &metadata,
        );
        let pointers = match taken {
            // None was skipped, so they are in the order they were given in.
            Some(pointers)
                if pointers.len() == hosts.len() && pointers.iter().all(|pointer| !pointer.is_null()) =>
            {
                pointers.into_iter().map(|pointer| Some(pointer as usize)).collect()
            }
            _ => {
                envoy_log_error!("sandgate: Envoy did not take all of {} hosts", hosts.len());
                let find =
                    |address: &String| envoy.find_host_by_address(address).map(|pointer| pointer as usize);
                addresses.iter().map(find).collect::<Vec<Option<usize>>>()
            }
        };
        let now = Instant::now();
        let counts = &self.shared.counts;
        counts.batches.fetch_add(1, Ordering::Relaxed);
        let mut woken = Vec::new();
        for (add, pointer) in hosts.iter().zip(pointers) {
            let Some(pointer) = pointer else {
                for waker in self.book.refused(add.endpoint, add.identity) {
                    waker.wake(Wakeup::TooLate);
                }
                continue;
            };
            let usage = self.shared.usages().of(add.identity, &add.id);
            let host = Arc::new(Host::new(add.endpoint, add.identity, usage).opened_by(add.client));
            self.shared.hosts_added(1);
            self.shared.published().publish(pointer, Arc::clone(&host));
            counts.added.fetch_add(1, Ordering::Relaxed);
            woken.extend(self.book.added(pointer, host, shard, now));
        }
        // Their workers hear of the hosts first: Envoy told them before it returned, and each hears things in
        // order.
        self.ticker.release(woken);
    }

    fn pass_barriers(&mut self, envoy: &dyn EnvoyCluster, now: Instant) {
        if let Some((since, hosts)) = &mut self.barrier {
            if !self.shared.barrier_passed() && now.saturating_duration_since(*since) < BARRIER_LIMIT {
                return;
            }
            self.removable.append(hosts);
            self.barrier = None;
        }
        if self.book.has_closed() || !self.ends.is_empty() {
            let ends = std::mem::take(&mut self.ends);
            self.shared.counts.ends.fetch_add(ends.len() as u64, Ordering::Relaxed);
            let number = self.shared.raise_barrier(ends);
            self.barrier = Some((now, self.book.take_closed()));
            envoy.run_on_all_workers(number);
        }
    }

    /// When what is removable may be removed, if anything is.
    fn next_remove(&self) -> Option<Instant> {
        let wanted = || {
            self.book.waiting() > 0
                && self.removable.iter().any(|closed| self.book.is_wanted(closed.endpoint))
        };
        (!self.removable.is_empty()).then(|| self.pace.next_remove(wanted()))
    }

    fn remove(&mut self, envoy: &dyn EnvoyCluster, now: Instant) {
        if self.next_remove().is_none_or(|next| now < next) {
            return;
        }
        let begun = Instant::now();
        let hosts = Closed::take_batch(&mut self.removable, MOST_REMOVED);
        let pointers: Vec<_> = hosts.iter().map(|closed| closed.pointer as _).collect();
        for closed in &hosts {
            self.shared.published().withdraw(closed.pointer);
        }
        let removed = envoy.remove_hosts(&pointers);
        if removed != hosts.len() {
            envoy_log_error!("sandgate: Envoy removed {removed} of {} hosts", hosts.len());
        }
        for closed in &hosts {
            self.book.removed(closed.endpoint);
        }
        let counts = &self.shared.counts;
        self.shared.hosts_removed(hosts.len());
        counts.removed.fetch_add(hosts.len() as u64, Ordering::Relaxed);
        counts.batches.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        self.pace.removed(now, now - begun, self.book.live(), !self.removable.is_empty());
        if self.book.has_vacant() {
            self.add(envoy, now);
        }
    }

    /// Asks for the next run: when the first of the things that wait for a time is due.
    fn set_clock(&mut self, now: Instant) {
        if self.book.has_vacant() {
            self.ticker.at(self.pace.next_add());
        }
        if let Some(next) = self.next_remove() {
            self.ticker.at(next);
        }
        if let Some((since, _)) = self.barrier {
            self.ticker.at(since + BARRIER_LIMIT);
        }
        if self.book.has_contested() {
            self.ticker.at(now + TENURE / 4);
        }
        if self.book.waiting() > 0 {
            self.ticker.at(now + WAIT_TICK);
        }
        if self.book.live() > 0 {
            self.ticker.at(self.next_sweep);
        }
    }

    fn rest(&mut self) {
        let rest_until = self.pace.rest_until();
        if rest_until > Instant::now() {
            self.ticker.at(rest_until);
            self.shared.rest();
        }
    }
}

impl Drop for MainThread {
    fn drop(&mut self) {
        self.stop();
        // A cluster that is replaced leaves requests in flight behind, which end as on hosts that are closed.
        self.book.close_all();
        self.shared.hosts_removed(self.book.live());
    }
}

/// How many shards are looked through at a time, and how often, so that all of them are once in `turn`.
fn sweep_step(turn: Duration, shards: usize) -> (usize, Duration) {
    let steps = usize::try_from(turn.as_millis() / SWEEP_STEP.as_millis()).unwrap_or(usize::MAX);
    let steps = steps.min(shards).max(1);
    (shards.div_ceil(steps), turn / u32::try_from(steps).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
