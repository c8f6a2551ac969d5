//! The names that controllers write on the objects of this family: labels, annotations, finalizers, phases,
//! conditions and reasons. They are the wire contract, shared with scitix's own programs, but for those that
//! begin with `sandgate.dev/`.

/// The API group of the kinds.
pub const GROUP: &str = "agents.navix.sh";
/// The version of the kinds.
pub const VERSION: &str = "v1alpha1";
/// Group and version of the kinds.
pub const API_VERSION: &str = "agents.navix.sh/v1alpha1";
/// The kind of environments, as owner references have it.
pub const KIND_ENV: &str = "SandboxEnv";
/// The kind of pools, as owner references have it.
pub const KIND_POOL: &str = "SandboxPool";
/// The cluster of a process that was not told where it is.
pub const LOCAL_CLUSTER: &str = "local";

/// The label of a pod with the name of its pool.
pub const LABEL_POOL: &str = "agentbox.navix.sh/sandbox-pool";
/// The label of a pod with its phase: one of the `PHASE_` words. Another word counts as idle.
pub const LABEL_PHASE: &str = "agentbox.navix.sh/sandbox-phase";
/// The label, and the annotation, of a claimed pod with the ID of its sandbox.
pub const SANDBOX_ID: &str = "agentbox.navix.sh/sandbox-id";
/// The label of everything that a program of this family manages.
pub const LABEL_MANAGED_BY: &str = "agentbox.navix.sh/managed-by";
/// The value of [`LABEL_MANAGED_BY`].
pub const MANAGED_BY: &str = "sandbox-api-server";
/// The label of a pool, its pod template and its pods with the revision of the template.
pub const LABEL_TEMPLATE_HASH: &str = "agentbox.navix.sh/template-hash";
/// The label of a pool and its pods with the name of their environment.
pub const LABEL_ENV: &str = "agentbox.navix.sh/env";
/// The label of a pool with the name of its scaling group.
pub const LABEL_SCALING_GROUP: &str = "agentbox.navix.sh/scaling-group";
/// The label with the team that is billed.
pub const LABEL_TEAM: &str = "scheduling.navix.sh/team";
/// The label with the user who is billed.
pub const LABEL_USER: &str = "scheduling.navix.sh/user";
/// The label of a template that was copied from elsewhere. It is never copied on.
pub const LABEL_SYNC_SOURCE: &str = "agentbox.io/sync-source";

