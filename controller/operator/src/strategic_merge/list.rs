//! How lists merge.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Map, Value};

use super::directive::{self, Directive};
use super::object;
use super::refused::{Refused, Why};
use super::schema::{Field, Shape};

/// Merges the elements of a patch into those of a list.
pub(super) fn merge(before: &[Value], patch: &[Value], how: Field) -> Result<Vec<Value>, Refused> {
    match how {
        Field::Keyed(key, shape) => keyed(before, patch, key, shape),
        Field::Set => set(before, patch),
        Field::Object(_) | Field::Whole => Ok(patch.iter().filter_map(directive::added).collect()),
    }
}

/// Merges elements that have the same key; the others are added. Of several elements with one key the first
/// counts.
///
/// Elements are found by an index, and never by a search of the list: both lists may be as long as the API
/// server lets an object be, and whoever wrote them must not keep a thread of this process for minutes.
fn keyed(
    before: &[Value],
    patch: &[Value],
    key: &'static str,
    shape: &'static Shape,
) -> Result<Vec<Value>, Refused> {
    // What is no object is in the way of whoever looks past it.
    let odd = before.iter().position(|known| !known.is_object());
    let mut gone = HashSet::new();
    let mut replaces = false;
    let mut plain = Vec::new();
    for element in patch {
        let fields = fields(element)?;
        match directive::of(fields)? {
            Some(Directive::Delete) => {
                gone.insert(key_of(element, key)?);
                if odd.is_some() {
                    return Err(Refused::here(Why::NotAnObject));
                }
            }
            Some(Directive::Replace) => replaces = true,
            Some(Directive::Merge) | None => plain.push((element, fields)),
        }
    }
    if replaces {
        let added = plain.iter().map(|(element, fields)| {
            key_of(element, key)?;
            Ok(Value::Object(directive::content(fields)))
        });
        return added.collect();
    }
    let is_kept = |known: &&Value| !known.get(key).is_some_and(|key| gone.contains(key));
    let before: Vec<&Value> = before.iter().filter(is_kept).collect();
    let mut merged: Vec<Value> = before.iter().copied().cloned().collect();
    // The places of each key, the first of them first.
    let mut places: HashMap<&Value, VecDeque<usize>> = HashMap::new();
    for (place, known) in before.iter().enumerate() {
        if let Some(key) = known.get(key) {
            places.entry(key).or_default().push_back(place);
        }
    }
    for (element, fields) in &plain {
        let wanted = key_of(element, key)?;
        let found = places.get(wanted).and_then(VecDeque::front).copied();
        if odd.is_some_and(|odd| found.is_none_or(|found| odd < found)) {
            return Err(Refused::here(Why::NotAnObject));
        }
        // What merges with a null key loses it: a null deletes the field.
        let has_key = |element: &Map<String, Value>| element.get(key) == Some(wanted);
        match found {
            Some(place) => {
                let name = format!("{key}={}", shown(wanted));
                let known = self::fields(&merged[place])?;
                let element = object::merge(known, fields, shape).map_err(|refused| refused.inside(&name))?;
                if !has_key(&element) {
                    places.get_mut(wanted).and_then(VecDeque::pop_front);
                }
                merged[place] = Value::Object(element);
            }
            None => {
                let element = directive::content(fields);
                if has_key(&element) {
                    places.entry(wanted).or_default().push_back(merged.len());
                }
                merged.push(Value::Object(element));
            }
        }
    }
    let order: Vec<&Value> = plain.iter().map(|(element, _)| *element).collect();
    sort(merged, &order, &before, Field::Keyed(key, shape))
}

/// Adds the values that the list does not have.
fn set(before: &[Value], patch: &[Value]) -> Result<Vec<Value>, Refused> {
    let mut kind = None;
    let (mut known, mut merged) = (HashSet::new(), Vec::new());
    for value in before.iter().chain(patch) {
        let is = scalar(value)?;
        if *kind.get_or_insert(is) != is {
            return Err(Refused::here(Why::MixedTypes));
        }
        if known.insert(value) {
            merged.push(value.clone());
        }
    }
    let (order, before) = (patch.iter().collect::<Vec<_>>(), before.iter().collect::<Vec<_>>());
    sort(merged, &order, &before, Field::Set)
}

