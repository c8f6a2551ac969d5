//! The reconcilers of Sandgate's control plane, as a library; `sandgate-operator` is a thin shell around it.
#![forbid(unsafe_code)]

mod args;
mod clock;
mod conditions;
mod controller;
mod deadline;
mod events;
mod key;
mod lease;
mod merge;
mod metrics;
mod queue;
mod random;
mod reconciler;
mod reference;
mod revision;
mod run;
mod sandbox;
mod sandbox_set;
mod serve;
mod view;
mod writes;

pub use args::{Args, ControllerName, LogFormat};
pub use clock::{Clock, ManualClock, SystemClock};
pub use controller::{Limits, Workers};
pub use events::{ClusterEvents, EventKind, EventTask, Events, NoEvents, Published, RecordedEvents};
pub use key::Key;
pub use lease::{Candidate, CandidateStatus, Leadership, Tenure, Term, Times, TimesError};
pub use metrics::{ControllerMetrics, EventMetrics, Followed, Measured, Metrics, Scraped, WriteMetrics};
pub use queue::{Job, Next, Pace, Queue};
pub use random::Random;
pub use reconciler::{Again, Category, Failed, Reconciler};
pub use revision::revision;
pub use run::{Operator, RunError, run};
pub use sandbox::{PauseStrategy, Pauses, Pausing, Refusal, SandboxReconciler, Stop};
pub use sandbox_set::SandboxSetReconciler;
pub use serve::{Pages, Server};
pub use view::{
    Child, Class, ContainerFacts, Controller, Counts, Feed, Kind, Mark, Members, PodFacts, Rank, Reserved,
    Resize, Seen, View, Viewed,
};
pub use writes::{WriteError, Writes};
