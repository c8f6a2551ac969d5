//! Keys by the API: who sees which, and who may make and revoke them.
//!
//! A key sees the keys of its team. Only keys of the team `admin` make and revoke keys, and they see all: a
//! key with a quota could otherwise make itself one without. A key that the API makes for a team works in the
//! namespace of the team's name, as with OpenKruise; one of the team `admin` works in all.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandgate_cache::request::Only;
use sandgate_cache::{Cache, SecretFacts, WriteError};
use sandgate_objects::keys::{
    ADMIN_TEAM, KIND, KIND_LABEL, KeyMeta, KeyText, Quota, SECRET_TYPE, StoredKey, new_id, secret_name,
};
use serde_json::{Map, Value, json};

use super::{KeyStore, Known, is_admin};
use crate::api::{CreatedKey, Doing, KeyFacts, KeyMask, Keys, NewKey, Team};
use crate::{AccessToken, Caller, Error, ErrorKind, Writes};

/// What every key begins with.
const PREFIX: &str = "e2b_";
/// How many digits a key of ours has.
const DIGITS: usize = 40;
/// The owner of everything where there are no keys. OpenKruise has the same.
const NOBODY: &str = "550e8400-e29b-41d4-a716-446655440000";

/// The keys of the store, and the way to change them.
#[derive(Clone)]
pub struct ManagedKeys {
    store: KeyStore,
    cache: Cache,
    writes: Writes,
    namespace: Arc<str>,
}

impl ManagedKeys {
    /// The keys of this store, whose Secrets are in this namespace.
    pub fn new(store: KeyStore, cache: Cache, writes: Writes, namespace: &str) -> Self {
        Self { store, cache, writes, namespace: namespace.into() }
    }

    async fn make(&self, caller: &Caller, new: NewKey) -> Result<CreatedKey, Error> {
        only_admins(caller)?;
        let quota = match new.quota {
            Some(json) => serde_json::from_value::<Quota>(json)
                .map_err(|error| Error::invalid("quota", &format!("expected {{\"limits\":[…]}}: {error}")))?,
            None => Quota::default(),
        };
        quota.check().map_err(|error| Error::invalid("quota", &error.to_string()))?;
        let no_numbers =
            |error: sandgate_objects::keys::RandomError| Error::new(ErrorKind::Internal, error.to_string());
        let text = KeyText::generate().map_err(no_numbers)?;
        let team = new.team.unwrap_or_else(|| caller.team.to_string());
        let meta = KeyMeta {
            id: new_id().map_err(no_numbers)?,
            name: new.name,
            namespace: (team != ADMIN_TEAM).then(|| team.clone()),
            team,
            mask: text.mask(),
            created_at: self.cache.clock().now(),
            created_by: caller.owner.to_string(),
            expires_at: None,
            quota,
        };
        let key = StoredKey { meta, digest: text.digest(), previous: Vec::new() };
        let secret = secret(&key);
        match self.writes.create::<SecretFacts>(&self.namespace, &secret).await {
            // Its answer went into the cache, and from there into the store: the key is good here by now.
            Ok(_) => Ok(CreatedKey { facts: facts(&key, None), key: AccessToken::new(text.reveal()) }),
            Err(error) => Err(error.into()),
        }
    }

    async fn end(&self, caller: &Caller, id: &str) -> Result<(), Error> {
        only_admins(caller)?;
        let missing = || Error::new(ErrorKind::NotFound, format!("key {id} was not found"));
        let known = self.store.all().into_iter().find(|known| *known.caller.owner == *id);
        let known = known.ok_or_else(missing)?;
        if known.foreign {
            let secret = &known.secret;
            let message = format!("key {id} is in OpenKruise's Secret {secret}: revoke it there");
            return Err(Error::new(ErrorKind::Forbidden, message));
        }
        let seen = self.cache.get::<SecretFacts>(&known.secret).ok_or_else(missing)?;
        match self.writes.delete(&seen, Only::ThisUid).await {
            Ok(()) => Ok(()),
            Err(WriteError::NotFound(_)) => Err(missing()),
            Err(error) => Err(error.into()),
        }
    }
}

fn only_admins(caller: &Caller) -> Result<(), Error> {
    if is_admin(caller) {
        return Ok(());
    }
    let message = "only keys of the team admin make and revoke keys; `sandgate keys` does it by kubeconfig";
    Err(Error::new(ErrorKind::Forbidden, message))
}

impl Keys for ManagedKeys {
    fn authenticate(&self, presented: &str) -> Option<Caller> {
        self.store.authenticate(presented)
    }

    fn teams(&self, caller: &Caller) -> Vec<Team> {
        let mut names = BTreeSet::from([caller.team.to_string()]);
        if is_admin(caller) {
            names.extend(self.store.all().iter().map(|known| known.caller.team.to_string()));
        }
        names.into_iter().map(|name| Team { id: name.clone(), name }).collect()
    }

