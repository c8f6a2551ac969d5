//! The readers of each level of the file: the whole, the list, one route.

use std::fmt;
use std::marker::PhantomData;

use sandgate_routes::Version;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::notes::{Key, Notes};
use super::parse::Entry;
use super::places::{Places, next_key, next_value};
use super::route::Raw;

/// A key as written, if it is one of ours.
struct Named(Result<Key, String>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Named;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_str<E>(self, text: &str) -> Result<Named, E> {
                Ok(Named(
                    Key::ALL.iter().copied().find(|k| k.as_str() == text).ok_or_else(|| text.to_owned()),
                ))
            }
        }
        deserializer.deserialize_str(V)
    }
}

/// A boolean that is one to every reader of the file; `None` for the text "true" and all else. That is not refused
/// on the spot because the place of the value is only known once it is read.
struct Flag(Option<bool>);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Flag;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Flag, E> {
                Ok(Flag(Some(flag)))
            }
            fn visit_str<E>(self, _: &str) -> Result<Flag, E> {
                Ok(Flag(None))
            }
            fn visit_u64<E>(self, _: u64) -> Result<Flag, E> {
                Ok(Flag(None))
            }
            fn visit_unit<E>(self) -> Result<Flag, E> {
                Ok(Flag(None))
            }
        }
        deserializer.deserialize_any(V)
    }
}

/// Names a key that is not ours only where it looks like a key: a slip such as `access-token:s3cret` makes a key
/// that holds a secret.
fn unknown_key(text: &str, known: &str) -> String {
    let plain = text.len() <= 32 && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_');
    if plain && !text.is_empty() {
        format!("unknown key `{text}`, expected {known}")
    } else {
        format!("unknown key, expected {known}")
    }
}

/// What every reader needs.
pub(super) struct Reader<'a, P> {
    notes: &'a Notes,
    version: &'a Version,
    max_routes: usize,
    places: PhantomData<P>,
}

impl<P> Clone for Reader<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Reader<'_, P> {}

impl<'a, P: Places> Reader<'a, P> {
    pub(super) fn new(notes: &'a Notes, version: &'a Version, max_routes: usize) -> Self {
        Reader { notes, version, max_routes, places: PhantomData }
    }

    /// Reads a whole file.
    pub(super) fn read<'de, D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_map(WholeFile(self))
    }
}

struct WholeFile<'a, P>(Reader<'a, P>);

impl<'de, P: Places> Visitor<'de> for WholeFile<'_, P> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping with the key `routes`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let notes = self.0.notes;
        let mut entries = None;
        while let Some(key) = next_key::<P, String, A>(&mut map)? {
            if key.value != "routes" {
                return Err(notes.fail(key.place, unknown_key(&key.value, "`routes`")));
            }
            if entries.is_some() {
                return Err(notes.fail(key.place, "the file: the key `routes` is given twice".to_owned()));
            }
            notes.list.set(true);
            entries = Some(map.next_value_seed(List(self.0))?);
            notes.list.set(false);
        }
        entries
            .ok_or_else(|| notes.fail(None, "the file: expected a mapping with the key `routes`".to_owned()))
    }
}

struct List<'a, P>(Reader<'a, P>);

impl<'de, P: Places> DeserializeSeed<'de> for List<'_, P> {
    type Value = Vec<Entry>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, P: Places> Visitor<'de> for List<'_, P> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of routes")
    }

    /// Nothing after `routes:` is what a half written file has, and would empty the table.
    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Err(E::custom("nothing"))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Reader { notes, max_routes, .. } = self.0;
        let mut entries = Vec::new();
        loop {
            if entries.len() == max_routes {
                if list.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                return Err(notes.fail(None, format!("routes: expected at most {max_routes} routes")));
            }
            notes.index.set(Some(entries.len()));
            notes.key.set(None);
            match list.next_element_seed(OneRoute(self.0))? {
                Some(entry) => entries.push(entry),
                None => break,
            }
        }
        notes.index.set(None);
        Ok(entries)
    }
}

struct OneRoute<'a, P>(Reader<'a, P>);

impl<'de, P: Places> DeserializeSeed<'de> for OneRoute<'_, P> {
    type Value = Entry;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, P: Places> Visitor<'de> for OneRoute<'_, P> {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a route")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Reader { notes, version, .. } = self.0;
        let mut raw = Raw::default();
        while let Some(named) = next_key::<P, Named, A>(&mut map)? {
            raw.first = raw.first.or(named.place);
            let key = match named.value.0 {
                Ok(key) => key,
                Err(text) => {
                    let known: Vec<&str> = Key::ALL.iter().map(|k| k.as_str()).collect();
                    let problem = format!("{}: {}", notes.at(), unknown_key(&text, &known.join(", ")));
                    return Err(notes.fail(named.place, problem));
                }
            };
            if raw.has(key) {
                let problem = format!("{}: the key `{}` is given twice", notes.at(), key.as_str());
                return Err(notes.fail(named.place, problem));
            }
            notes.key.set(Some(key));
            if key == Key::RequireTrafficAuth {
                let flag = next_value::<P, Flag, A>(&mut map)?;
                let Some(on) = flag.value.0 else { return Err(notes.bad_value(flag.place, key)) };
                raw.require_traffic_auth = Some(on);
            } else {
                *raw.text(key) = Some(next_value::<P, String, A>(&mut map)?);
            }
            notes.key.set(None);
        }
        raw.check(notes, version)
    }
}