/// Takes values out of a list of single values.
pub(super) fn delete(from: &mut Vec<Value>, values: &[Value]) -> Result<(), Refused> {
    for value in from.iter().chain(values) {
        scalar(value)?;
    }
    let gone: HashSet<&Value> = values.iter().collect();
    from.retain(|value| !gone.contains(value));
    Ok(())
}

/// Sorts a merged list: what `order` names comes in that order. The rest keeps the order of `before`, and
/// each of it comes before the first named element that followed it there.
pub(super) fn sort(
    merged: Vec<Value>,
    order: &[&Value],
    before: &[&Value],
    how: Field,
) -> Result<Vec<Value>, Refused> {
    let (order, before) = (ranks(order, how)?, ranks(before, how)?);
    let (mut named, mut rest) = (Vec::new(), Vec::new());
    for element in merged {
        let id = id(&element, how)?;
        let at = before.get(id).copied();
        match order.get(id).copied() {
            Some(rank) => named.push((rank, at, element)),
            None => rest.push((at, element)),
        }
    }
    named.sort_by_key(|(rank, _, _)| *rank);
    rest.sort_by_key(|(at, _)| *at);
    let mut sorted = Vec::with_capacity(named.len() + rest.len());
    let mut rest = rest.into_iter().peekable();
    for (_, at, element) in named {
        while let Some((_, earlier)) =
            rest.next_if(|(known, _)| at.is_some() && known.is_some() && *known < at)
        {
            sorted.push(earlier);
        }
        sorted.push(element);
    }
    sorted.extend(rest.map(|(_, element)| element));
    Ok(sorted)
}

/// Where each element of a list is; of equal ones the first.
fn ranks<'a>(list: &[&'a Value], how: Field) -> Result<HashMap<&'a Value, usize>, Refused> {
    let mut ranks = HashMap::with_capacity(list.len());
    for (rank, element) in list.iter().enumerate() {
        ranks.entry(id(element, how)?).or_insert(rank);
    }
    Ok(ranks)
}

/// Checks that the elements of a patch come in the order that the patch wants.
pub(super) fn check_order(patch: &[Value], order: &[Value], how: Field) -> Result<(), Refused> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut order = order.iter();
    for element in patch {
        if let Some(fields) = element.as_object()
            && directive::of(fields)?.is_some_and(|directive| directive != Directive::Merge)
        {
            continue;
        }
        let wanted = id(element, how)?;
        loop {
            let Some(next) = order.next() else { return Err(Refused::here(Why::OtherOrder)) };
            if id(next, how)? == wanted {
                break;
            }
        }
    }
    Ok(())
}

/// What tells an element from the others.
fn id(element: &Value, how: Field) -> Result<&Value, Refused> {
    match how {
        Field::Keyed(key, _) => {
            fields(element)?;
            key_of(element, key)
        }
        Field::Object(_) | Field::Set | Field::Whole => scalar(element).map(|_| element),
    }
}

fn fields(element: &Value) -> Result<&Map<String, Value>, Refused> {
    element.as_object().ok_or_else(|| Refused::here(Why::NotAnObject))
}

fn key_of<'a>(element: &'a Value, key: &'static str) -> Result<&'a Value, Refused> {
    match element.get(key) {
        None => Err(Refused::here(Why::NoMergeKey(key))),
        Some(Value::Object(_) | Value::Array(_)) => Err(Refused::here(Why::BadMergeKey(key))),
        Some(value) => Ok(value),
    }
}

/// The type of a single value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    Null,
    Bool,
    Number,
    Text,
}

fn scalar(value: &Value) -> Result<Scalar, Refused> {
    match value {
        Value::Null => Ok(Scalar::Null),
        Value::Bool(_) => Ok(Scalar::Bool),
        Value::Number(_) => Ok(Scalar::Number),
        Value::String(_) => Ok(Scalar::Text),
        Value::Array(_) | Value::Object(_) => Err(Refused::here(Why::NotScalar)),
    }
}

fn shown(key: &Value) -> String {
    key.as_str().map_or_else(|| key.to_string(), str::to_owned)
}
