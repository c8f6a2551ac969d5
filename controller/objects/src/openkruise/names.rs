//! The names that controllers write on OpenKruise's objects: labels, annotations, finalizers, phases,
//! conditions and reasons. They are the wire contract, shared with OpenKruise's own programs.

/// The prefix of OpenKruise's own labels and annotations.
pub const PREFIX: &str = "agents.kruise.io/";

/// The label with the name of the SandboxSet that made the sandbox.
pub const LABEL_SANDBOX_POOL: &str = "agents.kruise.io/sandbox-pool";
/// The label with the name that a claim looks for.
pub const LABEL_SANDBOX_TEMPLATE: &str = "agents.kruise.io/sandbox-template";
/// The label that says whether the sandbox has been claimed: `true` or `false`.
pub const LABEL_SANDBOX_CLAIMED: &str = "agents.kruise.io/sandbox-claimed";
/// The label with the name of the SandboxClaim that claimed the sandbox.
pub const LABEL_CLAIM_NAME: &str = "agents.kruise.io/claim-name";
/// The label with the revision of the template that the sandbox was made from.
pub const LABEL_TEMPLATE_HASH: &str = "agents.kruise.io/template-hash";
/// The label of a sandbox that failed and is kept for inspection.
pub const LABEL_RESERVED_FAILED: &str = "agents.kruise.io/reserved-failed-sandbox";
/// The label, on the sandbox and its pod, that says whether it may reach the internet: `true` or `false`.
pub const LABEL_ALLOW_INTERNET: &str = "agents.kruise.io/allow-internet-access";
/// The label of a pod or a checkpoint with the name of its sandbox.
pub const LABEL_SANDBOX_NAME: &str = "agents.kruise.io/sandbox-name";
/// The label of a pod that says who created it; see [`ANNOTATION_CREATED_BY`].
pub const LABEL_CREATED_BY: &str = "agents.kruise.io/created-by";
/// The label of a pod with the revision of the template that it runs.
pub const LABEL_POD_TEMPLATE_HASH: &str = "pod-template-hash";
/// The label of a checkpoint with its kind.
pub const LABEL_CHECKPOINT_TYPE: &str = "agents.kruise.io/checkpoint-type";
/// The label of a checkpoint with its ID.
pub const LABEL_CHECKPOINT_ID: &str = "agents.kruise.io/checkpoint-id";

/// The annotation of a sandbox that somebody has taken from its pool: who holds the lock.
pub const ANNOTATION_LOCK: &str = "agents.kruise.io/lock";
/// The annotation with the owner.
pub const ANNOTATION_OWNER: &str = super::OWNER;
/// The owner of a pool's sandbox that is about to be deleted by a scale-down.
pub const OWNER_SCALE_DOWN: &str = "__manager_scale_down";
/// The annotation of a pod that says who created it: [`CREATED_BY_SANDBOX`] or `external`.
pub const ANNOTATION_CREATED_BY: &str = "agents.kruise.io/created-by";
/// The value of [`ANNOTATION_CREATED_BY`] on a pod that a sandbox's controller made.
pub const CREATED_BY_SANDBOX: &str = "sandbox";
/// The annotation with the time of the claim.
pub const ANNOTATION_CLAIM_TIMESTAMP: &str = "agents.kruise.io/claim-timestamp";
/// The annotation with the checkpoint that a sandbox starts from.
pub const ANNOTATION_RESTORE_FROM: &str = "agents.kruise.io/restore-from";
/// The annotation with what the sandbox's runtime is initialised with.
pub const ANNOTATION_INIT_RUNTIME_REQUEST: &str = "agents.kruise.io/init-runtime-request";
/// The annotation with the URL of the sandbox's runtime, where it is not at the pod's address.
pub const ANNOTATION_RUNTIME_URL: &str = "agents.kruise.io/runtime-url";
/// The annotation with the access token of the sandbox's runtime.
pub const ANNOTATION_RUNTIME_ACCESS_TOKEN: &str = super::RUNTIME_ACCESS_TOKEN;
/// The annotation with how long a sandbox is kept after it was paused by its `pauseTime`.
pub const ANNOTATION_RESERVE_PAUSED: &str = "agents.kruise.io/reserve-paused-sandbox-duration";
/// The annotation of a SandboxTemplate that no revision of its set needs any more.
pub const ANNOTATION_CLEANUP_CANDIDATE: &str = "agents.kruise.io/cleanup-candidate";
/// The annotation of a sandbox that is created before others.
pub const ANNOTATION_SANDBOX_PRIORITY: &str = "agents.kruise.io/sandbox-priority";
/// The annotation with the hash of the parts of a template that an update in place cannot change.
pub const ANNOTATION_HASH_IMMUTABLE_PART: &str = "sandbox.agents.kruise.io/hash-immutable-part";

