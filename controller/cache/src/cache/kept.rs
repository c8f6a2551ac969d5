//! Where each kind is kept, and what is kept beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use sandgate_objects::Kind as _;
use sandgate_objects::openkruise::names;
use sandgate_objects::openkruise::resources::{Checkpoint, SandboxFacts, SandboxSet, SandboxTemplate};
use sandgate_objects::sandbox_env::names as env_names;
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxEnv, SandboxPool};

use super::hub::{Hub, Hubs};
use super::sharing::Sharing;
use super::{Inner, Kind};
use crate::predicates::{annotation, is_claimed, text};
use crate::{Change, ConfigMapFacts, PvcFacts, SecretFacts, Seen, Store, Viewed};

/// A kind that the cache keeps. It is sealed: nobody outside can name what it is about.
pub trait Kept: Viewed + Clone {
    /// The same as a value.
    const IS: Kind;
    /// Its objects.
    fn store(inner: &mut Inner) -> &mut Store<Self>;
    /// The same, to read.
    fn peek(inner: &Inner) -> &Store<Self>;
    /// Who is told of its changes.
    fn hub(hubs: &Hubs) -> &Hub<Self>;
    /// The same, to add somebody.
    fn hub_mut(hubs: &mut Hubs) -> &mut Hub<Self>;
    /// A change, to be told.
    fn news(change: Change<Self>) -> News;
    /// The label of this name, for the selector.
    fn label(&self, name: &str) -> Option<&str>;
    /// Brings the indexes up to date.
    fn changed(inner: &mut Inner, change: &Change<Self>);
    /// Puts texts that are kept already in the place of equal ones.
    fn share(_sharing: &Sharing, _seen: &mut Seen<Self>) {}
}

/// A change of any kind.
pub enum News {
    /// Of a sandbox.
    Sandbox(Change<SandboxFacts>),
    /// Of a set.
    SandboxSet(Change<SandboxSet>),
    /// Of a checkpoint.
    Checkpoint(Change<Checkpoint>),
    /// Of a template.
    SandboxTemplate(Change<SandboxTemplate>),
    /// Of a Secret.
    Secret(Change<SecretFacts>),
    /// Of a ConfigMap.
    ConfigMap(Change<ConfigMapFacts>),
    /// Of a volume claim.
    Pvc(Change<PvcFacts>),
    /// Of an environment.
    SandboxEnv(Change<SandboxEnv>),
    /// Of a pool of an environment.
    SandboxPool(Change<SandboxPool>),
    /// Of a pod of such a pool.
    EnvPod(Change<EnvPod>),
}

macro_rules! kept {
    ($kind:ident in $field:ident, by $label:expr, as $name:ident) => {
        const IS: Kind = Kind::$name;

        fn store(inner: &mut Inner) -> &mut Store<Self> {
            &mut inner.$field
        }

        fn peek(inner: &Inner) -> &Store<Self> {
            &inner.$field
        }

        fn hub(hubs: &Hubs) -> &Hub<Self> {
            &hubs.$field
        }

        fn hub_mut(hubs: &mut Hubs) -> &mut Hub<Self> {
            &mut hubs.$field
        }

        fn news(change: Change<Self>) -> News {
            News::$name(change)
        }

        fn label(&self, name: &str) -> Option<&str> {
            let label: for<'a> fn(&'a $kind, &str) -> Option<&'a str> = $label;
            label(self, name)
        }
    };
}

fn in_map<'a>(labels: Option<&'a BTreeMap<String, String>>, name: &str) -> Option<&'a str> {
    labels?.get(name).map(String::as_str)
}

/// One side of a change, with the text that an index is by.
type Side<'a, T> = Option<(&'a str, &'a Arc<Seen<T>>)>;

/// Both sides of a change.
fn sides<'a, T>(change: &'a Change<T>, text: impl Fn(&'a Seen<T>) -> &'a str) -> (Side<'a, T>, Side<'a, T>) {
    let side = |seen: &'a Option<Arc<Seen<T>>>| seen.as_ref().map(|seen| (text(seen), seen));
    (side(&change.before), side(&change.after))
}

