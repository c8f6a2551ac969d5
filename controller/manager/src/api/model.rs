//! The bodies of requests and answers, as E2B's SDK writes and reads them.
//!
//! A field of a request that is not known here is ignored, so that a newer SDK works. A field that is known
//! and that this server cannot fulfil is refused.

mod requests;

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

pub(super) use requests::*;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Error)]
pub(super) struct ErrorBody {
    /// The HTTP status.
    pub(super) code: u16,
    /// What went wrong. A wrong field is named first: `timeout: expected …`.
    pub(super) message: String,
    /// The ID of the request, also in the header `X-Request-ID`.
    pub(super) request_id: String,
    /// A word for programs, where the status does not say enough: `quota_exceeded`, `outcome_unknown`,
    /// `not_supported`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) error_code: Option<String>,
}

/// A sandbox that was made or connected to.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sandbox {
    /// The template that it was made from.
    #[serde(rename = "templateID")]
    pub(super) template_id: String,
    /// The ID of the sandbox.
    #[serde(rename = "sandboxID")]
    pub(super) sandbox_id: String,
    /// Always `sandgate`.
    #[serde(rename = "clientID")]
    pub(super) client_id: String,
    /// The name of the template.
    pub(super) alias: String,
    /// The version of envd whose features the SDK may use.
    pub(super) envd_version: String,
    /// The token for envd in the sandbox: a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) envd_access_token: Option<String>,
    /// The token for every port but that of envd, in `e2b-traffic-access-token`: a secret. Null if the
    /// sandbox allows public traffic.
    pub(super) traffic_access_token: Option<String>,
    /// The domain that sandboxes are served under; null is the one that the SDK was told.
    pub(super) domain: Option<String>,
}

/// A sandbox, as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedSandbox {
    /// The template that it was made from.
    #[serde(rename = "templateID")]
    pub(super) template_id: String,
    /// The ID of the sandbox.
    #[serde(rename = "sandboxID")]
    pub(super) sandbox_id: String,
    /// Always `sandgate`.
    #[serde(rename = "clientID")]
    pub(super) client_id: String,
    /// The name of the template.
    pub(super) alias: String,
    /// When it was claimed.
    #[schema(format = DateTime)]
    pub(super) started_at: String,
    /// When it ends or pauses by itself. For one that never does, a hundred years after its start.
    #[schema(format = DateTime)]
    pub(super) end_at: String,
    /// Cores, rounded up.
    pub(super) cpu_count: u64,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub(super) disk_size_mb: u64,
    /// Whether it runs.
    pub(super) state: SandboxState,
    /// The version of envd whose features the SDK may use.
    pub(super) envd_version: String,
    /// What its maker said about it.
    pub(super) metadata: BTreeMap<String, String>,
}

/// A sandbox with everything that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxDetail {
    #[serde(flatten)]
    pub(super) listed: ListedSandbox,
    /// The token for envd in the sandbox: a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) envd_access_token: Option<String>,
    /// Whether it may reach the internet.
    pub(super) allow_internet_access: bool,
    /// The domain that sandboxes are served under; null is the one that the SDK was told.
    pub(super) domain: Option<String>,
    /// Where it may connect to and who may connect to it, if there are rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) network: Option<NetworkShown>,
    /// What happens at its timeout, and when it is asked for while paused.
    pub(super) lifecycle: SandboxLifecycle,
}

/// Where a sandbox may connect to, and who may connect to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkShown {
    /// Addresses, networks and names that it may reach.
    pub(super) allow_out: Vec<String>,
    /// Addresses and networks that it may not reach.
    pub(super) deny_out: Vec<String>,
    /// `false` if requests need its `trafficAccessToken`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) allow_public_traffic: Option<bool>,
}

/// What happens at a sandbox's timeout, and when it is asked for while paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxLifecycle {
    /// A request for it wakes it.
    pub(super) auto_resume: bool,
    /// What happens at its timeout.
    pub(super) on_timeout: OnTimeout,
}

/// What happens at a sandbox's timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnTimeout {
    /// It is deleted.
    Kill,
    /// It is paused.
    Pause,
}

/// Whether a sandbox runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum SandboxState {
    /// It runs.
    Running,
    /// It is paused.
    Paused,
}

/// One of the sandboxes of a fork: it was made, or it failed.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct ForkResult {
    /// The sandbox that was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) sandbox: Option<Sandbox>,
    /// Why it was not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(super) error: Option<ErrorBody>,
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct SnapshotInfo {
    /// Its ID: a create takes it as its `templateID`.
    #[serde(rename = "snapshotID")]
    pub(super) snapshot_id: String,
    /// Its names.
    pub(super) names: Vec<String>,
}

/// What a sandbox used at one time.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxMetric {
    /// When.
    #[schema(format = DateTime)]
    pub(super) timestamp: String,
    /// When, in seconds since 1970.
    pub(super) timestamp_unix: i64,
    /// Cores.
    pub(super) cpu_count: u64,
    /// How much of them is used, in percent.
    pub(super) cpu_used_pct: f64,
    /// Memory in use, in bytes.
    pub(super) mem_used: u64,
    /// Memory, in bytes.
    pub(super) mem_total: u64,
    /// Memory that caches files, in bytes.
    pub(super) mem_cache: u64,
    /// Disk in use, in bytes.
    pub(super) disk_used: u64,
    /// Disk, in bytes.
    pub(super) disk_total: u64,
}