    fn list(&self, caller: &Caller) -> Vec<KeyFacts> {
        let is_seen = |known: &Arc<Known>| is_admin(caller) || known.caller.team == caller.team;
        let seen = self.store.all().into_iter().filter(is_seen);
        seen.map(|known| facts(&known.key, known.last_used())).collect()
    }

    fn create<'a>(&'a self, caller: &'a Caller, new: NewKey) -> Doing<'a, CreatedKey> {
        Box::pin(self.make(caller, new))
    }

    fn revoke<'a>(&'a self, caller: &'a Caller, id: &'a str) -> Doing<'a, ()> {
        Box::pin(self.end(caller, id))
    }
}

fn facts(key: &StoredKey, last_used: Option<jiff::Timestamp>) -> KeyFacts {
    let meta = &key.meta;
    let shown = meta.mask.strip_prefix(PREFIX).unwrap_or(&meta.mask);
    let (head, tail) = shown.split_once("...").unwrap_or((shown, ""));
    KeyFacts {
        id: meta.id.clone(),
        name: meta.name.clone(),
        team: meta.team.clone(),
        mask: KeyMask {
            prefix: PREFIX.to_owned(),
            length: DIGITS,
            head: head.to_owned(),
            tail: tail.to_owned(),
        },
        created: meta.created_at,
        created_by: Some(meta.created_by.clone()).filter(|by| !by.is_empty()),
        last_used,
        expires: meta.expires_at,
    }
}

fn secret(key: &StoredKey) -> Value {
    let text = |value: Vec<u8>| Value::from(String::from_utf8(value).unwrap_or_default());
    let data: Map<String, Value> = key.data().into_iter().map(|(name, value)| (name, text(value))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(&key.meta.id),
            "labels": { KIND_LABEL: KIND, "app.kubernetes.io/managed-by": "sandgate" },
        },
        "type": SECRET_TYPE,
        "stringData": data,
    })
}

/// No keys: whoever asks is the same administrator, whatever key is presented.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKeys;

impl Keys for NoKeys {
    fn authenticate(&self, _presented: &str) -> Option<Caller> {
        Some(Caller { owner: NOBODY.into(), team: ADMIN_TEAM.into(), namespace: None, quota: Arc::from([]) })
    }

    fn teams(&self, caller: &Caller) -> Vec<Team> {
        vec![Team { id: caller.team.to_string(), name: caller.team.to_string() }]
    }

    fn list(&self, _caller: &Caller) -> Vec<KeyFacts> {
        Vec::new()
    }

    fn create<'a>(&'a self, _caller: &'a Caller, _new: NewKey) -> Doing<'a, CreatedKey> {
        Box::pin(async { Err(without_keys()) })
    }

    fn revoke<'a>(&'a self, _caller: &'a Caller, _id: &'a str) -> Doing<'a, ()> {
        Box::pin(async { Err(without_keys()) })
    }
}

fn without_keys() -> Error {
    Error::new(ErrorKind::Unsupported, "this manager runs with --insecure-no-auth and has no keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(team: &str) -> Caller {
        Caller { owner: "me".into(), team: team.into(), namespace: None, quota: Arc::from([]) }
    }

    #[test]
    fn only_the_admin_team_makes_and_revokes_keys() {
        assert_eq!(only_admins(&caller("admin")), Ok(()));
        for team in ["default", "", "Admin", "admins"] {
            assert_eq!(only_admins(&caller(team)).unwrap_err().kind, ErrorKind::Forbidden, "{team}");
        }
    }

    #[test]
    fn a_secret_of_the_api_is_read_as_one_of_the_command_and_shows_its_ends_alone() {
        let text = KeyText::generate().unwrap();
        let meta = KeyMeta {
            id: new_id().unwrap(),
            name: "made".to_owned(),
            team: "web".to_owned(),
            namespace: Some("web".to_owned()),
            mask: text.mask(),
            created_at: "2026-11-18T08:00:00Z".parse().unwrap(),
            created_by: "me".to_owned(),
            expires_at: None,
            quota: Quota::default(),
        };
        let key = StoredKey { meta, digest: text.digest(), previous: Vec::new() };
        let secret = secret(&key);
        let name = secret["metadata"]["name"].as_str().unwrap();
        let read = StoredKey::read(name, |entry| Some(secret["stringData"][entry].as_str()?.as_bytes()));
        assert_eq!(read.as_ref(), Ok(&key));
        let shown = facts(&key, None);
        let whole = text.reveal().strip_prefix(PREFIX).unwrap();
        assert_eq!((shown.mask.head.as_str(), shown.mask.tail.as_str()), (&whole[..4], &whole[36..]));
        assert_eq!(shown.mask.length, whole.len());
    }

    #[test]
    fn without_keys_everybody_is_one_administrator_who_makes_none() {
        let someone = NoKeys.authenticate("anything").unwrap();
        assert!(is_admin(&someone) && NoKeys.authenticate("else") == Some(someone.clone()));
        assert!(NoKeys.list(&someone).is_empty());
    }
}