impl Kept for SandboxFacts {
    kept!(SandboxFacts in sandboxes, by |it, name| it.labels.get(name), as Sandbox);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        inner.sharing.changed(change);
        let gained = inner.pools.changed(change);
        inner.stirred.extend(gained);
        // The ID may be one that no field has, so it cannot be borrowed.
        let id = |seen: &Option<Arc<Seen<Self>>>| {
            let claimed = seen.as_ref().filter(|seen| is_claimed(seen))?;
            claimed.id().ok().map(|id| id.text)
        };
        let (before, after) = (id(&change.before), id(&change.after));
        inner.ids.replace(
            before.as_deref().zip(change.before.as_ref()),
            after.as_deref().zip(change.after.as_ref()),
        );
        let (before, after) = sides(change, |seen| annotation(seen, names::ANNOTATION_OWNER));
        inner.owners.replace(before, after);
    }

    fn share(sharing: &Sharing, seen: &mut Seen<Self>) {
        sharing.share(seen);
    }
}

impl Kept for SandboxSet {
    kept!(SandboxSet in sets, by |it, name| in_map(it.metadata.labels.as_ref(), name), as SandboxSet);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        let (before, after) = sides(change, |seen| &seen.key.name);
        if let Some((name, _)) = after.or(before) {
            inner.stirred.insert(name.into());
        }
        inner.set_names.replace(before, after);
    }
}

impl Kept for Checkpoint {
    kept!(Checkpoint in checkpoints, by |it, name| in_map(it.metadata.labels.as_ref(), name), as Checkpoint);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        let (before, after) = sides(change, |seen| {
            let status = seen.object.status.as_ref();
            status.and_then(|status| status.checkpoint_id.as_deref()).unwrap_or_default()
        });
        inner.checkpoint_ids.replace(before, after);
        let (before, after) =
            sides(change, |seen| text(seen.object.metadata.annotations.as_ref(), names::ANNOTATION_OWNER));
        inner.checkpoint_owners.replace(before, after);
    }
}

impl Kept for SandboxTemplate {
    kept!(SandboxTemplate in templates, by |it, name| in_map(it.metadata.labels.as_ref(), name), as SandboxTemplate);

    fn changed(_inner: &mut Inner, _change: &Change<Self>) {}
}

impl Kept for SecretFacts {
    kept!(SecretFacts in secrets, by |it, name| in_map(Some(&it.labels), name), as Secret);

    fn changed(_inner: &mut Inner, _change: &Change<Self>) {}
}

impl Kept for ConfigMapFacts {
    kept!(ConfigMapFacts in config_maps, by |it, name| in_map(Some(&it.labels), name), as ConfigMap);

    fn changed(_inner: &mut Inner, _change: &Change<Self>) {}
}

impl Kept for PvcFacts {
    kept!(PvcFacts in pvcs, by |it, name| in_map(Some(&it.labels), name), as Pvc);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        let (before, after) =
            sides(change, |seen| text(Some(&seen.object.annotations), names::ANNOTATION_OWNER));
        inner.pvc_owners.replace(before, after);
        let (before, after) = sides(change, |seen| &seen.object.volume);
        inner.volumes.replace(before, after);
    }
}

impl Kept for SandboxEnv {
    kept!(SandboxEnv in envs, by |it, name| in_map(it.metadata.labels.as_ref(), name), as SandboxEnv);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        let (before, after) = sides(change, |seen| &seen.key.name);
        inner.env_names.replace(before, after);
    }
}

impl Kept for SandboxPool {
    kept!(SandboxPool in env_pools, by |it, name| in_map(it.metadata.labels.as_ref(), name), as SandboxPool);

    fn changed(_inner: &mut Inner, _change: &Change<Self>) {}
}

impl Kept for EnvPod {
    kept!(EnvPod in env_pods, by |it, name| in_map(it.metadata.labels.as_ref(), name), as EnvPod);

    fn changed(inner: &mut Inner, change: &Change<Self>) {
        let (before, after) = sides(change, |seen| seen.sandbox_id());
        inner.env_ids.replace(before, after);
        let (before, after) = sides(change, |seen| seen.annotation(env_names::ANNOTATION_OWNER));
        inner.env_owners.replace(before, after);
        inner.idle_pods.changed(change);
    }
}
