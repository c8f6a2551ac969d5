//! What holds for every pod and every patch.

use std::collections::BTreeSet;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Map, Value, json};

use super::super::pod;

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    proptest::sample::select(values).prop_map(Value::from)
}

fn names() -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(vec!["a", "b", "c", "d"], 0..=4).prop_shuffle()
}

fn labels() -> impl Strategy<Value = Value> {
    btree_map("[xyz]", one_of(&["1", "2"]), 0..3).prop_map(|labels| json!(labels))
}

/// A list of objects with these names, each with some of the fields.
fn named(field: &'static str, inner: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let elements = names().prop_flat_map(move |names| {
        let each: Vec<_> = names.into_iter().map(|name| (Just(name), inner.clone())).collect();
        each
    });
    let element = move |(name, inner): (&str, Value)| {
        let mut fields = Map::from_iter([(field.to_owned(), json!(name))]);
        fields.extend(inner.as_object().cloned().into_iter().flatten());
        Value::Object(fields)
    };
    elements.prop_map(move |elements| elements.into_iter().map(element).collect()).boxed()
}

/// An object with some of these fields.
fn some(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let count = fields.len();
    subsequence(fields, 0..=count)
        .prop_flat_map(|fields| {
            fields.into_iter().map(|(name, value)| (Just(name), value)).collect::<Vec<_>>()
        })
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        .boxed()
}

/// A pod, or a patch without directives: the same fields, some of them.
fn document() -> BoxedStrategy<Value> {
    let variable = some(vec![("value", one_of(&["1", "2"]).boxed())]);
    let mount = some(vec![("name", one_of(&["v", "w"]).boxed())]);
    let container = some(vec![
        ("image", one_of(&["i", "j"]).boxed()),
        ("command", vec(one_of(&["x", "y"]), 0..3).prop_map(Value::from).boxed()),
        ("env", named("name", variable)),
        ("volumeMounts", named("mountPath", mount)),
        ("resources", labels().prop_map(|limits| json!({ "limits": limits })).boxed()),
    ]);
    let finalizers = names().prop_map(|names| json!(names)).boxed();
    let metadata = some(vec![("labels", labels().boxed()), ("finalizers", finalizers)]);
    let spec = some(vec![
        ("containers", named("name", container)),
        ("nodeName", one_of(&["m", "n"]).boxed()),
        ("tolerations", vec(labels(), 0..3).prop_map(Value::from).boxed()),
    ]);
    some(vec![("metadata", metadata), ("spec", spec)])
}

/// The same document with nulls in some places.
fn with_nulls(document: Value, choices: &mut impl Iterator<Item = bool>) -> Value {
    match document {
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let is_key = matches!(&*name, "name" | "mountPath");
                let value = if !is_key && choices.next() == Some(true) {
                    Value::Null
                } else {
                    with_nulls(value, choices)
                };
                (name, value)
            });
            fields.collect()
        }
        // In a list that is replaced whole they would not be deletions.
        Value::Array(elements) if elements.iter().all(|element| element.get("name").is_some()) => {
            elements.into_iter().map(|value| with_nulls(value, choices)).collect()
        }
        other => other,
    }
}

/// A patch without directives; nulls are no directives.
fn patch() -> impl Strategy<Value = Value> {
    (document(), vec(prop::bool::weighted(0.2), 64))
        .prop_map(|(document, nulls)| with_nulls(document, &mut nulls.into_iter()))
}

/// The values by their paths. An element of a list that is merged is named by its key; other lists are one
/// value.
fn leaves(value: &Value, path: &str, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                leaves(value, &format!("{path}/{name}"), into);
            }
        }
        Value::Array(elements) if key(path).is_some() => {
            for element in elements {
                let key = &element[key(path).expect("it has a key")];
                leaves(element, &format!("{path}/[{key}]"), into);
            }
        }
        Value::Array(elements) if path.ends_with("/finalizers") => {
            into.extend(elements.iter().map(|element| (format!("{path}/{element}"), element.clone())));
        }
        single => into.push((path.to_owned(), single.clone())),
    }
}

fn key(path: &str) -> Option<&'static str> {
    match path.rsplit('/').next() {
        Some("containers" | "env") => Some("name"),
        Some("volumeMounts") => Some("mountPath"),
        _ => None,
    }
}

fn paths(value: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    leaves(value, "", &mut found);
    found
}

proptest! {
    #[test]
    fn a_patch_without_directives_changes_nothing_the_second_time(before in document(), patch in patch()) {
        let once = pod(&before, &patch).expect("a patch that applies");
        let twice = pod(&once, &patch);
        prop_assert_eq!(twice.as_ref(), Ok(&once));
    }

    #[test]
    fn what_a_patch_does_not_name_stays_and_what_it_names_is_there(before in document(), patch in patch()) {
        let merged = paths(&pod(&before, &patch).expect("a patch that applies"));
        let asked = paths(&patch);
        for (path, value) in &asked {
            let is = merged.iter().find(|(known, _)| known == path).map(|(_, value)| value);
            prop_assert_eq!(is, Some(value).filter(|value| !value.is_null()), "{}", path);
        }
        let named: BTreeSet<&str> = asked.iter().map(|(path, _)| &**path).collect();
        for (path, value) in paths(&before) {
            let is_named = named.iter().any(|named| path == *named || path.starts_with(&format!("{named}/")));
            if !is_named {
                prop_assert!(merged.contains(&(path.clone(), value)), "{} is gone", path);
            }
        }
    }

    #[test]
    fn an_empty_patch_changes_nothing(before in document()) {
        prop_assert_eq!(pod(&before, &json!({})), Ok(before));
    }

    #[test]
    fn no_patch_makes_it_panic(before in document(), patch in any_json()) {
        let _ = pod(&before, &patch);
    }
}

/// Any JSON, of names and values that mean something.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        one_of(&["a", "delete", "replace", "merge"]),
        any::<u8>().prop_map(Value::from),
    ];
    let name = proptest::sample::select(vec![
        "metadata",
        "spec",
        "containers",
        "finalizers",
        "labels",
        "env",
        "name",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "$setElementOrder",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            btree_map(name.clone(), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}
