//! OpenSandbox: `BatchSandbox` of `sandbox.opensandbox.io/v1alpha1`.
//!
//! The ID is the object's name, in all namespaces at once. The states, first match wins:
//! 1. being deleted → dead
//! 2. `spec.expireTime` is past → dead
//! 3. phase Failed → dead
//! 4. phase Paused or Pausing → paused
//! 5. a phase that is not known (Pending, Succeed, Resuming and none at all are) → unknown
//! 6. `status.ready` is at least 1, with an endpoint → running
//! 7. else creating
//!
//! The address is the first of the annotation `endpoints`. Whoever may write the object may write that, and nothing else in
//! it says better: `status` has counts only, and `alloc-status`, which names the pods of a pool, is an annotation too. To
//! know the pod's own address the gateway would have to read pods, which is a right over every tenant's pod that it does
//! not ask for. So the address counts as the tenant's word: it must be in the pod ranges, and the table refuses it where
//! another sandbox that lives has it.

use std::fmt;
use std::time::SystemTime;

use sandgate_routes::{Clash, State, TokenKind};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::decode::{Text, decode, object};
use crate::observe::{Findings, Metadata, SECURE_ACCESS, address, id, is_past, secure_access, time};
use crate::provider::{Projection, Provider, Resource, Unreadable};

#[cfg(test)]
pub(crate) mod tests;

/// The provider's name.
pub(crate) const NAME: &str = "opensandbox";

const ENDPOINTS: &str = r#"metadata.annotations["sandbox.opensandbox.io/endpoints"]"#;

struct OpenSandbox {
    resource: Resource,
    clash: Clash,
}

pub(crate) fn provider(clash: Clash) -> Box<dyn Provider> {
    Box::new(OpenSandbox {
        clash,
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

    fn clash(&self) -> Clash {
        self.clash
    }

    fn token_kind(&self) -> TokenKind {
        TokenKind::SecureAccess
    }

    fn address_is_claimed(&self) -> bool {
        true
    }

    fn id_is_name(&self) -> bool {
        true
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
            ip_is_claimed: self.address_is_claimed(),
            own_id: true,
            token: secure_access(SECURE_ACCESS, annotations.token.as_deref())?,
            require_traffic_auth: false,
            clash: self.clash,
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
            phase if !matches!(phase, "Pending" | "Succeed" | "Resuming" | "") => State::Unknown,
            _ if has_ip && self.status.ready.unwrap_or_default() >= 1 => State::Running,
            _ => State::Creating,
        }
    }
}

/// The first text of a JSON list in a text that is not empty: `["", "10.0.0.1"]`.
pub(crate) fn first_of_json_list(path: &str, text: Option<&str>) -> Result<Option<String>, Unreadable> {
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
