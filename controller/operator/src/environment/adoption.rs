//! Gives a lone pool an environment, so that it scales and is found as others are.
//!
//! A pool without an owner gets the environment of its own name:
//! 1. the environment is made, with the pool as its member, or the pool is added to the one that is there;
//! 2. the pool gets the environment as its controlling owner.
//!
//! Each step leaves a state from which the next look goes on, and the second comes after the first: an
//! environment deletes pools that are its own and that no member asks for.
//!
//! # What is not adopted
//! - A pool that has an owner. If that is an environment that is gone, or another one of the same name, the
//!   garbage collector decides: it deletes the pool, or takes the reference away where the environment was
//!   deleted with `--cascade=orphan`. After that the pool is a lone one.
//! - A pool whose environment is being deleted, until that is gone.
//!
//! # What the member looks like
//! It is the pool as it is, so that no pod rolls. Its group does not scale, and it does not follow its
//! template until somebody says so: a pool that was written by hand need not look like it.
//!
//! Its group is named after its size. Older programs called it `default`, and that is put right only where it
//! changes nothing else: no other member of any cluster has that group, and neither group scales.

mod member;
mod size;

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use sandgate_objects::sandbox_env::names;
use sandgate_objects::sandbox_env::resources::{ClusterSegment, SandboxEnv, SandboxEnvSpec, SandboxPool};
use serde_json::{Value, json};

use super::pools::{is_owned, owner_reference};
use super::write::write_spec;
use crate::events::{EventKind, Events};
use crate::reference::reference;
use crate::view::{Seen, View};
use crate::writes::{Merge, WriteError, Writes};
use crate::{Again, Category, Failed, Key, Reconciler};

pub use size::{InstanceTypes, NoInstanceTypes};

/// The reconciler of lone pools.
pub struct PoolAdoptionReconciler {
    view: View,
    writes: Writes,
    events: Arc<dyn Events>,
    cluster: Arc<str>,
    sizes: Arc<dyn InstanceTypes>,
}

/// Whose a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// Nobody's.
    Nobodys,
    /// An environment's that lives.
    Adopted,
    /// Somebody else's, or that of an environment that is gone.
    Others,
}

impl PoolAdoptionReconciler {
    /// A reconciler of the lone pools of this cluster.
    pub fn new(
        view: View,
        writes: Writes,
        events: Arc<dyn Events>,
        cluster: &str,
        sizes: Arc<dyn InstanceTypes>,
    ) -> Self {
        Self { view, writes, events, cluster: cluster.into(), sizes }
    }

    fn env(&self, key: &Key) -> Option<Arc<Seen<SandboxEnv>>> {
        self.view.get(key)
    }