/// What several sandboxes use at present. Sandboxes that were not found are left out.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct SandboxesWithMetrics {
    /// What each of them uses, by its ID.
    pub(super) sandboxes: BTreeMap<String, SandboxMetric>,
}

/// What a sandbox has logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SandboxLogs {
    /// Lines.
    pub(super) logs: Vec<SandboxLog>,
    /// The same lines, with their parts.
    pub(super) log_entries: Vec<SandboxLogEntry>,
}

/// What a sandbox has logged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct SandboxLogsV2 {
    /// Lines, with their parts.
    pub(super) logs: Vec<SandboxLogEntry>,
}

/// A line of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct SandboxLog {
    /// When.
    #[schema(format = DateTime)]
    pub(super) timestamp: String,
    /// What.
    pub(super) line: String,
}

/// A line of a log, with its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct SandboxLogEntry {
    /// When.
    #[schema(format = DateTime)]
    pub(super) timestamp: String,
    /// What.
    pub(super) message: String,
    /// How grave: always `info`.
    pub(super) level: String,
    /// More of it: always empty.
    pub(super) fields: BTreeMap<String, String>,
}

/// A template: a SandboxSet of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Template {
    /// The name of the set.
    #[serde(rename = "templateID")]
    pub(super) template_id: String,
    /// A UUID that is made from namespace and name: nothing is built here.
    #[serde(rename = "buildID")]
    pub(super) build_id: String,
    /// Cores, rounded up.
    pub(super) cpu_count: u64,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub(super) disk_size_mb: u64,
    /// Always false.
    pub(super) public: bool,
    /// The name of the set.
    pub(super) aliases: Vec<String>,
    /// The name of the set.
    pub(super) names: Vec<String>,
    /// When the set was made.
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    /// When the set was made.
    #[schema(format = DateTime)]
    pub(super) updated_at: String,
    /// Always null.
    pub(super) created_by: Option<String>,
    /// Always null: it is not recorded.
    pub(super) last_spawned_at: Option<String>,
    /// Always 0: it is not counted.
    pub(super) spawn_count: u64,
    /// Always 1.
    pub(super) build_count: u64,
    /// The version of envd whose features the SDK may use.
    pub(super) envd_version: String,
    /// Always `ready`.
    pub(super) build_status: String,
    /// How many sandboxes of the pool wait to be claimed. Not a field of E2B's.
    pub(super) available: u64,
}

/// A template and its builds.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(super) struct TemplateWithBuilds {
    #[serde(flatten)]
    pub(super) template: Template,
    /// One: nothing is built here.
    pub(super) builds: Vec<TemplateBuild>,
}

/// The build of a template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TemplateBuild {
    /// The template's `buildID`.
    #[serde(rename = "buildID")]
    pub(super) build_id: String,
    /// Always `ready`.
    pub(super) status: String,
    /// When the set was made.
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    /// When the set was made.
    #[schema(format = DateTime)]
    pub(super) updated_at: String,
    /// Cores, rounded up.
    pub(super) cpu_count: u64,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub(super) memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub(super) disk_size_mb: u64,
}

/// What an alias stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct TemplateAlias {
    /// The template: the alias itself.
    #[serde(rename = "templateID")]
    pub(super) template_id: String,
    /// Always false.
    pub(super) public: bool,
}

/// A team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Team)]
pub(super) struct TeamShown {
    /// The ID of the team.
    #[serde(rename = "teamID")]
    pub(super) team_id: String,
    /// Its name.
    pub(super) name: String,
    /// Always empty: keys are stored as hashes, and nobody can show one again.
    pub(super) api_key: String,
    /// Whether it is the caller's own.
    pub(super) is_default: bool,
}

/// A key of the API, without the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = TeamAPIKey)]
pub(super) struct KeyShown {
    /// Its ID: the owner of the sandboxes that were made with it.
    pub(super) id: String,
    /// Its name.
    pub(super) name: String,
    /// Its team.
    pub(super) team_name: String,
    /// What it looks like.
    pub(super) mask: MaskShown,
    /// When it was made.
    #[schema(format = DateTime)]
    pub(super) created_at: String,
    /// The ID of the key that made it; null is an operator.
    pub(super) created_by: Option<String>,
    /// When it was used, to ten minutes or so; null is never.
    #[schema(format = DateTime)]
    pub(super) last_used: Option<String>,
    /// When it stops being accepted; null is never.
    #[schema(format = DateTime)]
    pub(super) expires_at: Option<String>,
}

/// What a key looks like, with most of it left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = IdentifierMaskingDetails)]
pub(super) struct MaskShown {
    /// What every key begins with.
    pub(super) prefix: String,
    /// How long the rest is.
    pub(super) value_length: usize,
    /// The first characters of the rest.
    pub(super) masked_value_prefix: String,
    /// The last characters of the rest.
    pub(super) masked_value_suffix: String,
}

/// A key that was made. Only this answer shows the key.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedTeamAPIKey)]
pub(super) struct KeyCreated {
    #[serde(flatten)]
    pub(super) facts: KeyShown,
    /// The key: a secret.
    pub(super) key: String,
}

/// The server is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    pub(super) status: String,
}
