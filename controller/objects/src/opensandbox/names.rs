//! The names that controllers write on OpenSandbox's objects: labels, annotations, finalizers, phases,
//! conditions and reasons. They are the wire contract, shared with OpenSandbox's own programs, but for two
//! annotations that begin with `sandgate.dev/`.

/// The API group of the kinds.
pub const GROUP: &str = "sandbox.opensandbox.io";
/// The version of the kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version of the kinds.
pub const API_VERSION: &str = "sandbox.opensandbox.io/v1alpha1";

/// The annotation of a batch with the pods that it was given, in the order of its slots: an
/// [`Allocation`](super::Allocation). The pool's controller writes it.
pub const ANNOTATION_ALLOC_STATUS: &str = "sandbox.opensandbox.io/alloc-status";
/// The annotation of a batch with the pods that it no longer needs: an [`Allocation`](super::Allocation). The
/// batch's controller writes it.
pub const ANNOTATION_ALLOC_RELEASE: &str = "sandbox.opensandbox.io/alloc-release";
/// The annotation of a batch with the pods that have been taken back from it and recycled: an
/// [`Allocation`](super::Allocation). The pool's controller writes it.
pub const ANNOTATION_ALLOC_RELEASED: &str = "sandbox.opensandbox.io/alloc-released";
/// The annotation of a batch with the addresses of its pods: a JSON list of texts, one a slot. An empty text
/// is a pod without an address.
pub const ANNOTATION_ENDPOINTS: &str = super::ENDPOINTS;
/// The annotation of a pool that says how its pods are restarted: a JSON object.
pub const ANNOTATION_RESTART_CONFIG: &str = "sandbox.opensandbox.io/restart-config";
/// The annotation of a pod whose containers are being restarted, with what has been done so far: a JSON
/// object.
pub const ANNOTATION_RESTART_RECORD: &str = "sandbox.opensandbox.io/restart-record";
/// Sandgate's annotation of a pool's pod that a batch has: `{batch uid}/{batch name}`. It is the lock of the
/// pod.
pub const ANNOTATION_ALLOCATED_TO: &str = "sandgate.dev/allocated-to";
/// Sandgate's annotation of a batch whose pods are recycled in another way than the pool says. The only value
/// is [`RECYCLE_DELETE`].
pub const ANNOTATION_RECYCLE: &str = "sandgate.dev/recycle";
/// The value of [`ANNOTATION_RECYCLE`]: the pods are deleted.
pub const RECYCLE_DELETE: &str = "Delete";

/// The label of a batch's own pod with the number of its slot.
pub const LABEL_POD_INDEX: &str = "batch-sandbox.sandbox.opensandbox.io/pod-index";
/// The label of a pod with the name of its batch. A pool's pod has it while a batch has the pod.
pub const LABEL_BATCH_NAME: &str = "batch-sandbox.sandbox.opensandbox.io/name";
/// The label of a pool's pod with the name of the pool.
pub const LABEL_POOL_NAME: &str = "sandbox.opensandbox.io/pool-name";
/// The label of a pool's pod with the revision of the template that it was made from.
pub const LABEL_POOL_REVISION: &str = "sandbox.opensandbox.io/pool-revision";
/// The label of a pool's pod that has to go as soon as no batch has it. The value does not matter.
pub const LABEL_EVICT: &str = "pool.opensandbox.io/evict";
/// The label of a pool with the name of what decides about evictions.
pub const LABEL_EVICTION_HANDLER: &str = "pool.opensandbox.io/eviction-handler";
/// The label of a job with the name of the snapshot that it is for.
pub const LABEL_SNAPSHOT_NAME: &str = "sandbox.opensandbox.io/sandbox-snapshot-name";
/// The label, `true`, of a job's pod that has access to its node.
pub const LABEL_PRIVILEGED: &str = "sandbox.opensandbox.io/privileged-node-access";

/// The finalizer of a batch whose tasks have to be stopped first.
pub const FINALIZER_TASK_CLEANUP: &str = "batch-sandbox.sandbox.opensandbox.io/task-cleanup";
/// The finalizer of a batch whose pods have to go back to their pool first.
pub const FINALIZER_POOL_ALLOCATION: &str = "pool.sandbox.opensandbox.io/pool-allocation";
/// The finalizer of a snapshot whose jobs have to go first.
pub const FINALIZER_SNAPSHOT_CLEANUP: &str = "sandboxsnapshot.sandbox.opensandbox.io/cleanup";

