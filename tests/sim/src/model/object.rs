//! Objects as the model holds them: JSON, with names for the fields that every object has.

use serde_json::{Map, Value};

use super::Kind;

/// Where an object is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its kind.
    pub kind: &'static Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Place {
    /// The object of this kind, namespace and name.
    pub fn new(kind: &'static Kind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Where this object is, if its kind is known.
    pub fn of(kind: &'static Kind, object: &Value) -> Self {
        Self::new(kind, text(object, "/metadata/namespace"), text(object, "/metadata/name"))
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind.plural, self.namespace, self.name)
    }
}

/// The value at this JSON pointer, which has no escapes: `Value::pointer` spends most of its time on looking
/// for them.
fn at<'a>(object: &'a Value, pointer: &str) -> Option<&'a Value> {
    pointer.split('/').skip(1).try_fold(object, |value, step| match value {
        Value::Array(items) => items.get(step.parse::<usize>().ok()?),
        value => value.get(step),
    })
}

/// The string at this JSON pointer; empty if there is none.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    at(object, pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at this JSON pointer.
pub fn number(object: &Value, pointer: &str) -> Option<i64> {
    at(object, pointer).and_then(Value::as_i64)
}

/// The list at this JSON pointer; empty if there is none.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    at(object, pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object's UID.
pub fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// The revision that last changed the object.
pub fn version(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion").parse().unwrap_or(0)
}

/// The value of a label; empty if there is none.
pub fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    at(object, "/metadata/labels").and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// The value of an annotation; empty if there is none.
pub fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    at(object, "/metadata/annotations")
        .and_then(|all| all.get(name))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether the object is being deleted.
pub fn deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Status of the condition of this type: `True`, `False`, `Unknown`, or empty if there is none.
pub fn condition<'a>(object: &'a Value, name: &str) -> &'a str {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == name)
        .map_or("", |condition| text(condition, "/status"))
}

/// UID of the owner that controls the object; empty if there is none.
pub fn controller(object: &Value) -> &str {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.get("controller") == Some(&Value::Bool(true)))
        .map_or("", |owner| text(owner, "/uid"))
}

/// The metadata, made if there is none.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    part(object, "metadata")
}

/// Takes out of the metadata what the server does not keep: empty lists and maps.
pub(crate) fn tidy(object: &mut Value) {
    metadata(object).retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

/// A field that is an object, made if there is none.
pub(crate) fn part<'a>(object: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let fields = object.as_object_mut().expect("it was made one");
    let part = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !part.is_object() {
        *part = Value::Object(Map::new());
    }
    part.as_object_mut().expect("it was made one")
}

/// Puts the field of `from` into `into`, or takes it out if `from` has none.
pub(crate) fn copy(field: &str, from: &Value, into: &mut Map<String, Value>) {
    match from.get(field) {
        Some(value) => into.insert(field.to_owned(), value.clone()),
        None => into.remove(field),
    };
}