    fn whose(&self, pool: &Seen<SandboxPool>) -> Whose {
        let owners = pool.metadata.owner_references.as_deref().unwrap_or_default();
        let lives = |name: &str| {
            let env = self.env(&Key::new(&pool.key.namespace, name));
            env.is_some_and(|env| is_owned(pool, &env))
        };
        let is_env = |kind: &str| kind == names::KIND_ENV;
        if owners.iter().any(|owner| is_env(&owner.kind) && lives(&owner.name)) {
            return Whose::Adopted;
        }
        let is_taken = |owner: &k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
            is_env(&owner.kind) || owner.controller == Some(true)
        };
        if owners.iter().any(is_taken) { Whose::Others } else { Whose::Nobodys }
    }

    async fn adopt(&self, pool: &Arc<Seen<SandboxPool>>) -> Result<Again, Failed> {
        let env = match self.env(&pool.key) {
            Some(env) => env,
            None => self.make_env(pool).await?,
        };
        if env.metadata.deletion_timestamp.is_some() {
            return Ok(Again::Rarely);
        }
        let env = self.add_member(&env, pool).await?;
        let mut owners = json!(pool.metadata.owner_references.clone().unwrap_or_default());
        if let Some(owners) = owners.as_array_mut() {
            owners.push(owner_reference(&env));
        }
        let patch = json!({"metadata": {"ownerReferences": owners}});
        self.writes.patch(pool, patch, Merge::Plain, None).await?;
        let on = reference(names::API_VERSION, names::KIND_POOL, &pool.key, &pool.uid);
        let note = format!("the pool belongs to the environment {}", env.key.name);
        self.events.publish(&on, EventKind::Normal, "PoolAdopted", "Adopt", note);
        Ok(Again::Rarely)
    }

    /// Makes the environment of a pool, with the pool as its member; or reads the one that the view does not
    /// know of yet.
    async fn make_env(&self, pool: &Seen<SandboxPool>) -> Result<Arc<Seen<SandboxEnv>>, Failed> {
        let Some(spec) = member::env_of(pool, &self.cluster, &*self.sizes) else {
            return Err(Failed {
                category: Category::Invalid,
                message: "the pool names no template, so that no environment can be made of it".to_owned(),
                source: None,
            });
        };
        let object = json!({
            "apiVersion": names::API_VERSION,
            "kind": names::KIND_ENV,
            "metadata": {
                "name": &*pool.key.name, "namespace": &*pool.key.namespace, "labels": member::bills(pool),
            },
            "spec": serde_json::to_value(spec).unwrap_or(Value::Null),
        });
        match self.writes.create::<SandboxEnv>(&pool.key.namespace, &object).await {
            Err(WriteError::AlreadyExists(taken)) => {
                let known = self.writes.read::<SandboxEnv>(&pool.key).await?;
                known.ok_or_else(|| WriteError::Conflict(taken).into())
            }
            made => Ok(made?),
        }
    }

    /// Adds a pool to an environment that does not have it.
    async fn add_member(
        &self,
        env: &Arc<Seen<SandboxEnv>>,
        pool: &Seen<SandboxPool>,
    ) -> Result<Arc<Seen<SandboxEnv>>, WriteError> {
        if env.spec.members_in(&self.cluster).iter().any(|member| *member.name == *pool.key.name) {
            return Ok(Arc::clone(env));
        }
        let mut spec = env.spec.clone();
        let member = member::member_of(pool, &*self.sizes);
        match spec.clusters.iter_mut().find(|segment| *segment.cluster_id == *self.cluster) {
            Some(segment) => segment.members.push(member),
            None => {
                let cluster_id = self.cluster.to_string();
                spec.clusters.push(ClusterSegment { cluster_id, members: vec![member] });
            }
        }
        write_spec(&self.writes, env, &spec).await
    }

    /// Older programs left the group of an adopted pool at its default; it is that of its size, unless
    /// somebody has a use for the default.
    async fn backfill(&self, pool: &Seen<SandboxPool>) -> Result<(), WriteError> {
        let Some(env) = self.env(&pool.key).filter(|env| is_owned(pool, env)) else { return Ok(()) };
        if env.metadata.deletion_timestamp.is_some() {
            return Ok(());
        }
        let spec: Option<SandboxEnvSpec> = member::regrouped(&env.spec, &self.cluster, pool);
        match spec {
            Some(spec) => write_spec(&self.writes, &env, &spec).await.map(drop),
            None => Ok(()),
        }
    }
}

impl Reconciler for PoolAdoptionReconciler {
    const NAME: &'static str = "pooladoption";

    async fn reconcile(&self, key: &Key) -> Result<Again, Failed> {
        let Some(pool) = self.view.get::<SandboxPool>(key) else { return Ok(Again::Forget) };
        if pool.metadata.deletion_timestamp.is_some() {
            return Ok(Again::Rarely);
        }
        match self.whose(&pool) {
            Whose::Nobodys => self.adopt(&pool).await,
            Whose::Adopted => {
                self.backfill(&pool).await?;
                Ok(Again::Rarely)
            }
            Whose::Others => Ok(Again::Rarely),
        }
    }

    fn object(&self, key: &Key) -> Option<ObjectReference> {
        let pool = self.view.get::<SandboxPool>(key)?;
        Some(reference(names::API_VERSION, names::KIND_POOL, key, &pool.uid))
    }
}
