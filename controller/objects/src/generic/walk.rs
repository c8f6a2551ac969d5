//! Reading only what lies on the configured paths.
//!
//! The paths become a tree; an object's JSON is walked along it once, and everything off the tree is skipped by the
//! parser. A list with filters is walked with the subtrees of all filters that are still open; what a subtree took
//! from an element that does not match is dropped again before the next.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};

use super::path::{FieldPath, Step};
use crate::decode::{bounded, decode_with};
use crate::provider::Unreadable;

/// What stands at the end of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Found<'a> {
    /// Nothing, or null.
    #[default]
    Missing,
    Text(Cow<'a, str>),
    Number(f64),
    Bool(bool),
    /// An object or a list.
    Composite,
}

/// The tree of paths.
#[derive(Debug)]
pub(crate) struct Plan {
    nodes: Vec<Node>,
    slots: usize,
}

#[derive(Debug, Default)]
struct Node {
    /// Where what stands here is put.
    slot: Option<usize>,
    keys: Vec<(String, usize)>,
    indices: Vec<(usize, usize)>,
    filters: Vec<Filter>,
}

#[derive(Debug)]
struct Filter {
    tests: Vec<(String, String)>,
    /// The slots of the tested keys, in their order.
    slots: Vec<usize>,
    node: usize,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::default()], slots: 0 }
    }

    /// Takes a path into the tree. The slot is the place of its value in what [`Plan::read`] returns.
    pub(crate) fn add(&mut self, path: &FieldPath) -> usize {
        let mut at = 0;
        for step in path.steps() {
            at = match step {
                Step::Key(key) => self.key(at, key),
                Step::Index(index) => match self.nodes[at].indices.iter().find(|(known, _)| known == index) {
                    Some((_, node)) => *node,
                    None => {
                        let node = self.node();
                        self.nodes[at].indices.push((*index, node));
                        node
                    }
                },
                Step::Where(tests) => match self.nodes[at].filters.iter().find(|known| known.tests == *tests)
                {
                    Some(filter) => filter.node,
                    None => {
                        let node = self.node();
                        let mut slots = Vec::new();
                        for (key, _) in tests {
                            let tested = self.key(node, key);
                            slots.push(self.slot(tested));
                        }
                        self.nodes[at].filters.push(Filter { tests: tests.clone(), slots, node });
                        node
                    }
                },
            };
        }
        self.slot(at)
    }

    fn node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    fn key(&mut self, at: usize, key: &str) -> usize {
        if let Some((_, node)) = self.nodes[at].keys.iter().find(|(known, _)| known == key) {
            return *node;
        }
        let node = self.node();
        self.nodes[at].keys.push((key.to_owned(), node));
        node
    }

    fn slot(&mut self, node: usize) -> usize {
        let next = self.slots;
        let slot = *self.nodes[node].slot.get_or_insert(next);
        self.slots = self.slots.max(slot + 1);
        slot
    }

    /// The values at the paths, by slot.
    pub(crate) fn read<'de>(&self, object: &'de [u8]) -> Result<Vec<Found<'de>>, Unreadable> {
        decode_with(object, || Root(self))
    }

    fn clear(&self, node: usize, slots: &mut [Found<'_>]) {
        let node = &self.nodes[node];
        if let Some(slot) = node.slot {
            slots[slot] = Found::Missing;
        }
        let below = node.keys.iter().map(|(_, node)| *node);
        let below = below.chain(node.indices.iter().map(|(_, node)| *node));
        for node in below.chain(node.filters.iter().map(|filter| filter.node)) {
            self.clear(node, slots);
        }
    }
}

struct Root<'p>(&'p Plan);

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = Vec<Found<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let mut slots = vec![Found::Missing; self.0.slots];
        deserializer.deserialize_map(Walk { plan: self.0, nodes: &[0], slots: &mut slots })?;
        Ok(slots)
    }
}

