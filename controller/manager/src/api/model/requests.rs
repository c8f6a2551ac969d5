//! The bodies of requests.
#![expect(dead_code, reason = "some fields are there to be checked and documented, not to be used")]

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{IgnoredAny, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

/// Fields that nobody reads. With them a struct is read from an object alone, and from no list.
pub(in crate::api) type Rest = BTreeMap<String, IgnoredAny>;

/// A whole number. `5.0` is one, `5.5` and `"5"` are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::api) struct Whole(pub(in crate::api) i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Whole;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Whole, E> {
                // Out of every range that is checked later.
                Ok(Whole(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            #[expect(clippy::cast_possible_truncation, reason = "it saturates, out of every range")]
            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Whole, E> {
                if number.fract() == 0.0 {
                    return Ok(Whole(number as i64));
                }
                Err(E::invalid_type(Unexpected::Float(number), &self))
            }
        }
        reader.deserialize_any(Reader)
    }
}

/// A sandbox that is asked for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewSandbox)]
pub(in crate::api) struct NewSandboxBody {
    /// The name of a SandboxSet, or the ID of a snapshot.
    #[serde(rename = "templateID")]
    #[schema(min_length = 1, max_length = 253, pattern = "^[A-Za-z0-9._/:-]+$")]
    pub(in crate::api) template_id: String,
    /// After so many seconds it ends, or pauses.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 2_592_000, default = 300)]
    pub(in crate::api) timeout: Option<Whole>,
    /// It pauses at its timeout, and does not end.
    pub(in crate::api) auto_pause: Option<bool>,
    /// Whether a pause at the timeout keeps the memory. Without memory it cannot be woken by a request, so
    /// `false` does not go with `autoResume`.
    pub(in crate::api) auto_pause_memory: Option<bool>,
    /// Whether a request wakes it when it is paused.
    pub(in crate::api) auto_resume: Option<AutoResume>,
    /// Ignored: every sandbox has a token.
    pub(in crate::api) secure: Option<bool>,
    /// Whether it may reach the internet.
    #[serde(rename = "allow_internet_access")]
    pub(in crate::api) allow_internet_access: Option<bool>,
    /// Where it may connect to.
    pub(in crate::api) network: Option<NetworkBody>,
    /// What you want to know about it later: at most 64 entries, 64 KiB together. A key is a name as
    /// Kubernetes has them for annotations. Keys that begin with `e2b.agents.kruise.io/` are wishes for how
    /// it is made; `label:KEY` is a label of the sandbox and its pod.
    pub(in crate::api) metadata: Option<BTreeMap<String, String>>,
    /// Environment variables of every process in it: at most 256, 128 KiB together.
    pub(in crate::api) env_vars: Option<BTreeMap<String, String>>,
    /// Ignored: the SDK itself starts the gateway of MCP in the sandbox.
    #[schema(value_type = Option<Object>)]
    pub(in crate::api) mcp: Option<BTreeMap<String, IgnoredAny>>,
    /// Refused unless empty: there is no workload identity.
    #[schema(value_type = Option<Object>)]
    pub(in crate::api) iam: Option<BTreeMap<String, Value>>,
    /// Refused unless empty: there are no volumes.
    #[schema(value_type = Option<Vec<Object>>)]
    pub(in crate::api) volume_mounts: Option<Vec<Value>>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// Whether a request wakes a sandbox that is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(in crate::api) struct AutoResume {
    /// It does.
    pub(in crate::api) enabled: bool,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// Where a sandbox may connect to.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Network)]
pub(in crate::api) struct NetworkBody {
    /// Addresses, networks (`10.0.0.0/8`) and names that it may reach, at most 100.
    #[schema(max_items = 100)]
    pub(in crate::api) allow_out: Option<Vec<String>>,
    /// Addresses and networks that it may not reach, at most 100. What is allowed comes first.
    #[schema(max_items = 100)]
    pub(in crate::api) deny_out: Option<Vec<String>>,
    /// `false`: requests for any port but that of envd need the `trafficAccessToken` of the answer, in
    /// `e2b-traffic-access-token`. Only a create takes it.
    pub(in crate::api) allow_public_traffic: Option<bool>,
    /// Refused unless empty.
    pub(in crate::api) dns_servers: Option<Vec<String>>,
    /// Refused unless null.
    #[schema(value_type = Option<Object>)]
    pub(in crate::api) egress_proxy: Option<Value>,
    /// Refused unless null.
    pub(in crate::api) mask_request_host: Option<String>,
    /// Refused unless empty.
    #[schema(value_type = Option<Vec<i64>>)]
    pub(in crate::api) https_ports: Option<Vec<Whole>>,
    /// Refused unless empty.
    #[schema(value_type = Option<Object>)]
    pub(in crate::api) rules: Option<BTreeMap<String, Value>>,
    /// Whether it may reach the internet; not part of a create's `network`.
    #[serde(rename = "allow_internet_access")]
    pub(in crate::api) allow_internet_access: Option<bool>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How long a sandbox that is connected to lives at least.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = ConnectSandbox)]