/// The annotation with the time of a claim (RFC 3339).
pub const ANNOTATION_CLAIMED_AT: &str = "agentbox.navix.sh/claimed-at";
/// The annotation with the time at which a sandbox began to run (RFC 3339).
pub const ANNOTATION_STARTED_AT: &str = "agentbox.navix.sh/started-at";
/// The annotation with the seconds of silence after which a sandbox is released; `0` is never.
pub const ANNOTATION_IDLE_TIMEOUT: &str = "agentbox.navix.sh/idle-timeout";
/// The annotation with the seconds that a sandbox may take to start.
pub const ANNOTATION_STARTUP_TIMEOUT: &str = "agentbox.navix.sh/startup-timeout";
/// The annotation with the last time that anything moved (RFC 3339).
pub const ANNOTATION_LAST_ACTIVE: &str = "agentbox.navix.sh/last-active";
/// The annotation with the user's own words about a sandbox: a JSON object of texts.
pub const ANNOTATION_METADATA: &str = "agentbox.navix.sh/sandbox-metadata";
/// The annotation with the labels that a claim added: a JSON list. A release takes them off.
pub const ANNOTATION_MANAGED_LABELS: &str = "agentbox.navix.sh/managed-label-keys";
/// The annotation with the annotations that a claim added: a JSON list. A release takes them off.
pub const ANNOTATION_MANAGED_ANNOTATIONS: &str = "agentbox.navix.sh/managed-annotation-keys";
/// The annotation with why a sandbox was released: one of the `STOP_` words.
pub const ANNOTATION_STOP_REASON: &str = "agentbox.navix.sh/stop-reason";
/// The annotation with the time of a release (RFC 3339).
pub const ANNOTATION_TERMINATED_AT: &str = "agentbox.navix.sh/terminated-at";
/// The annotation with the reason of a failure, in one word.
pub const ANNOTATION_FAILURE_REASON: &str = "agentbox.navix.sh/failure-reason";
/// The annotation with the reason of a failure, for people.
pub const ANNOTATION_FAILURE_MESSAGE: &str = "agentbox.navix.sh/failure-message";
/// The annotation with the exit code of a container that ended.
pub const ANNOTATION_EXIT_CODE: &str = "agentbox.navix.sh/exit-code";
/// The annotation with the images that a sandbox runs: a JSON object by container.
pub const ANNOTATION_RUNNING_IMAGES: &str = "agentbox.navix.sh/running-images";
/// The annotation with the ID of a sandbox's first container.
pub const ANNOTATION_CONTAINER_ID: &str = "agentbox.navix.sh/container-id";
/// The annotation of an idle pod that is about to be deleted, with the time of the mark (RFC 3339). It is not
/// claimed.
pub const ANNOTATION_SCALE_DOWN: &str = "agentbox.navix.sh/scale-down-protected";
/// The annotation with the change of images that is under way: a JSON object.
pub const ANNOTATION_INPLACE_STATE: &str = "agentbox.navix.sh/inplace-update-state";
/// The annotation of a sandbox that must be armed before it is served: its ID once it is.
pub const ANNOTATION_ARMED: &str = "agentbox.navix.sh/sandbox-armed";
/// The annotation with why a sandbox could not be armed.
pub const ANNOTATION_ARM_ERROR: &str = "agentbox.navix.sh/sandbox-arm-error";
/// The annotation with where a sandbox may connect to.
pub const ANNOTATION_EGRESS_POLICY: &str = "agentbox.navix.sh/egress-policy";
/// The annotation with what is added to a sandbox's requests.
pub const ANNOTATION_EGRESS_INJECT: &str = "agentbox.navix.sh/egress-inject";
/// The annotation with what is run once a sandbox has started.
pub const ANNOTATION_POST_START_HOOKS: &str = "agentbox.navix.sh/post-start-hooks";
/// The annotation of a pool with the name of the template that it was rendered from.
pub const ANNOTATION_TEMPLATE_NAME: &str = "agentbox.navix.sh/template-name";
/// The annotation of a pool with the version of the template that it was rendered from.
pub const ANNOTATION_TEMPLATE_VERSION: &str = "agentbox.navix.sh/template-version";
/// The annotation of a pool with the time of the last claim (RFC 3339).
pub const ANNOTATION_LAST_CREATE: &str = "agentbox.navix.sh/last-sandbox-create-time";
/// The annotation with documentation. It is not copied.
pub const ANNOTATION_DOCS: &str = "agentbox.navix.sh/docs";
/// The annotation of a pool with documentation. It is not copied.
pub const ANNOTATION_POOL_DOCS: &str = "agentbox.navix.sh/pool-docs";
/// Sandgate's annotation of a claimed pod with the API key that owns the sandbox.
pub const ANNOTATION_OWNER: &str = "sandgate.dev/owner";
/// Sandgate's annotation of a claimed pod with the token that its clients must present.
pub const ANNOTATION_ACCESS_TOKEN: &str = "sandgate.dev/access-token";
/// Sandgate's annotation of a claimed pod with the token that its clients must present on every port but that
/// of its runtime.
pub const ANNOTATION_TRAFFIC_ACCESS_TOKEN: &str = crate::TRAFFIC_ACCESS_TOKEN;
/// The beginning of Sandgate's annotations of a pool with how many claims wait for one of its pods: one for
/// each replica of the manager, `{count}@{RFC 3339}`.
pub const PREFIX_PENDING: &str = "sandgate.dev/pending-";

/// The finalizer of a pool.
pub const FINALIZER_POOL: &str = "agentbox.navix.sh/finalizer";
/// The finalizer of a pool's pod.
pub const FINALIZER_POD: &str = "agentbox.navix.sh/sandbox-protection";

/// The pod waits for a claim.
pub const PHASE_IDLE: &str = "idle";
/// The pod is claimed, and its images are being changed.
pub const PHASE_STARTING: &str = "starting";
/// The pod is a sandbox.
pub const PHASE_RUNNING: &str = "running";
/// The pod is released, and its images are being changed back.
pub const PHASE_STOPPING: &str = "stopping";
/// The pod cannot be used.
pub const PHASE_FAILED: &str = "failed";

/// The sandbox ended by itself.
pub const STOP_COMPLETED: &str = "Completed";
/// Somebody released it, or nobody used it for long.
pub const STOP_RELEASED: &str = "Released";
/// It could not go on.
pub const STOP_FAILED: &str = "Failed";
/// Nobody waited for it any more.
pub const STOP_CANCELED: &str = "Canceled";

/// The beginning of the name of an environment's pull secret: `ips-{env}`.
pub const PULL_SECRET: &str = "ips-";
