//! What a pool's pods are made of, as a value that can be compared and hashed.
//!
//! Two contents are equal where they mean the same: fields that are null or empty are as good as missing, and
//! amounts are compared by value. The revision is a hash of that. It is not the one that scitix's programs
//! make of the same content, which depends on the order of fields in Go. So a pool of theirs keeps its
//! revision as long as its content means the same: only another content gets another revision.

use sandgate_objects::quantity::nano;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{ImagePolicy, PodTemplate, SandboxPoolSpec};
use serde_json::{Map, Value};

use super::write::value;
use crate::revision::{canonical, fnv};

/// Fields of a pool that its pods are not made of.
const NOT_OF_PODS: [&str; 5] =
    ["replicas", "defaultStartupTimeout", "defaultIdleTimeout", "maxUnavailable", "templateName"];

/// Objects that are as good as missing where they are empty. Others are not: `emptyDir: {}` is a volume.
const MAPS: [&str; 9] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "overhead",
    "resources",
    "metadata",
];

/// Objects of amounts.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];

/// What the pods of a pool are made of.
pub(super) fn content(spec: &SandboxPoolSpec) -> Value {
    let mut content = value(spec);
    let Some(fields) = content.as_object_mut() else { return content };
    for field in NOT_OF_PODS {
        fields.remove(field);
    }
    let policy = spec.image_policy();
    fields.insert("podCreationImagePolicy".to_owned(), value(&policy));
    if let Some(labels) = content.pointer_mut("/template/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove(names::LABEL_TEMPLATE_HASH);
    }
    if policy == ImagePolicy::IdleImage
        && let Some(idle) = &spec.idle_image
        && let Some(image) = content.pointer_mut("/template/spec/containers/0/image")
    {
        *image = idle.as_str().into();
    }
    plain("", &content)
}

/// The revision of what a pool's pods are made of: eight digits.
pub(crate) fn hash(spec: &SandboxPoolSpec) -> String {
    let mut text = String::new();
    canonical(&content(spec), &mut text);
    format!("{:08x}", fnv(&text))
}

/// Whether two specs ask for the same.
pub(super) fn same_spec(one: &SandboxPoolSpec, other: &SandboxPoolSpec) -> bool {
    one == other || plain("", &value(one)) == plain("", &value(other))
}

/// Whether pods of two templates are the same.
pub(super) fn same_template(one: Option<&PodTemplate>, other: Option<&PodTemplate>) -> bool {
    one == other || plain("", &value(&one)) == plain("", &value(&other))
}

/// A value without what means nothing.
pub(super) fn plain(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_amounts = AMOUNTS.contains(&name);
            let kept = fields.iter().filter_map(|(name, value)| {
                let amount = if is_amounts || name == "sizeLimit" { nano(value) } else { None };
                let value = amount.map_or_else(|| plain(name, value), |nano| nano.to_string().into());
                (!is_nothing(name, &value)).then(|| (name.clone(), value))
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| plain("", item)).collect()),
        scalar => scalar.clone(),
    }
}

fn is_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && MAPS.contains(&name),
        _ => false,
    }
}
