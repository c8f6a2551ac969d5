//! The pool of a member, made of the environment and its template.

use std::collections::{BTreeMap, BTreeSet};

use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{
    EnvOverrides, EnvVolume, ImagePolicy, Member, MemberMetadata, PodTemplate, SandboxEnv, SandboxPoolSpec,
    SandboxTemplate,
};
use serde_json::{Value, json};

use super::content::hash;

/// How many volumes an environment may have.
const MAX_VOLUMES: usize = 8;

/// A pool as an environment and its template ask for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rendered {
    /// Labels and annotations, the revision among them.
    pub(crate) metadata: MemberMetadata,
    /// The spec.
    pub(crate) spec: SandboxPoolSpec,
    /// The revision of what its pods are made of.
    pub(crate) hash: String,
}

/// Why a pool cannot be made. Only a change of the environment or of the template helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RenderError {
    #[error("a member has no name")]
    NoName,
    #[error("the pod template of the template {0} cannot be read")]
    Unreadable(String),
    #[error("the template {0} has no container")]
    NoContainer(String),
    #[error("the template {0} has no idleImage, which pods of this policy wait with")]
    NoIdleImage(String),
    #[error("idleImage and the image of the first container are both {0}: a claim could not be seen")]
    SameImages(String),
    #[error("the environment has {0} volumes; {MAX_VOLUMES} are the most")]
    Volumes(usize),
    #[error("the volume claim {claim:?} at {path:?}: {why}")]
    Volume { claim: String, path: String, why: &'static str },
}

/// The name of an environment's pull secret.
pub(crate) fn pull_secret(env: &str) -> String {
    format!("{}{env}", names::PULL_SECRET)
}

/// Renders the pool of a member. Its replicas are the member's, and so are the resources of a size from the
/// catalog, which were looked up when the member was admitted.
pub(crate) fn render(
    env: &SandboxEnv,
    template: &SandboxTemplate,
    member: &Member,
    pull_secret_exists: bool,
) -> Result<Rendered, RenderError> {
    if member.name.is_empty() {
        return Err(RenderError::NoName);
    }
    let env_name = env.metadata.name.as_deref().unwrap_or_default();
    let template_name = template.metadata.name.clone().unwrap_or_default();
    let overrides = env.spec.overrides.clone().unwrap_or_default();

    let pods = template.spec.template.as_ref().map(PodTemplate::parse);
    let Some(Ok(mut pods)) = pods else { return Err(RenderError::Unreadable(template_name)) };
    let Some(container) = pods.pointer_mut("/spec/containers/0").filter(|it| it.is_object()) else {
        return Err(RenderError::NoContainer(template_name));
    };
    if !overrides.image.is_empty() {
        container["image"] = overrides.image.as_str().into();
    }
    if let Some(resources) = resources(member) {
        container["resources"] = resources;
    }
    mount(&mut pods, &overrides.volumes)?;
    set_pull_secret(&mut pods, &pull_secret(env_name), pull_secret_exists);

    let mut spec = SandboxPoolSpec {
        replicas: member.spec.replicas,
        template_name: template_name.clone(),
        max_unavailable: max_unavailable(member, &overrides),
        default_startup_timeout: overrides.default_startup_timeout,
        default_idle_timeout: overrides.default_idle_timeout,
        pod_creation_image_policy: overrides.pod_creation_image_policy,
        gateway: overrides.gateway,
        template: Some(PodTemplate::new(&pods)),
        idle_image: template.spec.idle_image.clone(),
        runtimes: template.spec.runtimes.clone(),
    };
    check_images(&spec, &pods, &template_name)?;
    let hash = hash(&spec);
    set_hash(&mut pods, &hash);
    spec.template = Some(PodTemplate::new(&pods));
    Ok(Rendered { metadata: metadata(env, template, member, &hash), spec, hash })
}

