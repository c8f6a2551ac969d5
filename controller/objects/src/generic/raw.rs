//! The raw values of the generic provider's config. The doc comments of its keys are the descriptions of the
//! JSON schema.

use std::borrow::Cow;
use std::fmt;

use sandgate_config::{given, objects};
use sandgate_routes::State;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::condition::Test;
use super::path::{FieldPath, MAX_PATH};

/// The largest number to compare with. JSON parsers that read numbers as doubles read this one exactly.
pub(super) const MAX_NUMBER: i64 = 1 << 53;
pub(super) const MAX_VALUES: usize = 64;
pub(crate) const MAX_RULES: usize = 64;
pub(super) const MAX_CONDITIONS: usize = 16;
const MAX_PATHS: usize = 8;

/// Which custom resource.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct RawResource {
    /// The API group.
    pub(crate) group: String,
    /// The version of the group.
    pub(crate) version: String,
    /// The kind.
    pub(crate) kind: String,
    /// The name in URLs.
    pub(crate) plural: String,
}

/// A state and when an object is in it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub(crate) struct RawRule {
    /// What must all hold.
    #[serde(deserialize_with = "objects")]
    #[schemars(length(min = 1, max = MAX_CONDITIONS))]
    pub(crate) when: Vec<RawCondition>,
    /// The state.
    pub(crate) state: RawState,
}

/// A field and one test of it. A field that is missing, null or an empty text is absent.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(inline, extend("oneOf" = [
    { "required": ["equals"] }, { "required": ["in"] }, { "required": ["exists"] }, { "required": ["absent"] },
    { "required": ["at-least"] }
]))]
pub(crate) struct RawCondition {
    /// The field.
    pub(crate) path: RawPath,
    /// It has this value.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "Scalar")]
    pub(crate) equals: Option<Scalar>,
    /// It has one of these values, all of one type.
    #[serde(default, rename = "in", deserialize_with = "given")]
    #[schemars(with = "Vec<Scalar>", length(min = 1, max = MAX_VALUES))]
    pub(crate) one_of: Option<Vec<Scalar>>,
    /// It is there.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "True")]
    pub(crate) exists: Option<True>,
    /// It is not there.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "True")]
    pub(crate) absent: Option<True>,
    /// It is a number of at least this.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "i64", range(min = -MAX_NUMBER, max = MAX_NUMBER))]
    pub(crate) at_least: Option<i64>,
}

impl RawCondition {
    /// The tests that are written.
    pub(crate) fn tests(self) -> Vec<Test> {
        let Self { path: _, equals, one_of, exists, absent, at_least } = self;
        let values = equals.map(|value| vec![value]).into_iter().chain(one_of).map(Test::OneOf);
        let presence = exists.map(|True| Test::Exists).into_iter().chain(absent.map(|True| Test::Absent));
        values.chain(presence).chain(at_least.map(Test::AtLeast)).collect()
    }
}

/// A state, by its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawState(pub(crate) State);

/// One path.
#[derive(Clone, Debug)]
pub(crate) struct RawPath(pub(crate) FieldPath);

/// One path, or several. The first path that leads to a text that is not empty counts.
#[derive(Clone, Debug)]
pub(crate) struct RawPaths(pub(crate) Vec<FieldPath>);

/// The value `true`. `false` is refused: the opposite test has its own key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct True;

/// A value to compare with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scalar {
    Text(String),
    Bool(bool),
    Number(i64),
}

impl<'de> Deserialize<'de> for RawState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

fn path<E: Error>(text: &str) -> Result<FieldPath, E> {
    FieldPath::parse(text).map_err(E::custom)
}

impl<'de> Deserialize<'de> for RawPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        path(&String::deserialize(deserializer)?).map(Self)
    }
}

impl<'de> Deserialize<'de> for RawPaths {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Paths;

        impl<'de> Visitor<'de> for Paths {
            type Value = RawPaths;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or a list of paths")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<RawPaths, E> {
                path(text).map(|path| RawPaths(vec![path]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawPaths, A::Error> {
                let mut paths = Vec::new();
                while let Some(RawPath(path)) = list.next_element()? {
                    paths.push(path);
                    if paths.len() > MAX_PATHS {
                        return Err(A::Error::custom(format_args!("expected at most {MAX_PATHS} paths")));
                    }
                }
                if paths.is_empty() {
                    return Err(A::Error::custom("expected at least one path"));
                }
                Ok(RawPaths(paths))
            }
        }

        deserializer.deserialize_any(Paths)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if bool::deserialize(deserializer)? { Ok(Self) } else { Err(D::Error::custom("expected true")) }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;

        impl Visitor<'_> for Value {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text that is not empty, a boolean or a whole number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Scalar, E> {
                match text {
                    "" => Err(E::custom("an empty text is absent: ask with `absent`")),
                    text => Ok(Scalar::Text(text.to_owned())),
                }
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Scalar, E> {
                if value.unsigned_abs() <= MAX_NUMBER.unsigned_abs() {
                    return Ok(Scalar::Number(value));
                }
                Err(E::custom(format_args!("expected a number from -{MAX_NUMBER} to {MAX_NUMBER}")))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Scalar, E> {
                self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
            }
        }

        deserializer.deserialize_any(Value)
    }
}

/// Implements an inline schema.
macro_rules! schema {
    ($($type:ident => $schema:expr;)*) => { $(
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    )* };
}

schema! {
    RawState => json_schema!({ "type": "string", "enum": State::ALL.map(State::as_str) });
    RawPath => json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_PATH });
    RawPaths => json_schema!({ "anyOf": [
        { "type": "string", "minLength": 1, "maxLength": MAX_PATH },
        {
            "type": "array", "minItems": 1, "maxItems": MAX_PATHS,
            "items": { "type": "string", "minLength": 1, "maxLength": MAX_PATH }
        }
    ] });
    True => json_schema!({ "const": true });
    Scalar => json_schema!({ "anyOf": [
        { "type": "string", "minLength": 1 },
        { "type": "boolean" },
        { "type": "integer", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER }
    ] });
}