/// The `poolRef` that leaves the choice of the pool to the controller.
pub const POOL_ANY: &str = "*";

/// The phase of a batch of which no pod is ready, and of a snapshot that has not begun.
pub const PHASE_PENDING: &str = "Pending";
/// The phase of a batch of which a pod is ready, and of a snapshot that is made.
pub const PHASE_SUCCEED: &str = "Succeed";
/// The phase of a batch that is being paused.
pub const PHASE_PAUSING: &str = "Pausing";
/// The phase of a batch that is paused: it has a snapshot and no pods.
pub const PHASE_PAUSED: &str = "Paused";
/// The phase of a batch that comes back from a pause.
pub const PHASE_RESUMING: &str = "Resuming";
/// The phase of a batch whose pods cannot start, and of a snapshot that could not be made.
pub const PHASE_FAILED: &str = "Failed";
/// The phase of a snapshot whose job runs.
pub const PHASE_COMMITTING: &str = "Committing";

/// The condition of a batch of which a pod is ready, and of a snapshot that is made.
pub const CONDITION_READY: &str = crate::READY;
/// The condition of a batch that is on its way to another phase.
pub const CONDITION_PROGRESSING: &str = "Progressing";
/// The condition of a batch that is paused.
pub const CONDITION_PAUSED: &str = "Paused";
/// The condition of a batch that could not be paused.
pub const CONDITION_PAUSE_FAILED: &str = "PauseFailed";
/// The condition of a batch that could not come back from a pause.
pub const CONDITION_RESUME_FAILED: &str = "ResumeFailed";
/// The condition of a batch that has pods which cannot start.
pub const CONDITION_POD_FAILED: &str = "PodFailed";
/// The condition of a snapshot that could not be made.
pub const CONDITION_FAILED: &str = "Failed";

/// [`CONDITION_PROGRESSING`]: pods are created or start.
pub const REASON_CREATING: &str = "Creating";
/// [`CONDITION_READY`] of a batch: a pod is ready.
pub const REASON_PODS_READY: &str = "PodsReady";
/// [`CONDITION_PROGRESSING`]: a pause is on its way.
pub const REASON_PAUSE_IN_PROGRESS: &str = "PauseInProgress";
/// [`CONDITION_PAUSED`]: it is paused.
pub const REASON_PAUSED: &str = "Paused";
/// [`CONDITION_PROGRESSING`]: a resume is on its way.
pub const REASON_RESUME_IN_PROGRESS: &str = "ResumeInProgress";
/// [`CONDITION_PAUSE_FAILED`]: a batch that is not of one pod cannot be paused.
pub const REASON_UNSUPPORTED_REPLICAS: &str = "UnsupportedReplicas";
/// [`CONDITION_PAUSE_FAILED`]: the snapshot could not be made.
pub const REASON_SNAPSHOT_FAILED: &str = "SnapshotFailed";
/// [`CONDITION_PAUSE_FAILED`]: the snapshot could not be made, and the batch has no pod.
pub const REASON_POD_NOT_FOUND: &str = "PodNotFound";
/// [`CONDITION_RESUME_FAILED`]: there is no snapshot to resume from.
pub const REASON_SNAPSHOT_NOT_FOUND: &str = "SnapshotNotFound";
/// [`CONDITION_RESUME_FAILED`]: the snapshot is not made.
pub const REASON_SNAPSHOT_NOT_READY: &str = "SnapshotNotReady";
/// [`CONDITION_READY`] of a snapshot: its images are made.
pub const REASON_SNAPSHOT_READY: &str = "SnapshotReady";
/// [`CONDITION_FAILED`] of a snapshot: the operator was given no registry.
pub const REASON_REGISTRY_NOT_CONFIGURED: &str = "RegistryNotConfigured";
/// [`CONDITION_FAILED`] of a snapshot: its batch could not be read.
pub const REASON_BATCH_SANDBOX_LOOKUP_FAILED: &str = "BatchSandboxLookupFailed";
/// [`CONDITION_FAILED`] of a snapshot: its batch has no pod that runs.
pub const REASON_SOURCE_POD_NOT_FOUND: &str = "SourcePodNotFound";
/// [`CONDITION_FAILED`] of a snapshot: its job failed.
pub const REASON_COMMIT_JOB_FAILED: &str = "CommitJobFailed";

/// Why a container waits that will not start without help.
pub const FAILED_WAITING: [&str; 4] =
    ["CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"];
