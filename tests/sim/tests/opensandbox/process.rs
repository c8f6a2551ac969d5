//! One operator: the view, the queues and the reconcilers of the program itself, fed by the world's watches.

use std::sync::Arc;

use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};
use sandgate_operator::{
    BatchSandboxReconciler, BatchSettings, Controller, JobFacts, Kind, NoEvents, OwnPod, PoolMetrics,
    PoolPod, PoolReconciler, PoolSettings, Random, SandboxSnapshotReconciler, SnapshotSettings, TaskMetrics,
};
use sandgate_sim::model::{Change, Model};
use sandgate_sim::network::Scope;
use sandgate_sim::{Listing, Process, Start};
use serde_json::Value;
use tokio::time::Instant;

use crate::executors::PlayedExecutors;
use crate::shared::{Crew, Feeds, scope};
use crate::surroundings::{self, PlayedExec};

const CONTROLLERS: [Controller; 3] =
    [Controller::BatchSandbox, Controller::Pool, Controller::SandboxSnapshot];
const KINDS: [Kind; 6] =
    [Kind::BatchSandbox, Kind::Pool, Kind::SandboxSnapshot, Kind::PoolPod, Kind::OwnPod, Kind::Job];

/// One operator.
pub(crate) struct Operator(Crew);

impl Process for Operator {
    fn watches() -> Vec<Scope> {
        vec![
            scope::<BatchSandbox>(),
            scope::<Pool>(),
            scope::<SandboxSnapshot>(),
            scope::<PoolPod>(),
            scope::<OwnPod>(),
            scope::<JobFacts>(),
        ]
    }

    fn start(start: Start) -> Self {
        let (mut crew, mut parts) = Crew::new(start, &CONTROLLERS, &KINDS);
        let (view, writes, clock) = (&crew.view.clone(), &parts.writes.clone(), &parts.clock.clone());
        crew.feeds = Feeds::default()
            .and::<BatchSandbox>(view.feed::<BatchSandbox>())
            .and::<Pool>(view.feed::<Pool>())
            .and::<SandboxSnapshot>(view.feed::<SandboxSnapshot>())
            .and::<PoolPod>(view.feed::<PoolPod>())
            .and::<OwnPod>(view.feed::<OwnPod>())
            .and::<JobFacts>(view.feed::<JobFacts>());
        let batches = BatchSandboxReconciler::new(
            view.clone(),
            writes.clone(),
            Arc::new(NoEvents),
            clock.clone(),
            Arc::new(PlayedExecutors),
            TaskMetrics::default(),
            BatchSettings::default(),
        );
        crew.add(&parts, Controller::BatchSandbox, batches);
        let pools = PoolReconciler::new(
            view.clone(),
            writes.clone(),
            Arc::new(NoEvents),
            clock.clone(),
            Random::seeded(parts.random.number()),
            Arc::new(PlayedExec),
            PoolSettings::default(),
            PoolMetrics::default(),
        );
        crew.add(&parts, Controller::Pool, pools);
        let settings =
            SnapshotSettings { registry: Some("registry.example.com".to_owned()), ..Default::default() };
        let snapshots = SandboxSnapshotReconciler::new(
            view.clone(),
            writes.clone(),
            Arc::new(NoEvents),
            clock.clone(),
            settings,
        );
        crew.add(&parts, Controller::SandboxSnapshot, snapshots);
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

    fn surroundings(model: &mut Model, random: &mut sandgate_sim::Random, failures: u64) -> Option<String> {
        surroundings::step(model, random, failures)
    }
}