/// At one value of the object, with the nodes of the tree that meet there.
struct Walk<'p, 's, 'de> {
    plan: &'p Plan,
    nodes: &'s [usize],
    slots: &'s mut Vec<Found<'de>>,
}

impl<'de> Walk<'_, '_, 'de> {
    fn here(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().map(|node| &self.plan.nodes[*node])
    }

    fn put(&mut self, found: &Found<'de>) {
        for node in self.nodes {
            if let Some(slot) = self.plan.nodes[*node].slot {
                self.slots[slot] = found.clone();
            }
        }
    }

    fn wants_object(&self) -> bool {
        self.here().any(|node| !node.keys.is_empty())
    }

    fn wants_list(&self) -> bool {
        self.here().any(|node| !node.indices.is_empty() || !node.filters.is_empty())
    }

    fn scalar<E: Error>(mut self, found: &Found<'de>, unexpected: Unexpected<'_>) -> Result<(), E> {
        if self.wants_object() || self.wants_list() {
            return Err(E::invalid_type(unexpected, &self));
        }
        self.put(found);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.wants_list() { "a list" } else { "an object" })
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.scalar(&Found::Bool(value), Unexpected::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.visit_f64(value as f64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.scalar(&Found::Number(value), Unexpected::Float(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        let found = Found::Text(Cow::Borrowed(bounded(text)?));
        self.scalar(&found, Unexpected::Str(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        let found = Found::Text(Cow::Owned(bounded(text)?.to_owned()));
        self.scalar(&found, Unexpected::Str(text))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if self.wants_list() {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        self.put(&Found::Composite);
        let mut seen = Vec::new();
        while let Some(nodes) = map.next_key_seed(Children { plan: self.plan, nodes: self.nodes })? {
            if nodes.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if seen.contains(&nodes[0]) {
                let known = self.here().flat_map(|node| &node.keys).find(|(_, node)| *node == nodes[0]);
                let key = known.map_or("", |(key, _)| key);
                return Err(A::Error::custom(format_args!("duplicate field `{key}`")));
            }
            seen.push(nodes[0]);
            map.next_value_seed(Walk { plan: self.plan, nodes: &nodes, slots: &mut *self.slots })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        if self.wants_object() {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        self.put(&Found::Composite);
        let plan = self.plan;
        let mut open: Vec<&Filter> = self.nodes.iter().flat_map(|node| &plan.nodes[*node].filters).collect();
        let places: Vec<&(usize, usize)> =
            self.nodes.iter().flat_map(|node| &plan.nodes[*node].indices).collect();
        let mut index = 0;
        loop {
            let mut nodes: Vec<usize> =
                places.iter().filter(|(place, _)| *place == index).map(|(_, node)| *node).collect();
            nodes.extend(open.iter().map(|filter| filter.node));
            if nodes.is_empty() && open.is_empty() && places.iter().all(|(place, _)| *place < index) {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(());
            }
            let walk = Walk { plan, nodes: &nodes, slots: &mut *self.slots };
            if list.next_element_seed(walk)?.is_none() {
                return Ok(());
            }
            open.retain(|filter| {
                let matches = filter.slots.iter().zip(&filter.tests).all(|(slot, (_, wanted))| {
                    match &self.slots[*slot] {
                        Found::Text(text) => text == wanted,
                        Found::Bool(value) => wanted == if *value { "true" } else { "false" },
                        _ => false,
                    }
                });
                if !matches {
                    plan.clear(filter.node, self.slots);
                }
                !matches
            });
            index += 1;
        }
    }
}

/// The nodes below, for a key of the object.
struct Children<'p, 's> {
    plan: &'p Plan,
    nodes: &'s [usize],
}

impl<'de> DeserializeSeed<'de> for Children<'_, '_> {
    type Value = Vec<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Children<'_, '_> {
    type Value = Vec<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Vec<usize>, E> {
        let keys = self.nodes.iter().flat_map(|node| &self.plan.nodes[*node].keys);
        Ok(keys.filter(|(known, _)| known == key).map(|(_, node)| *node).collect())
    }
}
