//! The directives of a patch, and what is left of a patch without them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::refused::{Refused, Why};

/// The name of the directive for the object that it is in.
const PATCH: &str = "$patch";
/// The fields that are kept.
const RETAIN_KEYS: &str = "$retainKeys";
/// Before the name of a field: the values that its list loses.
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
/// Before the name of a field: the order of its list.
const ORDER: &str = "$setElementOrder";

/// What `$patch` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Delete,
    Replace,
    Merge,
}

/// The directive of an object.
pub(super) fn of(patch: &Map<String, Value>) -> Result<Option<Directive>, Refused> {
    match patch.get(PATCH) {
        None => Ok(None),
        Some(Value::String(text)) if text == "delete" => Ok(Some(Directive::Delete)),
        Some(Value::String(text)) if text == "replace" => Ok(Some(Directive::Replace)),
        Some(Value::String(text)) if text == "merge" => Ok(Some(Directive::Merge)),
        Some(other) => Err(Refused::here(Why::UnknownDirective(other.to_string()))),
    }
}

/// What an entry of a patch is about.
pub(super) enum Entry<'a> {
    /// A field.
    Field(&'a str),
    /// The values that the list of this field loses.
    DeleteFrom(&'a str),
    /// The order of the list of this field.
    Order(&'a str),
    /// A directive that is looked at beforehand.
    Other,
}

/// Reads the name of an entry.
pub(super) fn entry(name: &str) -> Result<Entry<'_>, Refused> {
    if matches!(name, PATCH | RETAIN_KEYS) {
        return Ok(Entry::Other);
    }
    let field = |rest: &'_ str| -> Result<usize, Refused> {
        let named = rest.strip_prefix('/').filter(|field| !field.is_empty());
        named.map(|field| name.len() - field.len()).ok_or_else(|| Refused::here(Why::NoField).inside(name))
    };
    if let Some(rest) = name.strip_prefix(DELETE_FROM) {
        return Ok(Entry::DeleteFrom(&name[field(rest)?..]));
    }
    if let Some(rest) = name.strip_prefix(ORDER) {
        return Ok(Entry::Order(&name[field(rest)?..]));
    }
    Ok(Entry::Field(name))
}

/// The order that a patch wants for the list of a field.
pub(super) fn order<'a>(patch: &'a Map<String, Value>, field: &str) -> Result<Option<&'a [Value]>, Refused> {
    let name = format!("{ORDER}/{field}");
    patch.get(&name).map(|value| elements(value).map_err(|refused| refused.inside(&name))).transpose()
}

/// The elements of what must be a list.
pub(super) fn elements(value: &Value) -> Result<&[Value], Refused> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| Refused::here(Why::NotAList))
}

/// Drops what `$retainKeys` does not name. The patch may set nothing else.
pub(super) fn retain(before: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), Refused> {
    let Some(names) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let names = elements(names).map_err(|refused| refused.inside(RETAIN_KEYS))?;
    let names: HashSet<&str> = names.iter().filter_map(Value::as_str).collect();
    let named = |field: &str| names.contains(field);
    for (name, value) in patch {
        if let Entry::Field(field) = entry(name)?
            && !value.is_null()
            && !named(field)
        {
            return Err(Refused::here(Why::NotRetained(field.to_owned())));
        }
    }
    before.retain(|field, _| named(field));
    Ok(())
}

/// What a patch puts where nothing was: the value without nulls, directives, and whatever has `$patch`.
pub(super) fn added(value: &Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => None,
        Value::Object(fields) => Some(Value::Object(content(fields))),
        Value::Array(elements) => Some(elements.iter().filter_map(added).collect()),
        single => Some(single.clone()),
    }
}

/// The fields of an object of a patch, as [`added`] has them.
pub(super) fn content(fields: &Map<String, Value>) -> Map<String, Value> {
    let is_field = |name: &str| matches!(entry(name), Ok(Entry::Field(_)));
    let fields = fields.iter().filter(|(name, value)| is_field(name) && !value.is_null());
    fields.filter_map(|(name, value)| Some((name.clone(), added(value)?))).collect()
}
