//! The way from the world's watches into the program's view.

use sandgate_follow::{Head, Sink};
use sandgate_operator::Viewed;
use sandgate_routes::Version;
use sandgate_sim::Listing;
use sandgate_sim::model::object::{text, uid, version};
use sandgate_sim::model::{Change, Kind, Selector};
use sandgate_sim::network::Scope;
use serde_json::Value;

/// The scope of a kind's watch.
pub(crate) fn scope<T: Viewed>() -> Scope {
    let kind = Kind::of(T::GROUP, T::PLURAL).expect("the model has the kind");
    Scope { kind, namespace: None, selector: Selector::parse(T::SELECTOR).expect("a selector") }
}

/// The sinks of the watches of one process.
#[derive(Default)]
pub(crate) struct Feeds(Vec<(Scope, Box<dyn Fed>)>);

impl Feeds {
    /// Adds the sink of a kind.
    #[must_use]
    pub(crate) fn and<T: Viewed>(mut self, sink: impl Sink + 'static) -> Self {
        self.0.push((scope::<T>(), Box::new(sink)));
        self
    }

    /// A list goes on.
    pub(crate) fn listed(&mut self, scope: &Scope, what: Listing<'_>) {
        self.of(scope).listed(what);
    }

    /// A watch shows a change.
    pub(crate) fn observed(&mut self, scope: &Scope, change: Change, object: &Value) {
        self.of(scope).shown(change, object);
    }

    fn of(&mut self, scope: &Scope) -> &mut dyn Fed {
        let found = self.0.iter_mut().find(|(known, _)| known == scope);
        &mut *found.expect("every watch has a sink").1
    }
}

trait Fed {
    fn listed(&mut self, what: Listing<'_>);

    fn shown(&mut self, change: Change, object: &Value);
}

impl<S: Sink> Fed for S {
    fn listed(&mut self, what: Listing<'_>) {
        match what {
            Listing::Begin => self.begin(),
            Listing::Object(object) => apply(self, object),
            Listing::Complete(revision) => {
                self.commit(&at(revision));
            }
            Listing::Broken => self.abandon(),
        }
    }

    fn shown(&mut self, change: Change, object: &Value) {
        let version = at(version(object));
        if change == Change::Deleted {
            let head = Head {
                namespace: text(object, "/metadata/namespace").to_owned(),
                name: text(object, "/metadata/name").to_owned(),
                version: Some(version.clone()),
                uid: Some(uid(object).to_owned()),
            };
            self.deleted(&head).expect("the operator can have had the object");
        } else {
            apply(self, object);
        }
        self.reached(&version);
    }
}

fn at(revision: u64) -> Version {
    revision.to_string().parse().expect("a version")
}

fn apply<S: Sink>(sink: &mut S, object: &Value) {
    let (_, object) = sink.decode(object.to_string().as_bytes()).expect("the operator can read the object");
    sink.apply(object).expect("the operator can use the object");
}
