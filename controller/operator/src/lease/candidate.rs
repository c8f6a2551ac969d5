//! The task that takes part in an election: the state machine, the API server, and the timers between them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::election::{Claim, Election, Record, Step};
use super::{Leadership, Tenure, Times};
use crate::{Clock, Random};

/// One replica's part in the election.
pub struct Candidate {
    api: Api<Lease>,
    name: String,
    me: Arc<str>,
    election: Election,
    tenure: Tenure,
    status: Arc<CandidateStatus>,
    random: Random,
    clock: Arc<dyn Clock>,
    /// When the lease was acquired, and the rest of it as it was read: a write keeps what it does not set.
    lease: Lease,
    last_error: Option<String>,
    resigned: bool,
}

/// What a candidate is doing, for other tasks to read.
#[derive(Debug)]
pub struct CandidateStatus {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    last_round: Instant,
    holder: Option<Arc<str>>,
    changes: u64,
}

impl CandidateStatus {
    /// When the candidate last began to read or write the lease. It does so every few seconds, whatever the
    /// API server answers: if this gets old, the task is stuck.
    pub fn last_round(&self) -> Instant {
        self.inner.lock().last_round
    }

    /// Who holds the lease, as far as is known.
    pub fn holder(&self) -> Option<Arc<str>> {
        self.inner.lock().holder.clone()
    }

    /// How often this process began to lead and ceased to.
    pub fn changes(&self) -> u64 {
        self.inner.lock().changes
    }
}

