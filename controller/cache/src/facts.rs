//! What is kept of the kinds of Kubernetes itself.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::resources::decode;
use serde::Deserialize;

use crate::{Seen, Viewed, seen};

/// Labels or annotations.
type Texts = BTreeMap<String, String>;

/// A Secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SecretFacts {
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// What is in it, decoded.
    pub data: BTreeMap<String, Vec<u8>>,
}

/// Without the data.
impl fmt::Debug for SecretFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { labels, annotations, is_deleting, data } = self;
        f.debug_struct("SecretFacts")
            .field("labels", labels)
            .field("annotations", &annotations.len())
            .field("is_deleting", is_deleting)
            .field("data", &data.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// A ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigMapFacts {
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// When it was created.
    pub created: Option<jiff::Timestamp>,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// What is in it.
    pub data: BTreeMap<String, String>,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PvcFacts {
    /// The labels.
    pub labels: Texts,
    /// The annotations.
    pub annotations: Texts,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The phase: Pending, Bound or Lost.
    pub phase: String,
    /// The volume that it is bound to; empty if there is none yet.
    pub volume: String,
    /// The storage class, if one is named.
    pub class: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawSecret {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawConfigMap {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPvc {
    metadata: ObjectMeta,
    spec: RawPvcSpec,
    status: RawPvcStatus,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPvcSpec {
    volume_name: Option<String>,
    storage_class_name: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPvcStatus {
    phase: Option<String>,
}

fn map<A, B>(Seen { key, uid, version, object }: Seen<A>, of: impl FnOnce(A) -> B) -> Seen<B> {
    Seen { key, uid, version, object: of(object) }
}

fn read<K: Default + for<'de> Deserialize<'de>>(
    object: &[u8],
    metadata: impl Fn(&K) -> &ObjectMeta,
) -> Result<Seen<K>, Rejected> {
    let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
    seen(object, metadata)
}

impl Viewed for SecretFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Secret";
    const PLURAL: &'static str = "secrets";

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let raw = read(object, |raw: &RawSecret| &raw.metadata)?;
        let mut data = BTreeMap::new();
        for (name, text) in raw.data.iter().flatten() {
            let text = text.as_deref().unwrap_or_default();
            let bytes = STANDARD.decode(text).map_err(|_| Rejected(format!("data.{name}: not Base64")))?;
            data.insert(name.clone(), bytes);
        }
        Ok(map(raw, |RawSecret { metadata, .. }| Self {
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            data,
        }))
    }
}

impl Viewed for ConfigMapFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "ConfigMap";
    const PLURAL: &'static str = "configmaps";

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let raw = read(object, |raw: &RawConfigMap| &raw.metadata)?;
        Ok(map(raw, |RawConfigMap { metadata, data }| Self {
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            created: metadata.creation_timestamp.map(|time| time.0),
            is_deleting: metadata.deletion_timestamp.is_some(),
            data: data.into_iter().flatten().map(|(name, text)| (name, text.unwrap_or_default())).collect(),
        }))
    }
}

impl Viewed for PvcFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "PersistentVolumeClaim";
    const PLURAL: &'static str = "persistentvolumeclaims";

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let raw = read(object, |raw: &RawPvc| &raw.metadata)?;
        Ok(map(raw, |RawPvc { metadata, spec, status }| Self {
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            phase: status.phase.unwrap_or_default(),
            volume: spec.volume_name.unwrap_or_default(),
            class: spec.storage_class_name,
        }))
    }
}