/// Labels and annotations, of which the later go before the earlier.
fn metadata(env: &SandboxEnv, template: &SandboxTemplate, member: &Member, hash: &str) -> MemberMetadata {
    fn texts(
        texts: &Option<BTreeMap<String, String>>,
        wanted: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (String, String)> {
        let texts = texts.iter().flatten().filter(move |(name, _)| wanted(name));
        texts.map(|(name, value)| (name.clone(), value.clone()))
    }
    let bills = |name: &str| [names::LABEL_TEAM, names::LABEL_USER].contains(&name);
    let mut labels: BTreeMap<_, _> = texts(&env.metadata.labels, bills).collect();
    labels.extend(texts(&template.metadata.labels, |name| name != names::LABEL_SYNC_SOURCE));
    labels.extend(member.config.labels.clone());
    labels.insert(names::LABEL_TEMPLATE_HASH.to_owned(), hash.to_owned());

    let is_copied = |name: &str| !is_own(name);
    let mut annotations: BTreeMap<_, _> = texts(&template.metadata.annotations, is_copied).collect();
    annotations.extend(member.config.annotations.clone());
    annotations.extend(provenance(template));
    MemberMetadata { labels, annotations }
}

/// Where a pool was rendered from, as its annotations say it.
pub(super) fn provenance(template: &SandboxTemplate) -> [(String, String); 2] {
    let name = template.metadata.name.clone().unwrap_or_default();
    [
        (names::ANNOTATION_TEMPLATE_NAME.to_owned(), name),
        (names::ANNOTATION_TEMPLATE_VERSION.to_owned(), template.spec.version.clone()),
    ]
}

/// Whether an annotation belongs to the one object that has it, and is not copied to another: documentation,
/// and what programs write down while they work.
pub(super) fn is_own(annotation: &str) -> bool {
    const OWN: [&str; 4] = [
        names::ANNOTATION_DOCS,
        names::ANNOTATION_POOL_DOCS,
        names::ANNOTATION_LAST_CREATE,
        "kubectl.kubernetes.io/last-applied-configuration",
    ];
    OWN.contains(&annotation) || annotation.starts_with(names::PREFIX_PENDING)
}

/// The resources of the first container, if they are not those of the template.
fn resources(member: &Member) -> Option<Value> {
    if let Some(inline) = &member.config.inline_resources {
        return inline.parse().ok();
    }
    if member.config.instance_type.is_empty() {
        return None;
    }
    let pods = member.spec.template.as_ref()?.parse().ok()?;
    pods.pointer("/spec/containers/0/resources").cloned()
}

fn max_unavailable(
    member: &Member,
    overrides: &EnvOverrides,
) -> Option<k8s_openapi::apimachinery::pkg::util::intstr::IntOrString> {
    let own = member.config.update_strategy.as_ref().and_then(|own| own.max_unavailable.clone());
    own.or_else(|| overrides.update_strategy.as_ref().and_then(|all| all.max_unavailable.clone()))
}

/// Mounts the volume claims in the first container, each claim as one volume.
fn mount(pods: &mut Value, volumes: &[EnvVolume]) -> Result<(), RenderError> {
    if volumes.is_empty() {
        return Ok(());
    }
    if volumes.len() > MAX_VOLUMES {
        return Err(RenderError::Volumes(volumes.len()));
    }
    let (mut paths, mut claims) = (BTreeSet::new(), Vec::<&str>::new());
    let mut mounts = Vec::new();
    for EnvVolume { claim_name, mount_path, sub_path, read_only } in volumes {
        let why = |why| RenderError::Volume { claim: claim_name.clone(), path: mount_path.clone(), why };
        if claim_name.is_empty() {
            return Err(why("the claim has no name"));
        }
        if !mount_path.starts_with('/') {
            return Err(why("the path is not absolute"));
        }
        if !paths.insert(mount_path.trim_end_matches('/')) {
            return Err(why("the path is mounted twice"));
        }
        let known = claims.iter().position(|claim| claim == claim_name);
        let at = known.unwrap_or_else(|| {
            claims.push(claim_name);
            claims.len() - 1
        });
        let mut mount = json!({
            "name": volume_name(at), "mountPath": mount_path, "readOnly": read_only.unwrap_or(true),
        });
        if !sub_path.is_empty() {
            mount["subPath"] = sub_path.as_str().into();
        }
        mounts.push(mount);
    }
    let claims = claims
        .iter()
        .enumerate()
        .map(|(at, claim)| json!({"name": volume_name(at), "persistentVolumeClaim": {"claimName": claim}}));
    append(pods.pointer_mut("/spec"), "volumes", claims.collect());
    append(pods.pointer_mut("/spec/containers/0"), "volumeMounts", mounts);
    Ok(())
}

fn volume_name(at: usize) -> String {
    format!("env-volume-{at}")
}

fn append(to: Option<&mut Value>, list: &str, items: Vec<Value>) {
    let Some(to) = to else { return };
    match to.get_mut(list).and_then(Value::as_array_mut) {
        Some(known) => known.extend(items),
        None => to[list] = items.into(),
    }
}

/// Whether the pods of a template pull with this secret.
pub(super) fn has_pull_secret(template: Option<&PodTemplate>, secret: &str) -> bool {
    let pods = template.and_then(|template| template.parse().ok()).unwrap_or_default();
    let known = pods.pointer("/spec/imagePullSecrets").and_then(Value::as_array);
    known.into_iter().flatten().any(|known| known["name"] == secret)
}

/// Lets the pods of a template pull with this secret, or not.
pub(super) fn set_pull_secret(pods: &mut Value, secret: &str, exists: bool) {
    let Some(spec) = pods.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let known = spec.get("imagePullSecrets").and_then(Value::as_array).cloned().unwrap_or_default();
    let has = known.iter().any(|known| known["name"] == secret);
    let mut secrets: Vec<_> = known.into_iter().filter(|known| exists || known["name"] != secret).collect();
    if exists && !has {
        secrets.push(json!({"name": secret}));
    }
    if secrets.is_empty() {
        spec.remove("imagePullSecrets");
    } else {
        spec.insert("imagePullSecrets".to_owned(), secrets.into());
    }
}

/// Writes the revision on the pods of a template.
pub(super) fn set_hash(pods: &mut Value, hash: &str) {
    let texts = [("metadata", json!({})), ("labels", json!({}))];
    let labels = texts.into_iter().try_fold(pods, |at, (field, empty)| {
        let fields = at.as_object_mut()?;
        let part = fields.entry(field).or_insert_with(|| empty.clone());
        if !part.is_object() {
            *part = empty;
        }
        Some(part)
    });
    if let Some(labels) = labels {
        labels[names::LABEL_TEMPLATE_HASH] = hash.into();
    }
}

fn check_images(spec: &SandboxPoolSpec, pods: &Value, template: &str) -> Result<(), RenderError> {
    if spec.image_policy() != ImagePolicy::IdleImage {
        return Ok(());
    }
    let idle = spec.idle_image.as_deref().unwrap_or_default();
    if idle.is_empty() {
        return Err(RenderError::NoIdleImage(template.to_owned()));
    }
    match pods.pointer("/spec/containers/0/image").and_then(Value::as_str) {
        Some(image) if image == idle => Err(RenderError::SameImages(image.to_owned())),
        _ => Ok(()),
    }
}