impl Candidate {
    /// A candidate for the lease `namespace/name`. `me` must be unique to this process: two that share it
    /// would both lead. Nothing is requested before [`run`](Self::run).
    pub fn new(
        client: Client,
        namespace: &str,
        name: &str,
        me: &str,
        times: Times,
        clock: Arc<dyn Clock>,
        random: Random,
    ) -> (Self, Leadership) {
        let (tenure, leadership) = Leadership::new();
        let me: Arc<str> = me.into();
        let inner = Inner { last_round: Instant::now(), holder: None, changes: 0 };
        let candidate = Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
            election: Election::new(Arc::clone(&me), times),
            me,
            tenure,
            status: Arc::new(CandidateStatus { inner: Mutex::new(inner) }),
            random,
            clock,
            lease: Lease::default(),
            last_error: None,
            resigned: false,
        };
        (candidate, leadership)
    }

    /// What the candidate is doing.
    pub fn status(&self) -> Arc<CandidateStatus> {
        Arc::clone(&self.status)
    }

    /// Takes part until `stop`, and then gives the lease up. The caller must have ended its work before it
    /// stops this: from then on [`Leadership::check`] fails.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut led = false;
        loop {
            self.status.inner.lock().last_round = Instant::now();
            let done = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                wait = self.round() => wait,
            };
            led = self.publish(led);
            let ends = self.election.leads(Instant::now()).map(|(_, until)| until - Instant::now());
            let wait = done.min(ends.unwrap_or(done));
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = sleep(wait) => {}
            }
            led = self.publish(led);
        }
        self.resigned = true;
        self.election.resign();
        self.publish(led);
        // A renewal that was cancelled may have been done, so the lease is read first.
        let released = timeout(self.patience(), self.release()).await;
        match released {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!("the lease was not given up, and ends by itself: {error}"),
            Err(_) => tracing::warn!("the lease was not given up in time, and ends by itself"),
        }
    }

    /// Says what the election says. Returns whether this candidate leads.
    fn publish(&self, led: bool) -> bool {
        let leads = self.election.leads(Instant::now());
        match leads {
            Some((term, until)) => self.tenure.lead(term, until),
            None => self.tenure.end(),
        }
        let mut status = self.status.inner.lock();
        if led != leads.is_some() {
            status.changes += 1;
            match leads {
                Some((term, _)) => tracing::info!(term = term.0, "{} leads", self.me),
                None if self.resigned => tracing::info!("{} ceases to lead", self.me),
                None => tracing::warn!("{} does not lead any more", self.me),
            }
        }
        let holder = self.election.holder();
        if status.holder.as_ref() != holder {
            status.holder = holder.cloned();
            if let Some(holder) = holder.filter(|holder| **holder != self.me) {
                tracing::info!("{holder} holds the lease; this process stands by");
            }
        }
        leads.is_some()
    }

    /// How long one request may take. Two fit into the time in which a leader must renew.
    fn patience(&self) -> Duration {
        self.election.times().renew() / 2
    }

    /// One request. Returns the wait until the next.
    async fn round(&mut self) -> Duration {
        let (retry, patience) = (self.election.times().retry(), self.patience());
        match self.election.step(Instant::now()) {
            Step::Read => {
                let read = timeout(patience, self.api.get_opt(&self.name)).await;
                match read {
                    Ok(Ok(lease)) => {
                        self.last_error = None;
                        self.keep(lease);
                    }
                    Ok(Err(error)) => self.report("the lease cannot be read", &error.to_string()),
                    Err(_) => self.report("the lease cannot be read", "the API server does not answer"),
                }
            }
            Step::Claim(claim) => {
                self.claim(&claim, patience).await;
                return retry;
            }
        }
        let now = Instant::now();
        match self.election.step(now) {
            // What was read may be claimed at once.
            Step::Claim(_) => Duration::ZERO,
            Step::Read => {
                let wait = self.random.between(retry.mul_f64(0.8), retry);
                let claimable = self.election.claimable_at().map(|at| at.saturating_duration_since(now));
                claimable.filter(|until| !until.is_zero()).map_or(wait, |until| until.min(wait))
            }
        }
    }

    fn keep(&mut self, lease: Option<Lease>) {
        let record = lease.as_ref().map(record);
        self.lease = lease.unwrap_or_default();
        self.election.observed(Instant::now(), record);
    }

    async fn claim(&mut self, claim: &Claim, patience: Duration) {
        let lease = self.claimed_lease(claim);
        let sent = Instant::now();
        let written = match claim.replaces {
            Some(_) => timeout(patience, self.api.replace(&self.name, &params(), &lease)).await,
            None => timeout(patience, self.api.create(&params(), &lease)).await,
        };
        match written {
            Ok(Ok(lease)) => {
                self.last_error = None;
                self.election.claimed(sent, Instant::now(), record(&lease));
                self.lease = lease;
                return;
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => {
                tracing::debug!("somebody else wrote the lease first");
            }
            Ok(Err(error)) => self.report("the lease cannot be written", &error.to_string()),
            Err(_) => self.report("the lease cannot be written", "the API server does not answer"),
        }
        self.election.not_claimed();
    }

    /// The lease with this candidate as its holder. Its times are for people to read.
    fn claimed_lease(&self, claim: &Claim) -> Lease {
        let now = Some(MicroTime(self.clock.now()));
        let (mut metadata, spec) = match &claim.replaces {
            Some(_) => (self.lease.metadata.clone(), self.lease.spec.clone().unwrap_or_default()),
            None => {
                (ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() }, LeaseSpec::default())
            }
        };
        metadata.managed_fields = None;
        metadata.resource_version.clone_from(&claim.replaces);
        let seconds = self.election.times().duration().as_secs();
        let acquire_time =
            if claim.new_holder { now.clone() } else { spec.acquire_time.or_else(|| now.clone()) };
        let spec = LeaseSpec {
            holder_identity: Some(self.me.to_string()),
            lease_duration_seconds: i32::try_from(seconds).ok(),
            acquire_time,
            renew_time: now,
            lease_transitions: Some(claim.transitions),
            ..spec
        };
        Lease { metadata, spec: Some(spec) }
    }

    async fn release(&mut self) -> Result<(), kube::Error> {
        if self.status.holder().is_some_and(|holder| holder != self.me) {
            return Ok(());
        }
        let lease = self.api.get_opt(&self.name).await?;
        self.keep(lease);
        if self.election.mine().is_none() {
            return Ok(());
        }
        let mut lease = self.lease.clone();
        lease.metadata.managed_fields = None;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(self.clock.now()));
        self.api.replace(&self.name, &params(), &lease).await?;
        tracing::info!("{} has given up the lease", self.me);
        Ok(())
    }

    /// Logs a failure, once as long as it stays the same.
    fn report(&mut self, what: &str, error: &str) {
        let text = format!("{what}: {error}");
        if self.last_error.as_ref() != Some(&text) {
            tracing::warn!("{text}");
            self.last_error = Some(text);
        }
    }
}

fn params() -> kube::api::PostParams {
    kube::api::PostParams::default()
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.lease_duration_seconds);
    Record {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        holder: spec
            .and_then(|spec| spec.holder_identity.as_deref())
            .filter(|holder| !holder.is_empty())
            .map(Into::into),
        duration: seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs),
        transitions: spec.and_then(|spec| spec.lease_transitions).unwrap_or_default(),
    }
}
