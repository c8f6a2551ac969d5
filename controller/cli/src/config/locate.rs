//! Where in a YAML text a key stands.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Line and column of the key at a path such as `filter.dialects.kruise` or `tls.certificates[0].key`, or of
/// the nearest one above it.
pub(super) fn find(text: &str, path: &str) -> Option<(u64, u64)> {
    let mut node = serde_saphyr::from_str::<Node>(text).ok()?;
    let mut found = None;
    for part in path.split('.') {
        let mut steps = part.split('[');
        let name = steps.next().unwrap_or_default();
        let Node::Mapping(keys) = node else { break };
        let Some((key, below)) = keys.into_iter().find(|(key, _)| key.value == name) else { break };
        found = Some((key.referenced.line(), key.referenced.column()));
        node = below;
        for step in steps {
            let index: Option<usize> = step.strip_suffix(']').and_then(|index| index.parse().ok());
            node = match (node, index) {
                (Node::List(items), Some(index)) => items.into_iter().nth(index).unwrap_or(Node::Other),
                _ => Node::Other,
            };
        }
    }
    found
}

enum Node {
    Mapping(Vec<(Spanned<String>, Node)>),
    List(Vec<Node>),
    Other,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

macro_rules! other {
    ($($visit:ident($kind:ty)),*) => {
        $(fn $visit<E>(self, _: $kind) -> Result<Node, E> { Ok(Node::Other) })*
    };
}

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        std::iter::from_fn(|| map.next_entry().transpose()).collect::<Result<_, _>>().map(Node::Mapping)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        std::iter::from_fn(|| list.next_element().transpose()).collect::<Result<_, _>>().map(Node::List)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }

    other!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str));
}
