//! What a gateway watches and how long it remembers: the config of the bootstrap extension, and the `gateway`
//! section of `sandgate run --config`. Parsed raw, then checked; unknown keys are refused.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use sandgate_config::ConfigError as SettingsError;
use sandgate_config::{given, given_object, in_range};
use sandgate_keyring::{AuthSettings, RawAuth};
use sandgate_routes::{AddressPolicy, Limits};
use schemars::JsonSchema;
use serde::Deserialize;

mod kubernetes;
mod peer;
mod selector;

#[cfg(test)]
mod tests;

use crate::file::PROVIDER;
pub use kubernetes::KubernetesSettings;
use kubernetes::RawKubernetes;
use sandgate_peering::RefreshSettings;

/// A week: long past any message that could still be under way.
const MAX_LIFETIME_SECONDS: u64 = 7 * 24 * 3600;
const MAX_TOMBSTONES: u64 = 100_000_000;
const MAX_OWN_ADDRESSES: usize = 64;

/// The checked settings of a gateway.
#[derive(Clone, Debug)]
pub struct Settings {
    routes_file: Option<PathBuf>,
    kubernetes: Option<KubernetesSettings>,
    limits: Limits,
    refresh: Option<RefreshSettings>,
    auth: Option<AuthSettings>,
    addresses: AddressPolicy,
    own_addresses: Vec<SocketAddr>,
}

/// Sandgate's bootstrap extension: where the routes come from and how long deletes are remembered. At least
/// one of `routes-file` and `kubernetes` is needed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(
    title = "Sandgate gateway config",
    extend(
        "anyOf" = [{ "required": ["routes-file"] }, { "required": ["kubernetes"] }],
        "if" = { "required": ["kubernetes"], "properties": { "kubernetes": {
            "required": ["providers"], "properties": { "providers": { "contains": {
                "required": ["kind"],
                "properties": { "kind": { "const": "opensandbox" }, "any-address": { "const": false } }
            } } }
        } } },
        "then" = { "required": ["pod-ranges"] }
    )
)]
struct RawSettings {
    /// The routes file, YAML or JSON. Relative paths are relative to Envoy's working folder.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    routes_file: Option<String>,
    /// The cluster to watch.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawKubernetes")]
    kubernetes: Option<RawKubernetes>,
    /// How long a deleted route is remembered, so that nothing older can bring it back.
    #[serde(default = "default_lifetime")]
    #[schemars(range(min = 1, max = MAX_LIFETIME_SECONDS))]
    tombstone_lifetime_seconds: u64,
    /// How many deleted routes are remembered at most.
    #[serde(default = "default_max_tombstones")]
    #[schemars(range(min = 1, max = MAX_TOMBSTONES))]
    max_tombstones: u64,
    /// Where peers push routes to.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "peer::RawRefresh")]
    refresh: Option<peer::RawRefresh>,
    /// Where the keys come from that credentials of requests are checked with.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawAuth")]
    auth: Option<RawAuth>,
    /// The ranges that sandboxes have their addresses from. A pushed or watched route to any other address is
    /// not served. If left out, private addresses are allowed (RFC 1918, RFC 6598, IPv6 unique local). Needed
    /// with the provider `opensandbox`.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Vec<String>", length(min = 1))]
    pod_ranges: Option<Vec<String>>,
    /// Where this Envoy listens, its admin port included, as ip:port. 0.0.0.0 and [::] stand for every
    /// address of the machine. A route never leads there. The port of `refresh`, and the address that a
    /// request came in on, need not be listed.
    #[allow(rustdoc::broken_intra_doc_links, reason = "the text is the schema's, where [::] is an address")]
    #[serde(default)]
    #[schemars(length(max = MAX_OWN_ADDRESSES), inner(regex(pattern = r"^(\[[0-9A-Fa-f:.]+\]|[0-9.]+):[0-9]{1,5}$")))]
    own_addresses: Vec<String>,
}

fn default_lifetime() -> u64 {
    Limits::default().tombstone_lifetime.as_secs()
}

fn default_max_tombstones() -> u64 {
    Limits::default().max_tombstones as u64
}

impl Settings {
    /// Reads settings from JSON.
    pub fn parse(json: &[u8]) -> Result<Self, SettingsError> {
        Self::check(sandgate_config::parse(json)?)
    }

