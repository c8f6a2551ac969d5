//! One operator: the view, the queues and the reconcilers of the program itself, fed by the world's watches.

use std::sync::Arc;

use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate};
use sandgate_operator::{
    Controller, Kind, NoEvents, Pauses, PodFacts, SandboxReconciler, SandboxSetReconciler,
};
use sandgate_sim::model::Change;
use sandgate_sim::network::Scope;
use sandgate_sim::{Listing, Process, Start};
use serde_json::Value;
use tokio::time::Instant;

use crate::shared::{Crew, Feeds, scope};

const KINDS: [Kind; 4] = [Kind::Sandbox, Kind::SandboxSet, Kind::SandboxTemplate, Kind::Pod];

/// One operator.
pub(crate) struct Operator(Crew);

impl Process for Operator {
    fn watches() -> Vec<Scope> {
        vec![scope::<Sandbox>(), scope::<SandboxSet>(), scope::<SandboxTemplate>(), scope::<PodFacts>()]
    }

    fn start(start: Start) -> Self {
        let (mut crew, mut parts) = Crew::new(start, &[Controller::Sandbox, Controller::SandboxSet], &KINDS);
        let (view, writes, clock) = (&crew.view.clone(), &parts.writes.clone(), parts.clock.clone());
        crew.feeds = Feeds::default()
            .and::<Sandbox>(view.feed::<Sandbox>())
            .and::<SandboxSet>(view.feed::<SandboxSet>())
            .and::<SandboxTemplate>(view.feed::<SandboxTemplate>())
            .and::<PodFacts>(view.feed::<PodFacts>());
        let sandboxes = SandboxReconciler::new(
            view.clone(),
            writes.clone(),
            Arc::new(NoEvents),
            clock.clone(),
            Pauses::default(),
        );
        crew.add(&parts, Controller::Sandbox, sandboxes);
        let random = sandgate_operator::Random::seeded(parts.random.number());
        let sets = SandboxSetReconciler::new(view.clone(), writes.clone(), Arc::new(NoEvents), clock, random);
        crew.add(&parts, Controller::SandboxSet, sets);
        Self(crew)
    }

    fn listed(&mut self, scope: &Scope, what: Listing<'_>) {
        self.0.feeds.listed(scope, what);
    }

    fn observed(&mut self, scope: &Scope, change: Change, object: &Value) {
        self.0.feeds.observed(scope, change, object);
    }

    fn work(&mut self) -> Option<String> {
        self.0.work()
    }

    fn ended(&mut self) -> Vec<String> {
        self.0.ended()
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.next_due()
    }

    fn lead(&mut self, leads: bool) {
        self.0.lead(leads);
    }
}
