//! The raw config of one provider. The doc comments of its keys are the descriptions of the JSON schema.
//!
//! The keys of all kinds are in one struct, so that an error can name the key. A tagged enum of serde would
//! lose it. [`ProviderConfig::build`] refuses the keys of the generic provider for every other kind.

use std::borrow::Cow;

use sandgate_config::{ConfigError, given, given_object, given_objects};
use sandgate_routes::Clash;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::BUILT_IN;
use crate::generic::{Generic, MAX_RULES, RawCondition, RawPaths, RawResource, RawRule, RawState};
use crate::provider::Provider;

/// One kind of sandbox to watch.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline, extend(
    "if" = { "properties": { "kind": { "const": "generic" } } },
    "then" = { "required": ["name", "resource", "ip", "states", "default-state"] },
    "else" = { "properties": {
        "name": false, "resource": false, "id": false, "ip": false, "token": false, "owner": false,
        "traffic-auth": false, "dead-at": false, "states": false, "default-state": false
    },
    "if": { "properties": { "kind": { "enum": ["openkruise", "agent-sandbox", "sandbox-env"] } } },
    "then": { "properties": { "any-address": { "const": false } } } },
))]
pub struct ProviderConfig {
    /// Which provider reads the objects.
    pub(crate) kind: ProviderKind,
    /// The namespaces to watch; all of them where none is named.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Vec<String>")]
    pub namespaces: Option<Vec<String>>,
    /// A label selector, as kubectl takes it. It narrows the selector that the provider has of its own:
    /// sandbox-env watches only claimed pods.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String")]
    pub label_selector: Option<String>,
    /// What becomes of an ID that two objects claim. `rank` serves one of them, the same at every gateway:
    /// the object's own `namespace--name` before an ID by label, then the older object. `refuse` serves none
    /// while there are two.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawClash", extend("default" = "rank"))]
    pub(crate) clash: Option<RawClash>,
    /// Dangerous. Serves objects whose address their owner writes (opensandbox; generic with an `ip` outside
    /// of `status`) without `pod-ranges`. Anyone who may write such an object can then send the requests for
    /// its ID to any private address that the gateway reaches.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "bool", extend("default" = false))]
    pub(crate) any_address: Option<bool>,
    /// Generic only: the provider's name in object keys, logs and metrics.
    #[serde(default, deserialize_with = "given")]
    #[schemars(
        with = "String",
        length(min = 1, max = 63),
        regex(pattern = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    )]
    pub(crate) name: Option<String>,
    /// Generic only: the resource to watch.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawResource")]
    pub(crate) resource: Option<RawResource>,
    /// Generic only: what gives the ID; `namespace--name` where that is missing or empty.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) id: Option<RawPaths>,
    /// Generic only: what gives the pod's address.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) ip: Option<RawPaths>,
    /// Generic only: what gives the access token.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) token: Option<RawPaths>,
    /// Generic only: what gives the token that a client must present in e2b-traffic-access-token.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) traffic_token: Option<RawPaths>,
    /// Generic only: what gives the owner.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) owner: Option<RawPaths>,
    /// Generic only: when a client must present a traffic JWT.
    #[serde(default, deserialize_with = "given_object")]
    #[schemars(with = "RawCondition")]
    pub(crate) traffic_auth: Option<RawCondition>,
    /// Generic only: what gives the date-time from which the object is dead.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawPaths")]
    pub(crate) dead_at: Option<RawPaths>,
    /// Generic only: the rules that give the state, of which the first that matches counts. An object that is
    /// being deleted, or past `dead-at`, is dead before any of them; a running one without an address is
    /// creating.
    #[serde(default, deserialize_with = "given_objects")]
    #[schemars(with = "Vec<RawRule>", length(min = 1, max = MAX_RULES))]
    pub(crate) states: Option<Vec<RawRule>>,
    /// Generic only: the state where no rule matches.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "RawState")]
    pub(crate) default_state: Option<RawState>,
}

const GENERIC: &str = "generic";

/// What happens to an ID that two objects claim.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(inline)]
pub(crate) enum RawClash {
    #[default]
    Rank,
    Refuse,
}

impl From<RawClash> for Clash {
    fn from(raw: RawClash) -> Self {
        match raw {
            RawClash::Rank => Self::Rank,
            RawClash::Refuse => Self::Refuse,
        }
    }
}

impl ProviderConfig {
    /// Checks the config and makes the provider. The caller checks `namespaces` and `label-selector`.
    ///
    /// # Errors
    /// The first key that is wrong. A retry does not help: the config has to change.
    pub fn build(self) -> Result<Box<dyn Provider>, ConfigError> {
        let any_address = self.any_address();
        let provider = self.provider()?;
        if any_address && !provider.address_is_claimed() {
            let reason = "only where owners write the address: opensandbox, or generic with an `ip` outside of `status`";
            return Err(ConfigError::new("any-address", reason));
        }
        Ok(provider)
    }

    /// Whether an address that an object's owner writes is served without `pod-ranges`.
    pub fn any_address(&self) -> bool {
        self.any_address.unwrap_or_default()
    }

    fn provider(self) -> Result<Box<dyn Provider>, ConfigError> {
        if self.kind.0 == GENERIC {
            return Generic::build(self).map(|provider| Box::new(provider) as Box<dyn Provider>);
        }
        let generic_only = [
            ("name", self.name.is_some()),
            ("resource", self.resource.is_some()),
            ("id", self.id.is_some()),
            ("ip", self.ip.is_some()),
            ("token", self.token.is_some()),
            ("traffic-token", self.traffic_token.is_some()),
            ("owner", self.owner.is_some()),
            ("traffic-auth", self.traffic_auth.is_some()),
            ("dead-at", self.dead_at.is_some()),
            ("states", self.states.is_some()),
            ("default-state", self.default_state.is_some()),
        ];
        if let Some((key, _)) = generic_only.iter().find(|(_, is_given)| *is_given) {
            return Err(ConfigError::new(
                *key,
                format!("only for the kind {GENERIC}, not for {}", self.kind.0),
            ));
        }
        let known = BUILT_IN.iter().find(|(name, _)| *name == self.kind.0);
        let clash = self.clash.unwrap_or_default().into();
        known.map(|(_, provider)| provider(clash)).ok_or_else(|| ConfigError::new("kind", "unknown"))
    }

    /// The provider's name: the key `name` of a generic one, else its kind.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.kind.0)
    }
}

/// The name of a built-in provider, or `generic`.
#[derive(Clone, Debug)]
pub(crate) struct ProviderKind(String);

fn kinds() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name).chain([GENERIC])
}

impl<'de> Deserialize<'de> for ProviderKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if kinds().any(|kind| kind == text) {
            return Ok(Self(text));
        }
        let known: Vec<_> = kinds().collect();
        Err(serde::de::Error::custom(format_args!("expected one of {}", known.join(", "))))
    }
}

impl JsonSchema for ProviderKind {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ProviderKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": kinds().collect::<Vec<_>>() })
    }
}
