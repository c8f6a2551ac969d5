//! What may happen to the pools of environments, by the word of plugins: quotas, costs, policies.
//!
//! A chain asks its plugins in order. The first that refuses ends it. What each of them may change goes to
//! the next. Of several limits the smallest counts, and of several waits the longest. A chain without plugins
//! admits everything.
//!
//! # When
//! - [`Admission::pre_create_pool`]: before a pool becomes a member of an environment. The reconciler of
//!   environments does not ask again: a member is what was admitted.
//! - [`Admission::pre_update_pool`]: before a pool's pods are brought to a number. It may be asked many times
//!   for one change, also about numbers that nobody has decided on, so it must have no effect.
//! - [`Admission::pre_delete_pool`]: before a pool is deleted.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use sandgate_objects::sandbox_env::resources::{EnvPod, SandboxPool};

use crate::Seen;

/// Why a plugin does not admit something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// There is not enough of something. Later there may be.
    #[error("not enough: {message}")]
    Insufficient {
        /// Of what, for people.
        message: String,
        /// When to ask again, if the plugin knows.
        retry_after: Option<Duration>,
    },
    /// The pool is not allowed as it is. Only another spec helps.
    #[error("not allowed: {message}")]
    Invalid {
        /// Why, for people.
        message: String,
    },
    /// The plugin could not decide. Asking again may help.
    #[error("not decided: {message}")]
    Internal {
        /// Why, for people.
        message: String,
    },
}

/// How many pods a pool may have for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cap {
    /// How many.
    pub replicas: i32,
    /// Why not more, in one word for programs.
    pub reason: String,
    /// Why not more, for people.
    pub message: String,
}

/// What a plugin, or a chain of them, admits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Whether the pool was changed. Who asked writes it only if it also means something else than before.
    pub updated: bool,
    /// How many pods the pool may have for now. It limits what is made, and never changes `spec.replicas`.
    pub cap: Option<Cap>,
    /// When to ask again for more.
    pub retry_after: Option<Duration>,
}

impl Admitted {
    /// Both of them.
    #[must_use]
    fn and(self, other: Self) -> Self {
        let cap = match (self.cap, other.cap) {
            // Of equal ones the first counts.
            (Some(one), Some(other)) if other.replicas < one.replicas => Some(other),
            (one, other) => one.or(other),
        };
        let retry_after = self.retry_after.max(other.retry_after);
        Self { updated: self.updated || other.updated, cap, retry_after }
    }

    /// How many of the wanted pods there may be.
    pub fn admits(&self, wanted: i32) -> i32 {
        self.cap.as_ref().map_or(wanted, |cap| wanted.min(cap.replicas.max(0)))
    }
}

/// What became of a question.
pub type Verdict = Result<Admitted, NotAdmitted>;

/// A plugin. Without a word of its own it admits everything.
pub trait Admission: Send + Sync + 'static {
    /// The name, for the log.
    fn name(&self) -> &str;

    /// Before a pool becomes a member. The pool may be changed.
    fn pre_create_pool<'a>(&'a self, pool: &'a mut SandboxPool) -> BoxFuture<'a, Verdict> {
        let _ = pool;
        ready(Ok(Admitted::default())).boxed()
    }

    /// Before a pool, which has these pods, is brought to the replicas of its spec. The pool may be changed.
    fn pre_update_pool<'a>(
        &'a self,
        pool: &'a mut SandboxPool,
        pods: &'a [Arc<Seen<EnvPod>>],
    ) -> BoxFuture<'a, Verdict> {
        let _ = (pool, pods);
        ready(Ok(Admitted::default())).boxed()
    }

    /// Before a pool is deleted.
    fn pre_delete_pool<'a>(&'a self, pool: &'a SandboxPool) -> BoxFuture<'a, Result<(), NotAdmitted>> {
        let _ = pool;
        ready(Ok(())).boxed()
    }
}

/// Plugins, in the order in which they are asked. Clones are the same.
#[derive(Clone, Default)]
pub struct Admissions(Arc<[Arc<dyn Admission>]>);

impl Admissions {
    /// A chain of these.
    pub fn new(plugins: impl IntoIterator<Item = Arc<dyn Admission>>) -> Self {
        Self(plugins.into_iter().collect())
    }

    /// Whether everything is admitted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Asks all of them; see [`Admission::pre_create_pool`].
    ///
    /// # Errors
    /// See [`NotAdmitted`].
    pub async fn pre_create_pool(&self, pool: &mut SandboxPool) -> Verdict {
        let mut all = Admitted::default();
        for plugin in self.0.iter() {
            let verdict = plugin.pre_create_pool(pool).await;
            all = all.and(verdict.inspect_err(|error| log(&**plugin, error))?);
        }
        Ok(all)
    }

    /// Asks all of them; see [`Admission::pre_update_pool`].
    ///
    /// # Errors
    /// See [`NotAdmitted`].
    pub async fn pre_update_pool(&self, pool: &mut SandboxPool, pods: &[Arc<Seen<EnvPod>>]) -> Verdict {
        let mut all = Admitted::default();
        for plugin in self.0.iter() {
            let verdict = plugin.pre_update_pool(pool, pods).await;
            all = all.and(verdict.inspect_err(|error| log(&**plugin, error))?);
        }
        Ok(all)
    }

    /// Asks all of them; see [`Admission::pre_delete_pool`].
    ///
    /// # Errors
    /// See [`NotAdmitted`].
    pub async fn pre_delete_pool(&self, pool: &SandboxPool) -> Result<(), NotAdmitted> {
        for plugin in self.0.iter() {
            plugin.pre_delete_pool(pool).await.inspect_err(|error| log(&**plugin, error))?;
        }
        Ok(())
    }
}

fn log(plugin: &dyn Admission, error: &NotAdmitted) {
    tracing::debug!("{} does not admit a pool: {error}", plugin.name());
}
