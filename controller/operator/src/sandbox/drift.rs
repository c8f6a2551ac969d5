//! What a pod that runs lacks of its template, and what of that can be changed in place.
//!
//! Labels and annotations are patched. Images and resources are patched and reported by the condition
//! `InplaceUpdate`. Nothing else of a pod can change while it runs. A label that the template had earlier and
//! has no more stays on the pod: nobody knows any more who put it there.
//!
//! A pod of OpenKruise's controller does not say what it was made from, and has another revision: what cannot
//! change in place is taken for equal. Its first patch says what it was made from, so that the next change of
//! the template is compared.

use sandgate_objects::openkruise::names;
use sandgate_objects::quantity::same_quantity;
use serde_json::{Value, json};

use super::pod::{Template, map_of};
use crate::view::{ContainerFacts, PodFacts, Resize};

/// What a pod lacks of its template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Drift {
    /// Nothing.
    None,
    /// It does not say what it was made from, and lacks nothing else: a patch of the pod.
    Unmarked(Value),
    /// Labels or annotations: a patch of the pod.
    Metadata(Value),
    /// Images or resources too.
    InPlace {
        /// The patch of the resources, for the `resize` subresource.
        resize: Option<Value>,
        /// The patch of everything else.
        patch: Value,
    },
    /// Something that cannot change in place.
    Forbidden,
}

/// Compares a pod with its template.
pub(super) fn drift(pod: &PodFacts, template: &Template) -> Drift {
    if pod.labels.get(names::LABEL_POD_TEMPLATE_HASH) == Some(&template.revision) {
        return Drift::None;
    }
    let fixed = pod.annotations.get(names::ANNOTATION_HASH_IMMUTABLE_PART);
    if fixed.is_some_and(|fixed| *fixed != template.fixed) {
        return Drift::Forbidden;
    }
    let mut labels = map_of(&template.pod["metadata"]["labels"]);
    labels.insert(names::LABEL_POD_TEMPLATE_HASH.to_owned(), template.revision.as_str().into());
    let mut annotations = map_of(&template.pod["metadata"]["annotations"]);
    annotations.insert(names::ANNOTATION_HASH_IMMUTABLE_PART.to_owned(), template.fixed.as_str().into());
    let mut patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
    let asked = template.pod["spec"]["containers"].as_array();
    let pairs: Vec<_> = asked.into_iter().flatten().filter_map(|asked| pair(pod, asked)).collect();
    let images: Vec<_> = pairs
        .iter()
        .filter(|(has, asked)| asked["image"].as_str().is_some_and(|image| image != has.image))
        .map(|(has, asked)| json!({"name": has.name, "image": asked["image"]}))
        .collect();
    let resources: Vec<_> = pairs
        .iter()
        .filter(|(has, asked)| !has_resources(&has.resources, &asked["resources"]))
        .map(|(has, asked)| json!({"name": has.name, "resources": asked["resources"]}))
        .collect();
    if images.is_empty() && resources.is_empty() {
        return if fixed.is_some() { Drift::Metadata(patch) } else { Drift::Unmarked(patch) };
    }
    if !images.is_empty() {
        patch["spec"] = json!({"containers": images});
    }
    let resize = (!resources.is_empty()).then(|| json!({"spec": {"containers": resources}}));
    Drift::InPlace { resize, patch }
}

fn pair<'a>(pod: &'a PodFacts, asked: &'a Value) -> Option<(&'a ContainerFacts, &'a Value)> {
    let name = asked["name"].as_str()?;
    Some((pod.containers.iter().find(|container| container.name == name)?, asked))
}

/// Whether a container has every amount that is asked for. The API server adds some, and writes them its way.
fn has_resources(has: &Value, asked: &Value) -> bool {
    ["requests", "limits"].iter().all(|kind| {
        let mut amounts = asked[*kind].as_object().into_iter().flatten();
        amounts.all(|(name, amount)| same_quantity(amount, &has[*kind][name]))
    })
}

/// How far an update in place is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Every container runs what was asked for.
    Done,
    /// Some do not yet.
    Underway,
    /// The node refuses it.
    Refused(String),
}

/// Looks how far the node is with what the pod's spec asks for.
pub(super) fn progress(pod: &PodFacts) -> Progress {
    if let Resize::Infeasible(message) = &pod.resize {
        return Progress::Refused(message.clone());
    }
    let runs = |container: &ContainerFacts| {
        let image = container.running_image.as_deref();
        let has = container.running_resources.as_ref();
        container.waiting.is_none()
            && image.is_some_and(|image| same_image(image, &container.image))
            && has.is_none_or(|has| has_resources(has, &container.resources))
    };
    let is_done = pod.resize == Resize::Settled && pod.containers.iter().all(runs);
    if is_done { Progress::Done } else { Progress::Underway }
}

/// Whether two names mean one image: runtimes write the registry and the tag that others leave out.
fn same_image(one: &str, other: &str) -> bool {
    fn full(image: &str) -> String {
        let image = image.strip_prefix("docker.io/").unwrap_or(image);
        let image = image.strip_prefix("library/").unwrap_or(image);
        let last = image.rsplit('/').next().unwrap_or(image);
        let has_tag = last.contains(':') || last.contains('@');
        if has_tag { image.to_owned() } else { format!("{image}:latest") }
    }
    full(one) == full(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_compared_as_runtimes_write_them() {
        for (one, other, expected) in [
            ("nginx", "docker.io/library/nginx:latest", true),
            ("nginx:1", "docker.io/library/nginx:1", true),
            ("nginx:1", "nginx:2", false),
            ("org/app:1", "docker.io/org/app:1", true),
            ("host:5000/app", "host:5000/app:latest", true),
            ("host:5000/app:2", "host:5000/app", false),
        ] {
            assert_eq!(same_image(one, other), expected, "{one} {other}");
        }
    }
}
