//! The routes file as it is written. One set of types is both what the parsers read and what the published
//! schema describes, so the two cannot disagree about a key.
//!
//! The docs of the keys are the schema's descriptions, line breaks included.

use std::fmt;
use std::marker::PhantomData;

use sandgate_routes::Observation;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::check::{Doubts, Mistake};
use super::error::Place;

/// The JSON schema of a routes file, as published beside Envoy's config.
///
/// The parser alone checks what a schema cannot say well: ids and `namespace`/`name` pairs are unique in a
/// file, an `id` that is left out must still be valid when it is made, an `owner` is measured in bytes, and
/// an `ip` is that of one machine.
pub fn routes_file_schema() -> serde_json::Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    generator.into_root_schema_for::<RawFile<String>>().to_value()
}

/// A text of the file, with its place if `Self` has one. Reading places takes much longer, so a file is first
/// read as `String`, and as `Spanned<String>` only to say where something is wrong.
pub(super) trait Text: DeserializeOwned {
    fn placed(self) -> (String, Option<Place>);
}

impl Text for String {
    fn placed(self) -> (String, Option<Place>) {
        (self, None)
    }
}

impl Text for Spanned<String> {
    fn placed(self) -> (String, Option<Place>) {
        let place = Place::known(self.referenced).or_else(|| Place::known(self.defined));
        (self.value, place)
    }
}

/// Routes to sandboxes, for a Sandgate that has no cluster to watch.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound = "T: Text")]
#[schemars(title = "Sandgate routes file")]
pub(super) struct RawFile<T, const MAX: usize = { super::MAX_ROUTES }> {
    /// Every sandbox there is. What is not listed has no route; an empty list must be written as `[]`.
    #[schemars(with = "Vec<RawRoute<T>>", length(max = 1_000_000))]
    pub(super) routes: Routes<T, MAX>,
}

/// One sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", bound = "T: Text")]
#[schemars(rename = "RouteEntry")]
#[schemars(extend(
    "not" = { "required": ["access-token", "secure-access-token"] },
    "if" = { "properties": { "state": { "const": "running" } } },
    "then" = { "required": ["ip"] }
))]
pub(super) struct RawRoute<T> {
    /// The object's name.
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9._-]{1,253}$"))]
    pub(super) name: T,
    /// The object's namespace.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", extend("default" = "default"), regex(pattern = r"^[A-Za-z0-9._-]{1,63}$"))]
    pub(super) namespace: Option<T>,
    /// What a request names the sandbox by. Left out: `{namespace}--{name}`.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z0-9._-]{1,253}$"))]
    pub(super) id: Option<T>,
    /// The identity: a new uid under an old name is a new sandbox. Left out: `file:{namespace}/{name}`.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,253}$"))]
    pub(super) uid: Option<T>,
    /// Where the sandbox listens, IPv4 or IPv6, without a port: the request says which port. Needed when
    /// running.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", extend("anyOf" = [{ "format": "ipv4" }, { "format": "ipv6" }]))]
    pub(super) ip: Option<T>,
    /// Only a running sandbox is served. Any other word makes the sandbox known and not served, and is warned
    /// of.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "AnyState", extend("default" = "running"))]
    pub(super) state: Option<T>,
    /// Whose sandbox it is. Shown, never checked.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[^\u0000-\u001f\u007f-\u009f]{0,255}$"))]
    pub(super) owner: Option<T>,
    /// What a request must carry when the filter has `enable-auth`. Shown nowhere.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,4096}$"))]
    pub(super) access_token: Option<T>,
    /// What a request must carry in OpenSandbox-Secure-Access, with or without `enable-auth`. In place of
    /// access-token.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,4096}$"))]
    pub(super) secure_access_token: Option<T>,
    /// What a request must carry in e2b-traffic-access-token, but for the port of envd. Beside the other
    /// tokens. Shown nowhere.
    #[serde(default, deserialize_with = "not_null")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]{1,4096}$"))]
    pub(super) traffic_access_token: Option<T>,
    /// Refuse requests without a verified traffic token.
    #[serde(default, deserialize_with = "boolean")]
    #[schemars(with = "bool", extend("default" = false))]
    pub(super) require_traffic_auth: bool,
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[expect(dead_code, reason = "only its shape is used")]
enum AnyState {
    Known(StateName),
    Other(String),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase", inline)]
#[expect(dead_code, reason = "only its shape is used")]
enum StateName {
    Creating,
    Available,
    Running,
    Paused,
    Unknown,
    Dead,
}

/// A key may be left out, but null is a mistake.
fn not_null<'de, D: Deserializer<'de>, T: Text>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A boolean that every other reader of the file takes for one. The YAML library alone would also take the
/// text "true".
fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    struct Boolean;
    impl Visitor<'_> for Boolean {
        type Value = bool;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true or false")
        }
        fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
            Ok(value)
        }
    }
    deserializer.deserialize_any(Boolean)
}

/// The list of routes. Each is checked as soon as it is read, so that a large file is never in memory both as
/// raw and as checked routes.
pub(super) struct Routes<T, const MAX: usize> {
    /// The routes up to the first mistake.
    pub(super) observations: Vec<Observation>,
    /// Where the name and the id of each stand, if `T` knows.
    pub(super) places: Vec<(Place, Place)>,
    pub(super) mistake: Option<Mistake>,
    pub(super) doubts: Doubts,
    text: PhantomData<T>,
}

impl<'de, T: Text, const MAX: usize> Deserialize<'de> for Routes<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(RoutesVisitor(PhantomData))
    }
}

struct RoutesVisitor<T, const MAX: usize>(PhantomData<T>);

impl<'de, T: Text, const MAX: usize> Visitor<'de> for RoutesVisitor<T, MAX> {
    type Value = Routes<T, MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of routes")
    }

    /// A half written file has nothing after `routes:`. To take it for an empty list would empty the table.
    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Err(E::custom("null"))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut routes = Routes {
            observations: Vec::new(),
            places: Vec::new(),
            mistake: None,
            doubts: Doubts::default(),
            text: PhantomData,
        };
        while routes.mistake.is_none() {
            if routes.observations.len() == MAX {
                if list.next_element::<IgnoredAny>()?.is_some() {
                    routes.mistake = Some(Mistake::too_many(MAX));
                }
                break;
            }
            let Some(raw) = list.next_element::<RawRoute<T>>()? else { break };
            let index = routes.observations.len();
            match raw.check(index, &mut routes.doubts) {
                Ok(checked) => {
                    routes.observations.push(checked.observation);
                    routes.places.extend(checked.name_at.zip(checked.id_at));
                }
                Err(mistake) => routes.mistake = Some(mistake),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(routes)
    }
}
