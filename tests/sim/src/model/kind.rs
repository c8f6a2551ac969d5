//! The kinds that the model serves, and what differs between them.

/// A kind of object, as the API server serves it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The API group; empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural, as paths have it.
    pub plural: &'static str,
    /// The name of the kind.
    pub kind: &'static str,
    /// Whether the status is written on a path of its own.
    pub status: bool,
    /// Whether objects have a generation.
    pub generation: bool,
    /// Whether an update may leave the resourceVersion out.
    pub unconditional: bool,
    /// Whether `scale` is served, from `spec.replicas`.
    pub scale: bool,
}

impl Kind {
    /// The kind of this group and plural.
    pub fn of(group: &str, plural: &str) -> Option<&'static Self> {
        KINDS.iter().copied().find(|kind| kind.group == group && kind.plural == plural)
    }

    /// The kind of this `apiVersion` and `kind`, as an owner reference names it.
    pub fn named(api_version: &str, name: &str) -> Option<&'static Self> {
        KINDS.iter().copied().find(|kind| kind.kind == name && kind.api_version() == api_version)
    }

    /// `group/version`, or the version alone for the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `plural.group`, as messages of the API server name it.
    pub(crate) fn resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// Whether the kind is a custom resource.
    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.group, "agents.kruise.io" | "sandbox.opensandbox.io" | "agents.navix.sh")
    }

    /// Whether objects of this kind are deleted gracefully.
    pub(crate) fn graceful(&self) -> bool {
        self.plural == "pods"
    }
}

const fn custom(plural: &'static str, kind: &'static str, status: bool, scale: bool) -> Kind {
    Kind {
        group: "agents.kruise.io",
        version: "v1alpha1",
        plural,
        kind,
        status,
        generation: true,
        unconditional: false,
        scale,
    }
}

/// A kind of OpenSandbox. All of them have a status of its own.
const fn opensandbox(plural: &'static str, kind: &'static str) -> Kind {
    Kind { group: "sandbox.opensandbox.io", ..custom(plural, kind, true, false) }
}

/// A kind of scitix's environments.
const fn environment(plural: &'static str, kind: &'static str, status: bool) -> Kind {
    Kind { group: "agents.navix.sh", ..custom(plural, kind, status, false) }
}

const fn core(plural: &'static str, kind: &'static str, status: bool, generation: bool) -> Kind {
    Kind { group: "", version: "v1", plural, kind, status, generation, unconditional: true, scale: false }
}

/// `sandboxes`
pub static SANDBOXES: Kind = custom("sandboxes", "Sandbox", true, false);
/// `sandboxsets`
pub static SANDBOX_SETS: Kind = custom("sandboxsets", "SandboxSet", true, true);
/// `sandboxtemplates`
pub static SANDBOX_TEMPLATES: Kind = custom("sandboxtemplates", "SandboxTemplate", false, false);
/// `checkpoints`
pub static CHECKPOINTS: Kind = custom("checkpoints", "Checkpoint", true, false);
/// `trafficpolicies`
pub static TRAFFIC_POLICIES: Kind = custom("trafficpolicies", "TrafficPolicy", false, false);
/// `batchsandboxes`
pub static BATCHES: Kind = opensandbox("batchsandboxes", "BatchSandbox");
/// `pools`
pub static POOLS: Kind = opensandbox("pools", "Pool");
/// `sandboxsnapshots`
pub static SNAPSHOTS: Kind = opensandbox("sandboxsnapshots", "SandboxSnapshot");
/// `sandboxenvs`
pub static ENVS: Kind = environment("sandboxenvs", "SandboxEnv", true);
/// `sandboxpools` of environments
pub static ENV_POOLS: Kind = environment("sandboxpools", "SandboxPool", true);
/// `jobs`
pub static JOBS: Kind = Kind { group: "batch", ..core("jobs", "Job", true, true) };
/// `pods`
pub static PODS: Kind = core("pods", "Pod", true, true);
/// `persistentvolumeclaims`
pub static VOLUME_CLAIMS: Kind = core("persistentvolumeclaims", "PersistentVolumeClaim", true, false);
/// `secrets`
pub static SECRETS: Kind = core("secrets", "Secret", false, false);
/// `configmaps`
pub static CONFIG_MAPS: Kind = core("configmaps", "ConfigMap", false, false);
/// `events`
pub static EVENTS: Kind = Kind { group: "events.k8s.io", ..core("events", "Event", false, false) };
/// `leases`
pub static LEASES: Kind =
    Kind { group: "coordination.k8s.io", unconditional: false, ..core("leases", "Lease", false, false) };

static KINDS: [&Kind; 17] = [
    &SANDBOXES,
    &SANDBOX_SETS,
    &SANDBOX_TEMPLATES,
    &CHECKPOINTS,
    &TRAFFIC_POLICIES,
    &BATCHES,
    &POOLS,
    &SNAPSHOTS,
    &ENVS,
    &ENV_POOLS,
    &JOBS,
    &PODS,
    &VOLUME_CLAIMS,
    &SECRETS,
    &CONFIG_MAPS,
    &EVENTS,
    &LEASES,
];
