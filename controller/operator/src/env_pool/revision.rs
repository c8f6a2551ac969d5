//! The revision of what a pool makes its pods from.
//!
//! It changes when a new pod would be another one. It does not change with how many there are, how long
//! sandboxes live, or, where pods wait with an image of their own, with the image that sandboxes run: that
//! one is written by the claim.

use std::sync::Arc;

use sandgate_objects::sandbox_env::resources::{ImagePolicy, SandboxPoolSpec};

use crate::environment::content::hash;

/// The revision, which is also the one that the environment stamps on the pool.
pub(crate) fn revision(spec: &SandboxPoolSpec) -> Arc<str> {
    hash(spec).into()
}

/// The image that pods wait with, if that is not the one of their template.
pub(super) fn idle_image(spec: &SandboxPoolSpec) -> Option<&str> {
    let image = spec.idle_image.as_deref().filter(|image| !image.is_empty());
    image.filter(|_| spec.image_policy() == ImagePolicy::IdleImage)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use sandgate_objects::sandbox_env::names;
    use sandgate_objects::sandbox_env::resources::{GatewaySwitch, PodTemplate};
    use serde_json::{Value, json};

    use super::*;

    fn template() -> Value {
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "main", "image": "app:1"}], "affinity": {"nodeAffinity": {"a": 1}}},
        })
    }

    fn spec(template: &Value) -> SandboxPoolSpec {
        SandboxPoolSpec {
            template: Some(PodTemplate::new(template)),
            idle_image: Some("idle:1".to_owned()),
            ..SandboxPoolSpec::default()
        }
    }

    fn with(change: impl FnOnce(&mut SandboxPoolSpec)) -> Arc<str> {
        let mut spec = spec(&template());
        change(&mut spec);
        revision(&spec)
    }

    fn templated(change: impl FnOnce(&mut Value)) -> Arc<str> {
        let mut template = template();
        change(&mut template);
        revision(&spec(&template))
    }

    #[test]
    fn what_does_not_change_a_pod_does_not_change_the_revision() {
        let usual = revision(&spec(&template()));
        assert_eq!(usual.len(), 8);
        for same in [
            with(|spec| spec.replicas = 9),
            with(|spec| spec.default_idle_timeout = Some("1h".to_owned())),
            with(|spec| spec.default_startup_timeout = Some("1h".to_owned())),
            with(|spec| spec.max_unavailable = Some(IntOrString::Int(3))),
            with(|spec| spec.template_name = "t".to_owned()),
            with(|spec| spec.pod_creation_image_policy = Some(ImagePolicy::IdleImage)),
            templated(|template| template["metadata"]["labels"][names::LABEL_TEMPLATE_HASH] = json!("x")),
            templated(|template| template["spec"]["containers"][0]["image"] = json!("app:2")),
        ] {
            assert_eq!(same, usual);
        }
    }

    #[test]
    fn what_changes_a_pod_changes_the_revision() {
        let all = [
            revision(&spec(&template())),
            with(|spec| spec.idle_image = Some("idle:2".to_owned())),
            with(|spec| spec.gateway = Some(GatewaySwitch { enabled: true })),
            with(|spec| spec.pod_creation_image_policy = Some(ImagePolicy::PoolDefaultImage)),
            templated(|template| drop(template["spec"].as_object_mut().unwrap().remove("affinity"))),
            templated(|template| template["metadata"]["labels"]["c"] = json!("d")),
            templated(|template| {
                let containers = template["spec"]["containers"].as_array_mut().unwrap();
                containers.push(json!({"name": "side", "image": "s"}));
            }),
        ];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
        // Where pods wait with the image of their template, it is theirs.
        let of_template = |image: &str| {
            let mut template = template();
            template["spec"]["containers"][0]["image"] = json!(image);
            let policy = Some(ImagePolicy::PoolDefaultImage);
            revision(&SandboxPoolSpec { pod_creation_image_policy: policy, ..spec(&template) })
        };
        assert_ne!(of_template("app:1"), of_template("app:2"));
    }

    #[test]
    fn a_revision_stays_the_same_from_release_to_release() {
        // Another value here would roll every pool of every cluster.
        assert_eq!(&*revision(&spec(&template())), "161d3d6f");
    }
}
