//! From JSON to a raw config.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The largest config of an extension, in bytes.
pub const MAX_CONFIG: usize = 64 * 1024;

/// Why a config was refused. Trying again does not help: the config has to change.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The path of the key, such as `dialects.kruise.default-port`, or `top level`.
    pub key: String,
    /// What was expected and what was found.
    pub reason: String,
}

impl ConfigError {
    /// An error at a key.
    pub fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }

    /// An error of the config as a whole.
    pub fn top_level(reason: impl Into<String>) -> Self {
        Self::new("top level", reason)
    }
}

/// Reads a raw config from JSON. Anything but one object is refused.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, ConfigError> {
    let mut input = serde_json::Deserializer::from_slice(json);
    let mut track = serde_path_to_error::Track::new();
    let raw = object(serde_path_to_error::Deserializer::new(&mut input, &mut track));
    let raw = raw.map_err(|error| {
        let path = track.path();
        let key = match path.to_string().as_str() {
            _ if path.iter().len() == 0 => "top level".to_owned(),
            "" => r#""""#.to_owned(),
            key => shortened(key).escape_debug().to_string(),
        };
        ConfigError::new(key, error.to_string())
    })?;
    input.end().map_err(|error| ConfigError::top_level(error.to_string()))?;
    Ok(raw)
}

/// Reads the raw config of an extension, as Envoy passes it: of [`MAX_CONFIG`] bytes at most.
pub fn parse_extension<T: DeserializeOwned>(json: &[u8]) -> Result<T, ConfigError> {
    if json.len() > MAX_CONFIG {
        let reason = format!("expected at most {MAX_CONFIG} bytes, found {}", json.len());
        return Err(ConfigError::top_level(reason));
    }
    parse(json)
}

/// [`parse_extension`] for a config whose keys are all optional: blank input gives the defaults.
pub fn parse_extension_or_default<T: DeserializeOwned + Default>(json: &[u8]) -> Result<T, ConfigError> {
    let blank = json.len() <= MAX_CONFIG && json.trim_ascii().is_empty();
    if blank { Ok(T::default()) } else { parse_extension(json) }
}

/// Checks that a number is from 1 to `max`.
pub fn in_range(key: &str, found: u64, max: u64) -> Result<u64, ConfigError> {
    if (1..=max).contains(&found) {
        return Ok(found);
    }
    Err(ConfigError::new(key, format!("expected a number from 1 to {max}, found {found}")))
}

/// For `deserialize_with` of an optional key: it may be left out, but not be null.
pub fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Option<T>, D::Error> {
    T::deserialize(input).map(Some)
}

/// For `deserialize_with` of a nested struct. A derived struct also accepts an array of its fields in order,
/// which the schema does not allow.
pub fn object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Object::deserialize(input).map(|Object(value)| value)
}

/// [`object`] for a list of structs.
pub fn objects<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    let list = Vec::<Object<T>>::deserialize(input)?;
    Ok(list.into_iter().map(|Object(value)| value).collect())
}

/// [`object`] for an optional key, as [`given`].
pub fn given_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(input: D) -> Result<Option<T>, D::Error> {
    object(input).map(Some)
}

/// [`objects`] for an optional key, as [`given`].
pub fn given_objects<'de, D, T>(input: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    objects(input).map(Some)
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct FromMap<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for FromMap<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        input.deserialize_map(FromMap(PhantomData))
    }
}

/// The first 80 characters of a text. A config may hold anything; an error message should not repeat all of
/// it.
pub fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
