//! What the manager is asked for and what it answers, without HTTP.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
pub use sandgate_objects::keys::{Dimension, Limit, Scope};
use serde::{Deserialize, Serialize};

/// Who asks: an API key that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The ID of the key, a UUID. It is the owner of what the caller makes.
    pub owner: Arc<str>,
    /// The team of the key.
    pub team: Arc<str>,
    /// The namespace that the key works in; none is all of them.
    pub namespace: Option<Arc<str>>,
    /// What the key may use at most.
    pub quota: Arc<[Limit]>,
}

/// A sandbox that is asked for. Every field has been checked for form, not against the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewSandbox {
    /// The name of a SandboxSet, the ID of a snapshot, or an environment as `[cluster::]name[//image]`.
    pub template: String,
    /// When it ends or pauses; none is never.
    pub timeout: Option<Duration>,
    /// It pauses at its timeout, and does not end.
    pub auto_pause: bool,
    /// A request for it wakes it when it is paused.
    pub auto_resume: bool,
    /// The user's own words about it.
    pub metadata: BTreeMap<String, String>,
    /// Labels of the sandbox and its pod (`label:` in the metadata).
    pub labels: BTreeMap<String, String>,
    /// Environment variables of every process in it.
    pub env_vars: BTreeMap<String, String>,
    /// Whether it may reach the internet; none is yes.
    pub allow_internet_access: Option<bool>,
    /// Where it may connect to.
    pub network: Option<Network>,
    /// Nobody reaches it without a token of its own, except on the port of its runtime.
    pub private_traffic: bool,
    /// The same words give the same sandbox.
    pub idempotency_key: Option<String>,
    /// What OpenKruise reads from the metadata (`e2b.agents.kruise.io/…`).
    pub extensions: Extensions,
}

/// Where a sandbox may connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Network {
    /// Addresses, networks and names that it may reach.
    pub allow_out: Vec<String>,
    /// Addresses and networks that it may not reach.
    pub deny_out: Vec<String>,
}

/// OpenKruise's own wishes, which come in the metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extensions {
    /// How long to wait for a sandbox of the pool.
    pub claim_timeout: Option<Duration>,
    /// How long to wait until it is ready.
    pub wait_ready_timeout: Option<Duration>,
    /// Another image of the first container.
    pub image: Option<String>,
    /// Another request of CPU, as a quantity.
    pub cpu_request: Option<String>,
    /// Another limit of CPU, as a quantity.
    pub cpu_limit: Option<String>,
    /// The runtime is not initialised.
    pub skip_init_runtime: bool,
    /// What becomes of a sandbox that could not be made ready.
    pub reserve_failed: Reserve,
    /// How long a paused sandbox is kept; none is the default, for ever.
    pub reserve_paused: Option<Duration>,
    /// No new sandbox is made where the pool is empty.
    pub only_from_stock: bool,
    /// The pod's address is among the metadata of the answer.
    pub return_ip: bool,
    /// The name of a sandbox that is made from a snapshot.
    pub name: Option<String>,
}

/// What becomes of a sandbox that could not be made ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// It is deleted.
    #[default]
    Never,
    /// It is kept for so long.
    For(Duration),
    /// It is kept until somebody deletes it.
    Forever,
}

/// A sandbox, as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// The ID.
    pub id: String,
    /// Namespace and name of the object, as `namespace/name`.
    pub resource: String,
    /// The template that it was made from.
    pub template: String,
    /// Whether it runs or is paused.
    pub state: ShownState,
    /// When it was claimed.
    pub started: Timestamp,
    /// When it ends or pauses by itself; none is never.
    pub ends: Option<Timestamp>,
    /// It pauses at its timeout, and does not end.
    pub auto_pause: bool,
    /// A request wakes it.
    pub auto_resume: bool,
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// The user's own words about it.
    pub metadata: BTreeMap<String, String>,
    /// The token of its runtime.
    pub access_token: Option<AccessToken>,
    /// The token without which nobody reaches it, except on the port of its runtime.
    pub traffic_token: Option<AccessToken>,
    /// Whether it may reach the internet.
    pub allow_internet_access: bool,
    /// Where it may connect to.
    pub network: Option<Network>,
    /// The address of its pod, where its maker asked to be told.
    pub ip: Option<String>,
}

/// A token of a sandbox. Only [`reveal`](Self::reveal) shows it; no log does.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Arc<str>);

impl AccessToken {
    /// Takes a token.
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// The token, for its owner.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

/// The states that a user sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShownState {
    /// It runs, or is about to again.
    Running,
    /// It is paused, or about to be.
    Paused,
}

/// Which sandboxes are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only these states; empty is all.
    pub states: Vec<ShownState>,
    /// Only those that have all of these.
    pub metadata: BTreeMap<String, String>,
    /// Only those of this template.
    pub template: Option<String>,
    /// Only those that were started after this time.
    pub started_after: Option<Timestamp>,
    /// Newest first.
    pub descending: bool,
    /// At most so many.
    pub limit: usize,
    /// Where the page begins: what the page before said.
    pub next: Option<String>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next page begins; none on the last.
    pub next: Option<String>,
}

/// A template that sandboxes are made from: a SandboxSet, or an environment.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// The name of the set or the environment.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// When it was made.
    pub created: Timestamp,
    /// CPU in thousandths of a core.
    pub cpu_millis: u64,
    /// Memory in MiB.
    pub memory_mb: u64,
    /// Disk in MiB.
    pub disk_mb: u64,
    /// How many wait to be claimed.
    pub available: u64,
}

/// A snapshot that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Its name.
    pub name: Option<String>,
    /// Whether the sandbox goes on running; none is yes.
    pub keep_running: Option<bool>,
    /// How long it is kept, as OpenKruise writes it (`30m`).
    pub ttl: Option<String>,
    /// What it has: `memory`, `filesystem`.
    pub contents: Vec<String>,
    /// How long to wait for it.
    pub wait: Option<Duration>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its ID.
    pub id: String,
    /// Its names.
    pub names: Vec<String>,
    /// The sandbox that it was made of.
    pub sandbox: String,
    /// When it was made.
    pub created: Timestamp,
}

/// What was found where somebody connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connected {
    /// It was running.
    Running,
    /// It was paused and has been resumed.
    Resumed,
}

/// What a sandbox uses at one time.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// When.
    pub at: Timestamp,
    /// How many cores it may use.
    pub cpu_count: u64,
    /// How much of them it uses, in percent.
    pub cpu_used_pct: f64,
    /// Memory in use, in bytes.
    pub mem_used: u64,
    /// Memory that it may use, in bytes.
    pub mem_total: u64,
    /// Memory that caches files, in bytes.
    pub mem_cache: u64,
    /// Disk in use, in bytes.
    pub disk_used: u64,
    /// Disk that it may use, in bytes.
    pub disk_total: u64,
}

/// A line that a sandbox has logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// What.
    pub line: String,
}
