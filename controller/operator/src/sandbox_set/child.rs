//! The sandboxes that a set makes, and the templates that its revisions are kept as.

use std::sync::Arc;

use sandgate_objects::openkruise::resources::SandboxSet;
use sandgate_objects::openkruise::{API_VERSION, SANDBOX_SET, names};
use serde_json::{Map, Value, json};

use super::observe::Contents;
use super::plan::revision_name;
use crate::revision::ALPHABET;
use crate::view::Seen;
use crate::{Key, Random};

/// A pod's name is also the value of a label.
const MAX_NAME: usize = 63;
/// How many random characters a name ends with.
const RANDOM: usize = 5;

/// A name for a child: the set's name, as much as fits, and random characters.
pub(super) fn child_key(set: &Key, random: &mut Random) -> Key {
    let end: String = (0..RANDOM)
        .map(|_| {
            let drawn = random.number() % ALPHABET.len() as u64;
            char::from(ALPHABET[usize::try_from(drawn).unwrap_or_default()])
        })
        .collect();
    let most = set.name.floor_char_boundary(MAX_NAME - RANDOM - 1);
    let start = set.name[..most].trim_end_matches(['-', '.']);
    Key { namespace: Arc::clone(&set.namespace), name: format!("{start}-{end}").into() }
}

fn owned_by(set: &Seen<SandboxSet>) -> Value {
    json!([{
        "apiVersion": API_VERSION,
        "kind": SANDBOX_SET,
        "name": &*set.key.name,
        "uid": &*set.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// A sandbox of the set. Its pool label and its template label are the set's name, also if the template has
/// another one: claims look for the set.
pub(super) fn sandbox(set: &Seen<SandboxSet>, contents: &Contents, key: &Key) -> Value {
    let template = contents.spec.template.as_ref().and_then(|template| template.parse().ok());
    let template = template.unwrap_or_default();
    let mut labels = inherited(&template["metadata"]["labels"]);
    let name = Value::from(&*set.key.name);
    labels.insert(names::LABEL_SANDBOX_POOL.to_owned(), name.clone());
    labels.insert(names::LABEL_SANDBOX_TEMPLATE.to_owned(), name);
    labels.insert(names::LABEL_SANDBOX_CLAIMED.to_owned(), "false".into());
    labels.insert(names::LABEL_TEMPLATE_HASH.to_owned(), (*contents.revision).into());
    json!({
        "apiVersion": API_VERSION,
        "kind": "Sandbox",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": labels,
            "annotations": inherited(&template["metadata"]["annotations"]),
            "ownerReferences": owned_by(set),
        },
        "spec": contents.spec,
    })
}

/// The template that keeps a revision of the set.
pub(super) fn revision(set: &Seen<SandboxSet>, contents: &Contents) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": "SandboxTemplate",
        "metadata": {
            "name": revision_name(&set.key.name, &contents.revision),
            "namespace": &*set.key.namespace,
            "labels": {
                names::LABEL_SANDBOX_POOL: &*set.key.name,
                names::LABEL_TEMPLATE_HASH: &*contents.revision,
            },
            "ownerReferences": owned_by(set),
        },
        "spec": contents.spec,
    })
}

/// Labels or annotations of the pod template that its sandbox has too: those that are not about the sandbox
/// itself. `cleanup` asks for the end of a sandbox, and a set would make the next one at once.
fn inherited(pairs: &Value) -> Map<String, Value> {
    let is_inherited =
        |name: &str| name.strip_prefix(names::PREFIX).is_none_or(|name| name.starts_with("cleanup-"));
    let pairs = pairs.as_object().into_iter().flatten();
    pairs.filter(|(name, _)| is_inherited(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_so_that_the_random_part_fits() {
        let mut random = Random::seeded(1);
        for (set, start) in [("base".to_owned(), "base-".to_owned()), ("a".repeat(200), "a".repeat(57) + "-")]
        {
            let key = child_key(&Key::new("ns", &set), &mut random);
            assert!(key.name.starts_with(&start) && key.name.len() == start.len() + 5, "{}", key.name);
        }
        let dotted = format!("{}.b", "a".repeat(56));
        assert!(!child_key(&Key::new("ns", &dotted), &mut random).name.contains(".-"));
    }

    #[test]
    fn one_seed_gives_one_row_of_names() {
        let names = |seed| {
            let mut random = Random::seeded(seed);
            (0..3).map(|_| child_key(&Key::new("ns", "base"), &mut random).name).collect::<Vec<_>>()
        };
        assert_eq!(names(1), names(1));
        assert_ne!(names(1), names(2));
    }

    #[test]
    fn internal_labels_are_not_inherited_except_those_of_the_cleanup() {
        let pairs = json!({
            "app": "x",
            "agents.kruise.io/owner": "me",
            "agents.kruise.io/cleanup": "true",
            "agents.kruise.io/cleanup-enabled": "true",
        });
        let kept: Vec<_> = inherited(&pairs).into_iter().map(|(name, _)| name).collect();
        assert_eq!(kept, ["agents.kruise.io/cleanup-enabled", "app"]);
    }
}
