//! JSON to a whole object, without `metadata.managedFields`.
//!
//! The parser's map of the object is wrapped: the value of `metadata` is read through a map that skips the
//! one key. Nothing of it becomes memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, forward_to_deserialize_any};

use crate::provider::Unreadable;
use crate::text::Text;

/// Decodes an object of a whole kind. `metadata.managedFields` is skipped.
///
/// # Errors
/// [`Unreadable`] names the first field of another type. Decoding the same bytes again does not help.
pub fn decode<K: Default + DeserializeOwned>(object: &[u8]) -> Result<K, Unreadable> {
    crate::decode::decode::<Slim<K>>(object).map(|Slim(object)| object)
}

/// An object that is decoded without its managed fields.
#[derive(Default)]
struct Slim<K>(K);

impl<'de, K: Deserialize<'de>> Deserialize<'de> for Slim<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Whole(PhantomData)).map(Self)
    }
}

struct Whole<K>(PhantomData<K>);

impl<'de, K: Deserialize<'de>> Visitor<'de> for Whole<K> {
    type Value = K;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<K, A::Error> {
        K::deserialize(MapAccessDeserializer::new(Fields { map, in_metadata: false }))
    }
}

/// The fields of an object.
struct Fields<A> {
    map: A,
    /// Whether the value that comes next is the metadata.
    in_metadata: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key::<Text<'de>>()? else { return Ok(None) };
        self.in_metadata = &*key == "metadata";
        let key: StrDeserializer<'_, A::Error> = (*key).into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        if self.in_metadata {
            self.map.next_value_seed(Metadata(seed))
        } else {
            self.map.next_value_seed(seed)
        }
    }
}

/// The metadata of an object, at each step of its decoding: the seed, the deserializer, the visitor and the
/// map.
struct Metadata<T>(T);

impl<'de, V: DeserializeSeed<'de>> DeserializeSeed<'de> for Metadata<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.deserialize(Metadata(deserializer))
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Metadata<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Metadata(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Metadata<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(Metadata(map))
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Metadata<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<Text<'de>>()? {
            if &*key == "managedFields" {
                self.0.next_value::<IgnoredAny>()?;
                continue;
            }
            let key: StrDeserializer<'_, A::Error> = (*key).into_deserializer();
            return seed.deserialize(key).map(Some);
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}
