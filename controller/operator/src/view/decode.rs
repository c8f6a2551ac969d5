//! From the bytes of an object to what the view keeps of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sandgate_follow::Rejected;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{Sandbox, SandboxSet, SandboxTemplate, decode};

use super::Inner;
use super::pod::{PodFacts, RawPod};
use super::store::{Change, Seen, Store};
use crate::Key;

/// A kind that the view has.
pub trait Viewed: Sized + Send + Sync + 'static {
    /// The API group; empty for the core group.
    const GROUP: &'static str;
    /// The version of the group.
    const VERSION: &'static str;
    /// The kind.
    const KIND: &'static str;
    /// The plural name of the resource.
    const PLURAL: &'static str;
    /// The selector of the objects that the view has.
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
}

/// Where the view keeps a kind. It is sealed: nobody outside can name what it is about.
pub trait Kept: Viewed {
    /// Its objects.
    fn store(inner: &mut Inner) -> &mut Store<Self>;
    /// The same, to read.
    fn peek(inner: &Inner) -> &Store<Self>;
    /// Brings what is kept beside the objects up to date, and marks who has to look.
    fn changed(inner: &mut Inner, change: Change<Self>);
}

fn seen<T>(object: T, metadata: impl Fn(&T) -> &ObjectMeta) -> Result<Seen<T>, Rejected> {
    let metadata = metadata(&object);
    let text = |field: &Option<String>, path: &str| {
        let value = field.as_deref().filter(|value| !value.is_empty());
        value.map(str::to_owned).ok_or_else(|| Rejected(format!("{path}: missing")))
    };
    let namespace = text(&metadata.namespace, "metadata.namespace")?;
    let name = text(&metadata.name, "metadata.name")?;
    let uid = text(&metadata.uid, "metadata.uid")?;
    let version = text(&metadata.resource_version, "metadata.resourceVersion")?;
    let version = version.parse().map_err(|error| Rejected(format!("metadata.resourceVersion: {error}")))?;
    Ok(Seen { key: Key::new(&namespace, &name), uid: uid.into(), version, object })
}

macro_rules! custom_resources {
    ($($kind:ident: $plural:literal;)*) => {$(
        impl Viewed for $kind {
            const GROUP: &'static str = "agents.kruise.io";
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
    Sandbox: "sandboxes";
    SandboxSet: "sandboxsets";
    SandboxTemplate: "sandboxtemplates";
}

impl Viewed for PodFacts {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const SELECTOR: &'static str = "agents.kruise.io/created-by=sandbox";

    fn is_selected(&self) -> bool {
        self.labels.get(names::LABEL_CREATED_BY).is_some_and(|by| by == names::CREATED_BY_SANDBOX)
    }

    fn read(object: &[u8]) -> Result<Seen<Self>, Rejected> {
        let object = decode(object).map_err(|error| Rejected(error.to_string()))?;
        let Seen { key, uid, version, object } = seen(object, |raw: &RawPod| &raw.metadata)?;
        Ok(Seen { key, uid, version, object: object.into() })
    }
}