/// The finalizer of a sandbox whose pod has to go before it.
pub const FINALIZER: &str = "agents.kruise.io/sandbox";
/// The finalizer of a checkpoint.
pub const FINALIZER_CHECKPOINT: &str = "agents.kruise.io/checkpoint";

/// The phase of a sandbox whose pod does not run yet.
pub const PHASE_PENDING: &str = "Pending";
/// The phase of a sandbox whose pod runs.
pub const PHASE_RUNNING: &str = "Running";
/// The phase of a sandbox that is paused or about to be.
pub const PHASE_PAUSED: &str = "Paused";
/// The phase of a sandbox that gets a new pod after a pause.
pub const PHASE_RESUMING: &str = "Resuming";
/// The phase of a sandbox that gets a new pod of another revision.
pub const PHASE_UPGRADING: &str = "Upgrading";
/// The phase of a sandbox that goes back to its pool.
pub const PHASE_RECYCLING: &str = "Recycling";
/// The phase of a sandbox whose pod has ended well.
pub const PHASE_SUCCEEDED: &str = "Succeeded";
/// The phase of a sandbox whose pod has failed or is lost.
pub const PHASE_FAILED: &str = "Failed";
/// The phase of a sandbox that is being deleted.
pub const PHASE_TERMINATING: &str = "Terminating";

/// The condition of a sandbox that serves.
pub const CONDITION_READY: &str = crate::READY;
/// The condition of a sandbox that is paused: its pod is gone.
pub const CONDITION_PAUSED: &str = "SandboxPaused";
/// The condition of a sandbox that came back from a pause.
pub const CONDITION_RESUMED: &str = "SandboxResumed";
/// The condition of a sandbox whose pod is updated in place.
pub const CONDITION_INPLACE_UPDATE: &str = "InplaceUpdate";
/// The condition of a sandbox whose runtime has been initialised.
pub const CONDITION_RUNTIME_INITIALIZED: &str = "RuntimeInitialized";

/// [`CONDITION_READY`]: it says what the pod says.
pub const REASON_POD_READY: &str = "PodReady";
/// [`CONDITION_READY`]: a container cannot start.
pub const REASON_START_CONTAINER_FAILED: &str = "StartContainerFailed";
/// [`CONDITION_READY`]: the pod cannot be created.
pub const REASON_POD_CREATE_FAILED: &str = "PodCreateFailed";
/// [`CONDITION_READY`] and [`CONDITION_INPLACE_UPDATE`]: the pod is being updated in place.
pub const REASON_INPLACE_UPDATING: &str = "InplaceUpdating";
/// [`CONDITION_PAUSED`] and [`CONDITION_RUNTIME_INITIALIZED`]: not done yet.
pub const REASON_PENDING: &str = "Pending";
/// [`CONDITION_PAUSED`]: the pod is gone.
pub const REASON_STOP_PAUSE_SUCCEED: &str = "StopPauseSucceed";
/// [`CONDITION_RESUMED`]: the pod is being created.
pub const REASON_CREATE_POD: &str = "CreatePod";
/// [`CONDITION_RESUMED`]: the pod starts.
pub const REASON_RESUME_POD: &str = "ResumePod";
/// [`CONDITION_INPLACE_UPDATE`] and [`CONDITION_RUNTIME_INITIALIZED`]: done.
pub const REASON_SUCCEEDED: &str = "Succeeded";
/// [`CONDITION_INPLACE_UPDATE`] and [`CONDITION_RUNTIME_INITIALIZED`]: it did not work.
pub const REASON_FAILED: &str = "Failed";
