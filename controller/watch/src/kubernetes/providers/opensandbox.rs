//! OpenSandbox: `BatchSandbox` of `sandbox.opensandbox.io/v1alpha1`.
//!
//! The ID is the object's name, in all namespaces at once: while two objects claim one, neither may be served. The
//! states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.expireTime` is past → dead
//! 3. phase Failed → dead
//! 4. phase Paused or Pausing → paused
//! 5. `status.ready` is at least 1, with an endpoint → running
//! 6. else creating

use std::fmt;
use std::time::SystemTime;

use sandgate_routes::{Clash, State};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::decode::{Text, decode, object};
use super::observe::{Findings, Metadata, address, id, is_past, time, token};
use crate::kubernetes::provider::{Projection, Provider, Resource, Unreadable};

#[cfg(test)]
pub(super) mod tests;

/// The provider's name.
pub(super) const NAME: &str = "opensandbox";

const ENDPOINTS: &str = r#"metadata.annotations["sandbox.opensandbox.io/endpoints"]"#;
const TOKEN: &str = r#"metadata.annotations["opensandbox.io/secure-access-token"]"#;

struct OpenSandbox {
    resource: Resource,
}

pub(super) fn provider() -> Box<dyn Provider> {
    Box::new(OpenSandbox {
        resource: Resource {
            group: "sandbox.opensandbox.io".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "BatchSandbox".to_owned(),
            plural: "batchsandboxes".to_owned(),
        },
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BatchSandbox<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Metadata<'a, IgnoredAny, Annotations<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    spec: Spec<'a>,
    #[serde(borrow, deserialize_with = "object")]
    status: Status<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Annotations<'a> {
    #[serde(borrow, rename = "sandbox.opensandbox.io/endpoints")]
    endpoints: Option<Text<'a>>,
    #[serde(borrow, rename = "opensandbox.io/secure-access-token")]
    token: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    expire_time: Option<Text<'a>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
    ready: Option<i64>,
}

impl Provider for OpenSandbox {
    fn name(&self) -> &str {
        NAME
    }

    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn project(&self, object: &[u8], now: SystemTime) -> Result<Projection, Unreadable> {
        let sandbox: BatchSandbox<'_> = decode(object)?;
        let head = sandbox.metadata.head()?;
        let annotations = &sandbox.metadata.annotations;
        let ends = time("spec.expireTime", sandbox.spec.expire_time.as_deref())?;
        let endpoint = first_of_json_list(ENDPOINTS, annotations.endpoints.as_deref())?;
        let ip = address(ENDPOINTS, endpoint.as_deref())?;
        let findings = Findings {
            id: id("metadata.name", Some(head.name))?.map_or_else(|| head.default_id(), Ok)?,
            owner: String::new(),
            state: sandbox.state(head.deleting || is_past(ends, now), ip.is_some()),
            ip,
            token: token(TOKEN, annotations.token.as_deref())?,
            require_traffic_auth: false,
            clash: Clash::Refuse,
            ends,
        };
        head.projection(NAME, findings, now)
    }
}

impl BatchSandbox<'_> {
    fn state(&self, ended: bool, has_ip: bool) -> State {
        match self.status.phase.as_deref().unwrap_or_default() {
            _ if ended => State::Dead,
            "Failed" => State::Dead,
            "Paused" | "Pausing" => State::Paused,
            _ if has_ip && self.status.ready.unwrap_or_default() >= 1 => State::Running,
            _ => State::Creating,
        }
    }
}

/// The first text of a JSON list in a text that is not empty: `["", "10.0.0.1"]`.
pub(super) fn first_of_json_list(path: &str, text: Option<&str>) -> Result<Option<String>, Unreadable> {
    match text {
        None | Some("") => Ok(None),
        Some(text) => serde_json::from_str::<FirstText>(text)
            .map(|first| first.0)
            .map_err(|_| Unreadable::new(path, "expected a JSON list of texts")),
    }
}

struct FirstText(Option<String>);

impl<'de> Deserialize<'de> for FirstText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = FirstText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<FirstText, E> {
                Ok(FirstText(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<FirstText, A::Error> {
                let mut first = None;
                while let Some(element) = list.next_element::<Option<Text<'de>>>()? {
                    if first.is_none() {
                        first = element.filter(|text| !text.is_empty());
                    }
                }
                Ok(FirstText(first.map(|text| text.to_owned())))
            }
        }

        deserializer.deserialize_any(List)
    }
}
