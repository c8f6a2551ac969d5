//! What an operator may set of the manager's behaviour. The flags of `sandgate-manager` fill it in.

use std::time::Duration;

/// For ever, as OpenKruise writes it in an object: a hundred years.
pub const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// How the manager behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The namespace of the manager's own objects: keys, quotas, markers of creates.
    pub system_namespace: String,
    /// The namespace that the manager works in; none is all of them.
    pub namespace: Option<String>,
    /// How long a create, pause, resume or kill waits for the gateways to have the route.
    pub push_wait: Duration,
    /// How long a create waits for a sandbox of the pool, unless it says otherwise.
    pub claim_timeout: Duration,
    /// How long a create waits until the sandbox is ready, unless it says otherwise.
    pub ready_timeout: Duration,
    /// How long a pause may take.
    pub pause_timeout: Duration,
    /// How long a resume may take.
    pub resume_timeout: Duration,
    /// A resume gives a sandbox that ends or pauses by itself at least so long.
    pub min_resume_timeout: Duration,
    /// The longest timeout of a sandbox.
    pub max_timeout: Duration,
    /// The port of the runtime in a pod.
    pub runtime_port: u16,
    /// What is known of who executes checkpoints.
    pub snapshots: SnapshotSettings,
    /// Whether the cluster has TrafficPolicy objects. Without them rules for a sandbox's network are refused.
    pub traffic_policies: bool,
    /// How long an entry of a quota's ledger lives without a sandbox.
    pub quota_grace: Duration,
}

/// What the manager knows of who executes checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Something in the cluster executes checkpoints. If not, snapshots are refused at once.
    pub executor: bool,
    /// A checkpoint whose status is empty for so long is one that nobody executes.
    pub start_wait: Duration,
    /// How long a snapshot may take, unless the request says otherwise.
    pub wait: Duration,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        Self { executor: true, start_wait: Duration::from_secs(10), wait: Duration::from_secs(60) }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            system_namespace: "sandgate-system".to_owned(),
            namespace: None,
            push_wait: Duration::from_millis(500),
            claim_timeout: Duration::from_secs(60),
            ready_timeout: Duration::from_secs(60),
            pause_timeout: Duration::from_secs(60),
            resume_timeout: Duration::from_secs(600),
            min_resume_timeout: Duration::from_secs(300),
            max_timeout: Duration::from_secs(30 * 24 * 3600),
            runtime_port: 49983,
            snapshots: SnapshotSettings::default(),
            traffic_policies: false,
            quota_grace: Duration::from_secs(600),
        }
    }
}
