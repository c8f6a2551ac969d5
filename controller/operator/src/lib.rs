//! The reconcilers of Sandgate's control plane, as a library; `sandgate-operator` is a thin shell around it.
#![forbid(unsafe_code)]

mod args;
mod conditions;
mod controller;
mod deadline;
mod events;
mod lease;
mod merge;
mod metrics;
mod queue;
mod reconciler;
mod reference;
mod revision;
mod run;
mod sandbox;
mod sandbox_set;
mod view;
mod writes;

pub use args::{Args, ControllerName, LogFormat};
pub use controller::{Limits, Workers};
pub use events::{ClusterEvents, EventKind, EventTask, Events, NoEvents, Published, RecordedEvents};
pub use lease::{Candidate, CandidateStatus, Leadership, Tenure, Term, Times, TimesError};
pub use metrics::{ControllerMetrics, EventMetrics, Measured, Metrics, Scraped, WriteMetrics};
pub use queue::{Job, Next, Pace, Queue};
pub use reconciler::{Again, Category, Failed, Reconciler};
pub use revision::revision;
pub use run::{Operator, RunError, run};
pub use sandbox::{PauseStrategy, Pauses, Pausing, Refusal, SandboxReconciler, Stop};
pub use sandbox_set::SandboxSetReconciler;
pub use sandgate_cache::daemon::{Pages, Server};
pub use sandgate_cache::{Clock, Followed, Key, ManualClock, Random, Seen, SystemClock, Viewed, WriteError};
pub use view::{
    Child, Class, ContainerFacts, Controller, Counts, Feed, Kind, Mark, Members, PodFacts, Rank, Reserved,
    Resize, View,
};
pub use writes::Writes;