pub(in crate::api) struct ConnectBody {
    /// Seconds from now. A running sandbox that would live longer is left as it is.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 2_592_000, default = 300)]
    pub(in crate::api) timeout: Option<Whole>,
    /// Ignored: the cluster's controller decides what a pause keeps and a resume restores.
    pub(in crate::api) memory: Option<bool>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How long a sandbox lives.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SandboxTimeout)]
pub(in crate::api) struct TimeoutBody {
    /// Seconds from now.
    #[schema(value_type = i64, minimum = 1, maximum = 2_592_000)]
    pub(in crate::api) timeout: Whole,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How long a sandbox lives at least.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = SandboxRefresh)]
pub(in crate::api) struct RefreshBody {
    /// Seconds from now.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 3600, default = 60)]
    pub(in crate::api) duration: Option<Whole>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How a sandbox is paused.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = SandboxPause)]
pub(in crate::api) struct PauseBody {
    /// Ignored: the cluster's controller decides what a pause keeps and a resume restores.
    pub(in crate::api) memory: Option<bool>,
    /// `true` is refused: envd is not asked before a pause.
    pub(in crate::api) require_healthy_guest: Option<bool>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How a sandbox is resumed.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResumedSandbox)]
pub(in crate::api) struct ResumeBody {
    /// Seconds from now.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 2_592_000, default = 300)]
    pub(in crate::api) timeout: Option<Whole>,
    /// It pauses at its timeout, and does not end.
    pub(in crate::api) auto_pause: Option<bool>,
    /// As in a connect.
    pub(in crate::api) memory: Option<bool>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// A snapshot that is asked for.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = NewSnapshot)]
pub(in crate::api) struct SnapshotBody {
    /// Its name.
    #[schema(max_length = 253)]
    pub(in crate::api) name: Option<String>,
    /// `false`: it has the files alone.
    pub(in crate::api) memory: Option<bool>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// How a sandbox is forked.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[schema(as = SandboxFork)]
pub(in crate::api) struct ForkBody {
    /// How long each of them lives, in seconds.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 2_592_000, default = 300)]
    pub(in crate::api) timeout: Option<Whole>,
    /// How many are made.
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 20, default = 1)]
    pub(in crate::api) count: Option<Whole>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

/// A key that is asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = NewTeamAPIKey)]
pub(in crate::api) struct KeyBody {
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    pub(in crate::api) name: String,
    /// Its team; the caller's own unless it is said.
    pub(in crate::api) team_name: Option<String>,
    /// What it may use at most: `{"limits":[{"dimension","scope","limit"}]}`.
    #[schema(value_type = Option<Object>)]
    pub(in crate::api) quota: Option<Value>,
    #[serde(flatten)]
    #[schema(ignore)]
    pub(in crate::api) rest: Rest,
}

impl Whole {
    /// The number, if it is within these bounds.
    pub(in crate::api) fn within(self, least: u64, most: u64) -> Option<u64> {
        u64::try_from(self.0).ok().filter(|number| (least..=most).contains(number))
    }
}
