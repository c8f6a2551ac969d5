//! What a pool must pass to be chosen.

use std::collections::BTreeMap;

use sandgate_objects::quantity;
use serde_json::{Map, Value};

use super::profile::BadProfile;
use super::{PoolOffer, SandboxNeeds, selector};

/// What a pool must pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Predicate {
    /// The pool may have enough pods that nobody has.
    Capacity,
    /// An image of the batch is one of the pool.
    Image,
    /// The pool's pods have what those of the batch request.
    Resource,
    /// The pool's pods are where those of the batch want to be.
    NodeSelector,
    /// The labels with these keys are equal.
    LabelSelector(Vec<String>),
}

impl Predicate {
    /// Reads a predicate of a profile. None if there is none with this name.
    pub(super) fn named(name: &str, args: Option<&Map<String, Value>>) -> Result<Option<Self>, BadProfile> {
        Ok(Some(match name {
            "capacity" => Self::Capacity,
            "image" => Self::Image,
            "resource" => Self::Resource,
            "nodeselector" => Self::NodeSelector,
            "labelselector" => Self::LabelSelector(keys(args)?),
            _ => return Ok(None),
        }))
    }

    /// What speaks against a pool. None if it passes.
    pub(super) fn against(&self, sandbox: &SandboxNeeds<'_>, pool: &PoolOffer<'_>) -> Option<String> {
        match self {
            Self::Capacity => capacity(sandbox, pool),
            Self::Image => image(sandbox.template?, pool.template),
            Self::Resource => resource(sandbox.template?, pool.template),
            Self::NodeSelector => selector::against(sandbox.template?, pool),
            Self::LabelSelector(keys) => keys.iter().find_map(|key| label(key, sandbox, pool)),
        }
    }
}

fn keys(args: Option<&Map<String, Value>>) -> Result<Vec<String>, BadProfile> {
    let bad = |value: &Value| BadProfile::Keys(value.to_string());
    match args.and_then(|args| args.get("keys")) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(list @ Value::Array(keys)) => {
            keys.iter().map(|key| key.as_str().map(str::to_owned).ok_or_else(|| bad(list))).collect()
        }
        Some(other) => Err(bad(other)),
    }
}

fn capacity(sandbox: &SandboxNeeds<'_>, pool: &PoolOffer<'_>) -> Option<String> {
    let free = pool.most.saturating_sub(pool.allocated).max(0);
    let wanted = sandbox.replicas.max(0);
    // A batch without pods needs no room, and a full pool is full.
    (free < wanted.max(1)).then(|| format!("it has room for {free} of {wanted} pods"))
}

fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    template.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten()
}

fn image(template: &Value, pool: Option<&Value>) -> Option<String> {
    fn images(template: &Value) -> impl Iterator<Item = &str> {
        containers(template).map(|container| container.get("image").and_then(Value::as_str).unwrap_or(""))
    }
    let wanted: Vec<&str> = images(template).collect();
    let has = |wanted: &&str| pool.into_iter().flat_map(images).any(|image| image == *wanted);
    (!wanted.is_empty() && !wanted.iter().any(has))
        .then(|| format!("it has none of the images {}", wanted.join(", ")))
}

/// What the containers of a template request together, by resource. What is no amount is none.
fn requests(template: &Value) -> BTreeMap<&str, i128> {
    let requests = containers(template).filter_map(|container| container.pointer("/resources/requests"));
    let mut sums: BTreeMap<&str, i128> = BTreeMap::new();
    for (name, amount) in requests.filter_map(Value::as_object).flatten() {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(quantity::nano(amount).unwrap_or_default());
    }
    sums
}

fn resource(template: &Value, pool: Option<&Value>) -> Option<String> {
    let has = pool.map(requests).unwrap_or_default();
    let short: Vec<&str> = requests(template)
        .into_iter()
        .filter(|(name, wanted)| has.get(name).is_none_or(|has| has < wanted))
        .map(|(name, _)| name)
        .collect();
    (!short.is_empty()).then(|| format!("its pods have too little {}", short.join(", ")))
}

fn label(key: &str, sandbox: &SandboxNeeds<'_>, pool: &PoolOffer<'_>) -> Option<String> {
    let wanted = sandbox.labels.and_then(|labels| labels.get(key));
    let has = pool.labels.and_then(|labels| labels.get(key));
    match (wanted, has) {
        (Some(wanted), Some(has)) if wanted == has => None,
        (None, _) => Some(format!("the batch has no label {key}")),
        (Some(wanted), _) => Some(format!("its label {key} is not {wanted:?}")),
    }
}
