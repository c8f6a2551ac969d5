//! What a process is shown of the cluster: lists and events, in order, as late as it may be.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;

use super::{Happened, Listing, Process, World};
use crate::model::object::{text, version};
use crate::model::{Change, Event, Model};
use crate::network::Scope;

/// A watch of one process, of one kind.
pub(super) struct Watching {
    scope: Scope,
    state: State,
    /// How often it is this watch's turn, beside those of the other kinds.
    pace: u64,
}

enum State {
    /// Nothing is known, or too little: a list is needed.
    Broken,
    /// The server answers with a list of this revision, of which this is still to come.
    Listing { begun: bool, rest: VecDeque<Arc<Value>>, revision: u64 },
    /// Everything up to this revision was shown.
    Following { shown: u64 },
}

/// Something that a watch shows.
enum Shown {
    /// A list begins.
    Begin,
    /// An object of the list.
    Listed(Arc<Value>),
    /// The list was complete, and is of this revision.
    End(u64),
    /// An object has changed.
    Event { change: Change, object: Arc<Value> },
}

impl Watching {
    pub(super) fn new(scope: Scope, pace: u64) -> Self {
        Self { scope, state: State::Broken, pace }
    }

    fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The connection ends. What was not shown is lost. Returns whether a list was being shown.
    fn cut(&mut self) -> bool {
        let listing = matches!(self.state, State::Listing { begun: true, .. });
        self.state = State::Broken;
        listing
    }

    /// Whether there is something to show, or to ask for.
    fn has_news(&mut self, model: &Model) -> bool {
        match &mut self.state {
            State::Broken | State::Listing { .. } => true,
            State::Following { shown } => {
                let any = model.since(*shown).map_or(true, |events| first(&self.scope, events).is_some());
                if !any {
                    // A bookmark: nothing up to here is about these objects.
                    *shown = model.revision();
                }
                any
            }
        }
    }

    /// The next thing; `None` if the server has to be asked for a list first, which this does. A watch that
    /// lags behind the history has to list.
    fn next(&mut self, model: &Model) -> Option<Shown> {
        match std::mem::replace(&mut self.state, State::Broken) {
            State::Broken => {
                let held = model.all().filter(|(place, object)| self.scope.holds(place, object));
                let rest = held.map(|(_, object)| Arc::clone(object)).collect();
                self.state = State::Listing { begun: false, rest, revision: model.revision() };
                None
            }
            State::Listing { begun: false, rest, revision } => {
                self.state = State::Listing { begun: true, rest, revision };
                Some(Shown::Begin)
            }
            State::Listing { begun: true, mut rest, revision } => match rest.pop_front() {
                Some(object) => {
                    self.state = State::Listing { begun: true, rest, revision };
                    Some(Shown::Listed(object))
                }
                None => {
                    self.state = State::Following { shown: revision };
                    Some(Shown::End(revision))
                }
            },
            State::Following { shown } => {
                let next = first(&self.scope, model.since(shown).ok()?);
                let shown = next.as_ref().map_or(model.revision(), |(_, event)| event.revision);
                self.state = State::Following { shown };
                next.map(|(change, event)| Shown::Event { change, object: Arc::clone(&event.object) })
            }
        }
    }
}

/// The first event that a watcher of these objects is shown.
fn first<'a>(scope: &Scope, mut events: impl Iterator<Item = &'a Event>) -> Option<(Change, &'a Event)> {
    events.find_map(|event| {
        let change = event.seen_by(&scope.selector).filter(|_| scope.holds_place(&event.place))?;
        Some((change, event))
    })
}

impl<P: Process> World<P> {
    pub(super) fn watch_one(&mut self) -> Option<Happened> {
        let slot = self.some_slot()?;
        let number = self.slots[slot];
        let running = self.running.get_mut(&number)?;
        let mut news = Vec::new();
        for (index, watch) in running.watches.iter_mut().enumerate() {
            if watch.has_news(&self.model) {
                news.push((watch.pace, index));
            }
        }
        let watch = &mut running.watches[self.random.weighted(&news)?];
        let plural = watch.scope().kind.plural;
        let line = match watch.next(&self.model) {
            None => format!("p{number} lists {plural}"),
            Some(Shown::Begin) => {
                running.process.listed(watch.scope(), Listing::Begin);
                format!("p{number} is shown a list of {plural}")
            }
            Some(Shown::Listed(object)) => {
                running.process.listed(watch.scope(), Listing::Object(&object));
                format!("p{number} is shown the list's {plural} {}", text(&object, "/metadata/name"))
            }
            Some(Shown::End(revision)) => {
                running.process.listed(watch.scope(), Listing::Complete(revision));
                format!("p{number} has seen all {plural} of r{revision}")
            }
            Some(Shown::Event { change, object }) => {
                running.process.observed(watch.scope(), change, &object);
                let (name, version) = (text(&object, "/metadata/name"), version(&object));
                format!("p{number} is shown {} {plural} {name} r{version}", change.as_str())
            }
        };
        self.say(Some(line))
    }

    pub(super) fn cut_one(&mut self) -> Option<Happened> {
        let slot = self.some_slot()?;
        let number = self.slots[slot];
        let running = self.running.get_mut(&number)?;
        let watch = self.random.below(running.watches.len());
        let watch = &mut running.watches[watch];
        if watch.cut() {
            running.process.listed(watch.scope(), Listing::Broken);
        }
        let plural = watch.scope().kind.plural;
        self.say(Some(format!("p{number} loses its watch of {plural}")))
    }
}
