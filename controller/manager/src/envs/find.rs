//! Which sandbox of an environment an ID means, and whether it is the caller's.
//!
//! As for other sandboxes ([`crate::find`]): the cache answers almost always, and what it does not have is
//! asked of the API server, a few questions at a time. Another owner's sandbox is answered like one that does
//! not exist, and so is one that was released.

use std::sync::Arc;

use sandgate_cache::{ReadError, Seen};
use sandgate_objects::sandbox_env::names::{LABEL_POOL, SANDBOX_ID};
use sandgate_objects::sandbox_env::resources::EnvPod;

use super::Environments;
use super::describe::is_shown;
use super::pods::{One, is_of};
use crate::find::{is_id, unread};
use crate::{Caller, Error};

/// The longest value of a label.
const MAX_LABEL: usize = 63;

impl Environments {
    /// The caller's sandbox of this ID; none if no environment has it, so that another kind may.
    ///
    /// # Errors
    /// An environment has it, and it is not the caller's or has ended; or nobody can say.
    pub(crate) async fn find(&self, caller: &Caller, id: &str) -> Result<Option<One>, Error> {
        let namespace = self.core.namespace_of(caller);
        let known = self.core.cache.pods_of_sandbox(namespace, id);
        if !known.is_empty() {
            return only(known, caller, id).map(Some);
        }
        let is_elsewhere = !matches!(self.core.cache.claimed(namespace, id), Err(ReadError::NotFound));
        if is_elsewhere || !is_id(id) || id.len() > MAX_LABEL {
            return Ok(None);
        }
        // IDs that no environment has are remembered beside those that no sandbox has.
        let (lookups, missing) = (&self.core.lookups, format!("env/{id}"));
        if lookups.is_missing(namespace, &missing) {
            return Ok(None);
        }
        let _turn = lookups.turn(&caller.owner).await?;
        let known = self.core.cache.pods_of_sandbox(namespace, id);
        let found = if known.is_empty() { self.list(namespace, id).await? } else { known };
        if found.is_empty() {
            lookups.note_missing(namespace, &missing);
            return Ok(None);
        }
        only(found, caller, id).map(Some)
    }

    /// The same as this process knows it. The API server is not asked.
    pub(crate) fn find_known(&self, caller: &Caller, id: &str) -> Option<One> {
        let known = self.core.cache.pods_of_sandbox(self.core.namespace_of(caller), id);
        only(known, caller, id).ok()
    }

    /// The pods of a sandbox, as they are at the API server now.
    pub(super) async fn list(&self, namespace: Option<&str>, id: &str) -> Result<Vec<One>, Error> {
        let selector = format!("{SANDBOX_ID}={id},{LABEL_POOL}");
        let found = self.core.writes.list::<EnvPod>(namespace, &selector, 2).await.map_err(unread)?;
        Ok(found.into_iter().filter(|pod| self.core.cache.follows(pod)).collect())
    }

    /// A sandbox that was seen, as it is at the API server now.
    pub(super) async fn again(&self, caller: &Caller, id: &str, seen: &Seen<EnvPod>) -> Result<One, Error> {
        let read = self.core.writes.read::<EnvPod>(&seen.key).await.map_err(unread)?;
        let found =
            read.filter(|read| read.uid == seen.uid && is_of(read, id, &caller.owner) && is_shown(read));
        found.ok_or_else(|| Error::no_sandbox(id))
    }

    /// The newest that is known of a pod.
    pub(super) fn newest(&self, seen: &One) -> One {
        let known = self.core.cache.get::<EnvPod>(&seen.key);
        let newer = known.filter(|known| known.uid == seen.uid && known.version > seen.version);
        newer.unwrap_or_else(|| Arc::clone(seen))
    }
}

/// The one pod that its owner sees. Of two nobody can say which it is.
fn only(found: Vec<One>, caller: &Caller, id: &str) -> Result<One, Error> {
    let is_visible =
        |pod: &One| caller.namespace.as_deref().is_none_or(|namespace| namespace == &*pod.key.namespace);
    let mut shown = found.into_iter().filter(|pod| is_shown(pod));
    match (shown.next(), shown.next()) {
        (Some(pod), None) if is_visible(&pod) && is_of(&pod, id, &caller.owner) => Ok(pod),
        _ => Err(Error::no_sandbox(id)),
    }
}
