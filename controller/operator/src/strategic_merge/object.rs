//! How objects merge.

use serde_json::{Map, Value};

use super::directive::{self, Directive, Entry};
use super::list;
use super::refused::{Refused, Why};
use super::schema::{Field, Shape};

/// Merges a whole object.
pub(super) fn root(before: &Value, patch: &Value, shape: &Shape) -> Result<Value, Refused> {
    let (Value::Object(before), Value::Object(patch)) = (before, patch) else {
        return Err(Refused::here(Why::NotAnObject));
    };
    if directive::of(patch)? == Some(Directive::Delete) {
        return Err(Refused::here(Why::DeletesAll));
    }
    merge(before, patch, shape).map(Value::Object)
}

/// Merges the fields of a patch into those of an object.
pub(super) fn merge(
    before: &Map<String, Value>,
    patch: &Map<String, Value>,
    shape: &Shape,
) -> Result<Map<String, Value>, Refused> {
    match directive::of(patch)? {
        Some(Directive::Delete) => return Ok(Map::new()),
        Some(Directive::Replace) => return Ok(directive::content(patch)),
        Some(Directive::Merge) | None => {}
    }
    let mut merged = before.clone();
    directive::retain(&mut merged, patch)?;
    for (name, wish) in patch {
        match directive::entry(name)? {
            Entry::Field(field) => {
                let order = directive::order(patch, field)?;
                let value = match order {
                    Some(order) => ordered(merged.get(field), wish, order, shape, field),
                    None => value(merged.get(field), wish, shape, field),
                };
                let value = value.map_err(|refused| refused.inside(field))?;
                set(&mut merged, field, value);
            }
            Entry::Order(field) if !patch.contains_key(field) => {
                let order = directive::order(patch, field)?.unwrap_or_default();
                if let Some(known) = merged.get(field) {
                    let sorted =
                        directive::elements(known).and_then(|known| sorted(known, order, shape.list(field)));
                    let sorted = sorted.map_err(|refused| refused.inside(field))?;
                    merged.insert(field.to_owned(), Value::Array(sorted));
                }
            }
            Entry::Order(_) | Entry::DeleteFrom(_) | Entry::Other => {}
        }
    }
    // What the patch adds and deletes at once is deleted.
    for (name, values) in patch {
        if let Entry::DeleteFrom(field) = directive::entry(name)? {
            let values = directive::elements(values).map_err(|refused| refused.inside(name))?;
            if let Some(Value::Array(known)) = merged.get_mut(field) {
                list::delete(known, values).map_err(|refused| refused.inside(field))?;
            }
        }
    }
    Ok(merged)
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    match value {
        Some(value) => drop(fields.insert(name.to_owned(), value)),
        None => drop(fields.remove(name)),
    }
}

/// Merges one field. None if it is gone.
fn value(
    before: Option<&Value>,
    patch: &Value,
    shape: &Shape,
    field: &str,
) -> Result<Option<Value>, Refused> {
    match (before, patch) {
        (_, Value::Null) => Ok(None),
        (Some(Value::Object(before)), Value::Object(patch)) => {
            merge(before, patch, shape.object(field)).map(|merged| Some(Value::Object(merged)))
        }
        (Some(Value::Array(before)), Value::Array(patch)) => {
            list::merge(before, patch, shape.list(field)).map(|merged| Some(Value::Array(merged)))
        }
        // Another type, or nothing.
        _ => Ok(directive::added(patch)),
    }
}

/// Merges a list and sorts it.
fn ordered(
    before: Option<&Value>,
    patch: &Value,
    order: &[Value],
    shape: &Shape,
    field: &str,
) -> Result<Option<Value>, Refused> {
    let how = shape.list(field);
    let patch = directive::elements(patch)?;
    list::check_order(patch, order, how)?;
    let before = before.map(directive::elements).transpose()?;
    let merged = match before {
        Some(before) => list::merge(before, patch, how)?,
        None => patch.iter().filter_map(directive::added).collect(),
    };
    let (order, before): (Vec<_>, Vec<_>) = (order.iter().collect(), before.into_iter().flatten().collect());
    let sorted = list::sort(merged, &order, &before, how)?;
    Ok(Some(Value::Array(sorted)))
}

/// Sorts a list that the patch does not change.
fn sorted(known: &[Value], order: &[Value], how: Field) -> Result<Vec<Value>, Refused> {
    let (order, before): (Vec<_>, Vec<_>) = (order.iter().collect(), known.iter().collect());
    list::sort(known.to_vec(), &order, &before, how)
}
