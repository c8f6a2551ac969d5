//! The `kubernetes` section: which cluster, and which objects of it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandgate_config::objects;
use sandgate_follow::Access;
use sandgate_objects::ProviderConfig;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{SettingsError, given, selector, wrong};
use crate::kubernetes::Watched;

const SECTION: &str = "kubernetes";
const MAX_OPEN_AFTER_SECONDS: u64 = 24 * 3600;
const MAX_SELECTOR: usize = 4096;

/// The checked settings of the Kubernetes watch.
#[derive(Clone)]
pub struct KubernetesSettings {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    open_after: Option<Duration>,
    watched: Vec<Watched>,
}

impl KubernetesSettings {
    /// Which cluster, and with which credentials.
    pub fn access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// The kubeconfig; without one the pod's own credentials are used, or what `kubectl` would use.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// The context of the kubeconfig; none is its current one.
    pub fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// After which time the listeners open though a first list is missing; none is never.
    pub fn open_after(&self) -> Option<Duration> {
        self.open_after
    }

    /// The same cluster with other objects.
    #[must_use]
    pub fn watching(mut self, watched: Vec<Watched>) -> Self {
        self.watched = watched;
        self
    }

    /// The objects that are watched.
    pub fn watched(&self) -> &[Watched] {
        &self.watched
    }
}

impl fmt::Debug for KubernetesSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let providers: Vec<&str> = self.watched.iter().map(|watched| watched.provider.name()).collect();
        f.debug_struct("KubernetesSettings").field("providers", &providers).finish_non_exhaustive()
    }
}

/// The cluster to watch, and which of its objects are sandboxes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawKubernetes {
    /// The kubeconfig to use. If left out, the credentials of the pod are used where there are any, else
    /// KUBECONFIG or ~/.kube/config. Relative paths are relative to Envoy's working folder.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    kubeconfig: Option<String>,
    /// The context of the kubeconfig. If left out, its current one.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    context: Option<String>,
    /// Opens the listeners after this many seconds even if a first list is missing. Requests then get 503
    /// `gateway_not_ready` until every first list is complete. If left out, the listeners stay closed until
    /// then.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "u64", range(min = 1, max = MAX_OPEN_AFTER_SECONDS))]
    open_after_seconds: Option<u64>,
    /// The objects that are sandboxes, one entry for each provider.
    #[serde(deserialize_with = "objects")]
    #[schemars(length(min = 1))]
    providers: Vec<ProviderConfig>,
}

impl RawKubernetes {
    /// `has_ranges` is whether `pod-ranges` are configured.
    pub(super) fn check(self, has_ranges: bool) -> Result<KubernetesSettings, SettingsError> {
        for (key, value) in [("kubeconfig", &self.kubeconfig), ("context", &self.context)] {
            if value.as_deref() == Some("") {
                return Err(wrong(format!("{SECTION}.{key}"), "expected a text, found an empty one"));
            }
        }
        if let Some(seconds) = self.open_after_seconds {
            super::in_range(&format!("{SECTION}.open-after-seconds"), seconds, MAX_OPEN_AFTER_SECONDS)?;
        }
        if self.providers.is_empty() {
            return Err(wrong(format!("{SECTION}.providers"), "expected at least one provider"));
        }
        let mut watched: Vec<Watched> = Vec::new();
        for (at, raw) in self.providers.into_iter().enumerate() {
            let key = format!("{SECTION}.providers[{at}]");
            let next = check_entry(raw, &key, has_ranges)?;
            if let Some(name) = watched.iter().find_map(|known| overlap(known, &next)) {
                return Err(wrong(
                    key,
                    format!("the provider {} watches {name} already, by another entry", next.provider.name()),
                ));
            }
            watched.push(next);
        }
        Ok(KubernetesSettings {
            kubeconfig: self.kubeconfig.map(Into::into),
            context: self.context,
            open_after: self.open_after_seconds.map(Duration::from_secs),
            watched,
        })
    }
}

fn check_entry(mut raw: ProviderConfig, key: &str, has_ranges: bool) -> Result<Watched, SettingsError> {
    let given = raw.namespaces.take();
    let label_selector = raw.label_selector.take().unwrap_or_default();
    if given.as_ref().is_some_and(Vec::is_empty) {
        return Err(wrong(format!("{key}.namespaces"), "expected a namespace; leave the key out for all"));
    }
    let namespaces = given.unwrap_or_default();
    for (at, namespace) in namespaces.iter().enumerate() {
        let at_key = || format!("{key}.namespaces[{at}]");
        if !is_namespace(namespace) {
            return Err(wrong(at_key(), "expected a namespace: 1 to 63 of a-z, 0-9 and -, no - at an end"));
        }
        if namespaces[..at].contains(namespace) {
            return Err(wrong(at_key(), format!("{namespace} is there twice")));
        }
    }
    if label_selector.len() > MAX_SELECTOR || label_selector.chars().any(char::is_control) {
        return Err(wrong(
            format!("{key}.label-selector"),
            format!("expected up to {MAX_SELECTOR} bytes without control characters"),
        ));
    }
    selector::check(&label_selector).map_err(|what| {
        wrong(
            format!("{key}.label-selector"),
            format!("expected a selector as kubectl takes it, found {what}"),
        )
    })?;
    let any_address = raw.any_address();
    let provider = raw.build().map_err(|error| wrong(format!("{key}.{}", error.key), error.reason))?;
    if any_address && has_ranges {
        return Err(wrong(
            format!("{key}.any-address"),
            "`pod-ranges` are given and take precedence: leave this out",
        ));
    }
    if provider.address_is_claimed() && !has_ranges && !any_address {
        let reason = format!(
            "anyone who may write an object of {} also writes its address: set `pod-ranges` to the ranges of the \
             cluster's pods (or set `any-address: true` here, which lets every owner of an object send the \
             requests for its ID to any private address)",
            provider.name()
        );
        return Err(wrong(key, reason));
    }
    let label_selector = both(provider.selector(), &label_selector);
    Ok(Watched { provider: Arc::from(provider), namespaces, label_selector })
}

/// The selector of what two selectors select.
fn both(own: &str, given: &str) -> String {
    let given = given.trim();
    let comma = if own.is_empty() || given.is_empty() { "" } else { "," };
    format!("{own}{comma}{given}")
}

fn is_namespace(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The namespaces that two entries of one provider both watch. Such entries are refused: each list would
/// delete the routes of the other.
fn overlap(a: &Watched, b: &Watched) -> Option<String> {
    if a.provider.name() != b.provider.name() {
        return None;
    }
    if a.namespaces.is_empty() || b.namespaces.is_empty() {
        return Some("all namespaces".to_owned());
    }
    a.namespaces
        .iter()
        .find(|namespace| b.namespaces.contains(namespace))
        .map(|name| format!("namespace {name}"))
}