    fn check(raw: RawSettings) -> Result<Self, SettingsError> {
        if raw.routes_file.is_none() && raw.kubernetes.is_none() {
            return Err(SettingsError::top_level(
                "both `routes-file` and `kubernetes` are missing: where do routes come from?",
            ));
        }
        if raw.routes_file.as_deref() == Some("") {
            return Err(wrong("routes-file", "expected the path of a file, found an empty text"));
        }
        let lifetime =
            in_range("tombstone-lifetime-seconds", raw.tombstone_lifetime_seconds, MAX_LIFETIME_SECONDS)?;
        let max_tombstones = in_range("max-tombstones", raw.max_tombstones, MAX_TOMBSTONES)?;
        let tombstone_lifetime = Duration::from_secs(lifetime);
        let addresses = peer::check_ranges(raw.pod_ranges)?;
        let has_ranges = addresses.has_ranges();
        let kubernetes = raw.kubernetes.map(|raw| raw.check(has_ranges)).transpose()?;
        let refresh = raw
            .refresh
            .map(|raw| peer::check(raw, tombstone_lifetime, kubernetes.as_ref(), has_ranges))
            .transpose()?;
        let push_lease = refresh.as_ref().map(|refresh| refresh.lease);
        let defaults = Limits::default();
        let push_confirmation =
            refresh.as_ref().map_or(defaults.push_confirmation, |refresh| refresh.confirmation);
        Ok(Self {
            routes_file: raw.routes_file.map(Into::into),
            kubernetes,
            refresh,
            auth: raw.auth.map(RawAuth::check).transpose()?,
            addresses,
            own_addresses: check_own_addresses(&raw.own_addresses)?,
            limits: Limits {
                tombstone_lifetime,
                max_tombstones: usize::try_from(max_tombstones).unwrap_or(usize::MAX),
                push_lease,
                push_confirmation,
                ..defaults
            },
        })
    }

    /// The routes file, if there is to be one.
    pub fn routes_file(&self) -> Option<&Path> {
        self.routes_file.as_deref()
    }

    /// The cluster, if there is to be one. With no routes file there is.
    pub fn kubernetes(&self) -> Option<&KubernetesSettings> {
        self.kubernetes.as_ref()
    }

    /// The providers whose objects may be in the table.
    pub fn providers(&self) -> BTreeSet<String> {
        let file = self.routes_file.as_ref().map(|_| PROVIDER);
        let watched = self.kubernetes.iter().flat_map(|kubernetes| kubernetes.watched());
        let pushed = self.refresh.as_ref().map(|refresh| refresh.pushed.provider.as_str());
        let watched = watched.map(|watched| watched.provider.name());
        file.into_iter().chain(watched).chain(pushed).map(ToOwned::to_owned).collect()
    }

    /// The limits of the table.
    pub fn limits(&self) -> Limits {
        self.limits.clone()
    }

    /// Where peers push routes to, if they may.
    pub fn refresh(&self) -> Option<&RefreshSettings> {
        self.refresh.as_ref()
    }

    /// Where the keys come from, if there are to be any.
    pub fn auth(&self) -> Option<&AuthSettings> {
        self.auth.as_ref()
    }

    /// Which addresses pushed and watched routes may have.
    pub fn addresses(&self) -> &AddressPolicy {
        &self.addresses
    }

    /// Where Envoy itself listens.
    pub fn own_addresses(&self) -> &[SocketAddr] {
        &self.own_addresses
    }

    /// The JSON schema of what [`Settings::parse`] accepts.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(RawSettings).into()
    }
}

fn check_own_addresses(raw: &[String]) -> Result<Vec<SocketAddr>, SettingsError> {
    if raw.len() > MAX_OWN_ADDRESSES {
        let reason = format!("expected at most {MAX_OWN_ADDRESSES} addresses, found {}", raw.len());
        return Err(wrong("own-addresses", reason));
    }
    let check = |(index, text): (usize, &String)| {
        text.parse().map_err(|_| {
            let reason = format!("expected ip:port, such as 0.0.0.0:7788 or [::]:7788, found {text:?}");
            wrong(format!("own-addresses[{index}]"), reason)
        })
    };
    raw.iter().enumerate().map(check).collect()
}

fn wrong(key: impl Into<String>, reason: impl Into<String>) -> SettingsError {
    SettingsError::new(key, reason)
}
