//! From the bytes of an object to what is kept of it, and where its kind is found.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sandgate_follow::{Rejected, Target};
use sandgate_objects::openkruise::resources::{
    Checkpoint, Sandbox, SandboxFacts, SandboxSet, SandboxTemplate, decode,
};
use sandgate_objects::opensandbox::resources::{BatchSandbox, Pool, SandboxSnapshot};

use crate::{Key, Seen};

/// A kind that is watched and kept.
pub trait Viewed: Sized + Send + Sync + 'static {
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version of the group.
    const VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural name of the resource.
    const PLURAL: &'static str;
    /// The selector of the objects that are kept.
    const SELECTOR: &'static str = "";

    /// Whether [`SELECTOR`](Self::SELECTOR) selects the object.
    fn is_selected(&self) -> bool {
        true
    }

    /// Reads an object.
    ///
    /// # Errors
    /// If a field that is needed is missing or has another type.
    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected>;

    /// What a follower has to follow: one namespace, or all.
    fn target(namespace: Option<&str>) -> Target {
        Target {
            group: Self::GROUP.to_owned(),
            version: Self::VERSION.to_owned(),
            plural: Self::PLURAL.to_owned(),
            namespace: namespace.map(str::to_owned),
            selector: Self::SELECTOR.to_owned(),
        }
    }
}

/// An object with what its metadata says of it.
///
/// # Errors
/// If namespace, name, UID or version is missing.
pub fn seen<T>(object: T, metadata: impl Fn(&T) -> &ObjectMeta) -> Result<Seen<T>, Rejected> {
    let namespace = text(&metadata(&object).namespace, "metadata.namespace")?.to_owned();
    named(&namespace, object, metadata)
}

/// An object of a kind without namespaces, with what its metadata says of it. The namespace of its key is
/// empty.
///
/// # Errors
/// If name, UID or version is missing.
pub fn seen_in_cluster<T>(object: T, metadata: impl Fn(&T) -> &ObjectMeta) -> Result<Seen<T>, Rejected> {
    named("", object, metadata)
}

fn named<T>(namespace: &str, object: T, metadata: impl Fn(&T) -> &ObjectMeta) -> Result<Seen<T>, Rejected> {
    let metadata = metadata(&object);
    let key = Key::new(namespace, text(&metadata.name, "metadata.name")?);
    let uid = text(&metadata.uid, "metadata.uid")?.into();
    let version = text(&metadata.resource_version, "metadata.resourceVersion")?;
    let version = version.parse().map_err(|error| Rejected(format!("metadata.resourceVersion: {error}")))?;
    Ok(Seen { key, uid, version, object })
}

fn text<'a>(field: &'a Option<String>, path: &str) -> Result<&'a str, Rejected> {
    let value = field.as_deref().filter(|value| !value.is_empty());
    value.ok_or_else(|| Rejected(format!("{path}: missing")))
}

macro_rules! custom_resources {
    ($group:literal; $($kind:ident: $plural:literal;)*) => {$(
        impl Viewed for $kind {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = "v1alpha1";
            const KIND: &'static str = stringify!($kind);
            const PLURAL: &'static str = $plural;

            fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
                let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
                seen(object, |object: &Self| &object.metadata)
            }
        }
    )*};
}

custom_resources! {
    "agents.kruise.io";
    Checkpoint: "checkpoints";
    Sandbox: "sandboxes";
    SandboxSet: "sandboxsets";
    SandboxTemplate: "sandboxtemplates";
}

custom_resources! {
    "sandbox.opensandbox.io";
    BatchSandbox: "batchsandboxes";
    Pool: "pools";
    SandboxSnapshot: "sandboxsnapshots";
}

mod environments {
    use sandgate_objects::sandbox_env::names::LABEL_POOL;
    use sandgate_objects::sandbox_env::resources::{
        EnvPod, SandboxEnv, SandboxPool, SandboxTemplate, decode,
    };

    use super::{Rejected, Seen, Viewed, seen, seen_in_cluster};

    custom_resources! {
        "agents.navix.sh";
        SandboxEnv: "sandboxenvs";
        SandboxPool: "sandboxpools";
    }

    impl Viewed for SandboxTemplate {
        const GROUP: &'static str = "agents.navix.sh";
        const VERSION: &'static str = "v1alpha1";
        const KIND: &'static str = "SandboxTemplate";
        const PLURAL: &'static str = "sandboxtemplates";

        fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
            let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
            seen_in_cluster(object, |object: &Self| &object.metadata)
        }

        fn target(_: Option<&str>) -> sandgate_follow::Target {
            sandgate_follow::Target {
                group: Self::GROUP.to_owned(),
                version: Self::VERSION.to_owned(),
                plural: Self::PLURAL.to_owned(),
                namespace: None,
                selector: Self::SELECTOR.to_owned(),
            }
        }
    }

    impl Viewed for EnvPod {
        const GROUP: &'static str = "";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Pod";
        const PLURAL: &'static str = "pods";
        const SELECTOR: &'static str = LABEL_POOL;

        fn is_selected(&self) -> bool {
            self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_POOL))
        }

        fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
            let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
            seen(object, |object: &Self| &object.metadata)
        }
    }
}

impl Viewed for SandboxFacts {
    const GROUP: &'static str = Sandbox::GROUP;
    const VERSION: &'static str = Sandbox::VERSION;
    const KIND: &'static str = <Sandbox as Viewed>::KIND;
    const PLURAL: &'static str = Sandbox::PLURAL;

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let Seen { version, object, .. } = Sandbox::read(object)?;
        let object = Self::from(object);
        // One text for both.
        let key = Key { namespace: Arc::clone(&object.namespace), name: Arc::clone(&object.name) };
        Ok(Seen { key, uid: Arc::clone(&object.uid), version, object })
    }
}
