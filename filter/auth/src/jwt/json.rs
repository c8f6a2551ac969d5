//! JSON objects, read more strictly than `serde_json` does by itself.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{
    Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor, value::MapAccessDeserializer,
};

/// Something that must be a JSON object. A derived struct alone would also take an array of its fields.
/// Derived structs refuse a member that is there twice.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfMap<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for OfMap<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(OfMap(PhantomData))
    }
}

/// Whether a member is there, whatever it is.
#[derive(Clone, Copy, Default)]
pub(super) struct Present(pub(super) bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// A NumericDate of RFC 7519: seconds since 1970, cut to whole ones towards 1970.
#[derive(Clone, Copy)]
pub(super) struct NumericDate(pub(super) i64);

// Whole numbers up to here are exact as floating-point numbers, and the year is past 285 million.
const FARTHEST: i64 = 1 << 53;

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfNumber;
        impl Visitor<'_> for OfNumber {
            type Value = NumericDate;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of seconds")
            }

            fn visit_i64<E: Error>(self, seconds: i64) -> Result<NumericDate, E> {
                if (-FARTHEST..=FARTHEST).contains(&seconds) {
                    Ok(NumericDate(seconds))
                } else {
                    Err(E::custom("out of range"))
                }
            }

            fn visit_u64<E: Error>(self, seconds: u64) -> Result<NumericDate, E> {
                self.visit_i64(i64::try_from(seconds).unwrap_or(i64::MAX))
            }

            fn visit_f64<E: Error>(self, seconds: f64) -> Result<NumericDate, E> {
                // This conversion saturates, and makes nothing of NaN, which JSON does not have anyway.
                #[expect(clippy::cast_possible_truncation, reason = "it saturates, and the range is checked")]
                self.visit_i64(seconds as i64)
            }
        }
        deserializer.deserialize_any(OfNumber)
    }
}
