//! The reconcilers of Sandgate's control plane, as a library; `sandgate-operator` is a thin shell around it.
#![forbid(unsafe_code)]

mod admission;
mod args;
mod assign;
mod autoscale;
mod batch;
mod child_name;
mod conditions;
mod controller;
mod deadline;
mod env_pool;
mod environment;
mod events;
mod facts;
mod failures;
mod lease;
mod merge;
mod metrics;
mod pool;
mod queue;
mod reconciler;
mod reference;
mod revision;
mod run;
mod sandbox;
mod sandbox_set;
mod snapshot;
mod strategic_merge;
mod tasks;
mod view;
mod writes;

pub use admission::{Admission, Admissions, Admitted, Cap, NotAdmitted, Verdict};
pub use args::{
    ActivityArgs, ActivityArgsError, Args, Bind, Concurrency, ControllerName, EnvArgs, LogFormat,
    OpenSandboxArgs,
};
pub use autoscale::{
    Admission as ScaleAdmission, AdmissionLadder, AdmissionOutcome, AdmissionRefusal, Growth, RefusalKind,
    ScaleDecision, ScaleEvent, ScaleFloor, ScaleLevels, ScaleLimits, ScalePlan, ScalePool, ScaleReason,
    ScaleSession, ScaleSnapshot, ScaleTrigger, ScaleVerdict, SessionChange, saturated_until,
};
#[cfg(any(test, feature = "testing"))]
pub use autoscale::{ModelPool, ModelTimes, ScaleModel, ScaleRow};
pub use batch::{BatchSandboxReconciler, BatchSettings};
pub use controller::{Limits, Workers};
pub use env_pool::{
    Activity, EnvPoolMetrics, EnvPoolReconciler, GatewayActivity, Gateways, IdleRelease, Unreachable,
};
pub use environment::{
    Catalog, EnvSettings, InstanceTypes, ListedClusters, NoInstanceTypes, PoolAdoptionReconciler,
    SandboxEnvReconciler,
};
pub use events::{ClusterEvents, EventKind, EventTask, Events, NoEvents, Published, RecordedEvents};
pub use lease::{Candidate, CandidateStatus, Leadership, Tenure, Term, Times, TimesError};
pub use metrics::{ControllerMetrics, EventMetrics, Measured, Metrics, Scraped, WriteMetrics};
pub use pool::{ClusterExec, Exec, ExecError, PoolMetrics, PoolReconciler, PoolSettings};
pub use queue::{HEAD_START, Haste, Job, Next, Pace, Queue};
pub use reconciler::{Again, Category, Failed, Reconciler};
pub use revision::revision;
pub use run::{Operator, RunError, run};
pub use sandbox::{PauseStrategy, Pauses, Pausing, Refusal, SandboxReconciler, Stop};
pub use sandbox_set::SandboxSetReconciler;
pub use sandgate_cache::daemon::{Pages, Probes, Server};
pub use sandgate_cache::{Clock, Followed, Key, ManualClock, Random, Seen, SystemClock, Viewed, WriteError};
pub use snapshot::{CommitWork, Committer, ImageCommitter, SandboxSnapshotReconciler, SnapshotSettings};
pub use tasks::{
    ANNOTATION_TASKS_DONE, Ask, BatchTasks, Done, ExecutorError, Executors, FromTemplate, HttpExecutors,
    Intent, InvalidTask, Look, MissingPod, Notice, Report, Request, Scheduler, TaskCounts, TaskMetrics,
    TaskPod, TaskSchedulingStrategy, TaskSource, Tasks, TokenError, TokenFile, WhenCompleted,
};
pub use view::{
    BatchPod, Child, Class, ContainerFacts, ContainerState, Controller, Counts, EnvPodClass, EnvPodCounts,
    EnvPods, Feed, JobFacts, Kind, Mark, Members, Need, Needy, OwnPod, Owner, PodClass, PodFacts, PodPhase,
    PodState, PoolCounts, PoolLevels, PoolLook, PoolPod, Rank, Reserved, Resize, SeenPod, Slots, View,
    env_of, mark_of, pool_of,
};
pub use writes::Writes;
