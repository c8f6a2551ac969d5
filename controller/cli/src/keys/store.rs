//! The Secrets with keys, in the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Client, Error};
use sandgate_follow::Access;
use sandgate_objects::keys::{
    KIND, KIND_LABEL, KeyError, LAST_USED, SECRET_TYPE, SELECTOR, StoredKey, secret_name,
};
use tokio::time::{Instant, sleep, timeout};

use crate::args::Cluster;
use crate::failure::{Failure, failed, usage};

/// How long reading the credentials may take, plugins included.
const CREDENTIALS: Duration = Duration::from_secs(30);
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long the server is asked what became of a write, and the pause between two questions.
const SETTLE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(250);

/// A key in the cluster.
pub(super) struct Found {
    pub(super) key: StoredKey,
    pub(super) last_used: Option<Timestamp>,
    secret: Secret,
}

/// The Secrets of the system namespace.
pub(super) struct Store {
    client: Client,
    secrets: Api<Secret>,
    namespace: String,
}

impl Store {
    pub(super) async fn connect(cluster: &Cluster) -> Result<Self, Failure> {
        let access = Access { kubeconfig: cluster.kubeconfig.clone(), context: cluster.context.clone() };
        let client = access.connect(CREDENTIALS).await;
        let client = client.map_err(|error| failed!("no access to a cluster: {error}"))?;
        let namespace = cluster.system_namespace.clone();
        let secrets = Api::namespaced(client.clone(), &namespace);
        Ok(Self { client, secrets, namespace })
    }

    /// Writes a new key. Makes the namespace if it is not there, and says whether it did.
    pub(super) async fn create(&self, key: &StoredKey) -> Result<bool, Failure> {
        let secret = secret(key);
        let parameters = PostParams::default();
        match in_time(self.secrets.create(&parameters, &secret)).await {
            Err(Error::Api(status)) if status.code == 404 => {}
            done => return self.settle("create", key, done).await.map(|()| false),
        }
        let metadata = ObjectMeta { name: Some(self.namespace.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        in_time(namespaces.create(&parameters, &namespace)).await.map_err(|error| {
            let namespace = &self.namespace;
            failed!(
                "there is no namespace {namespace}, and it cannot be made: {error}; \
                 --system-namespace says where the managers look for keys"
            )
        })?;
        let done = in_time(self.secrets.create(&parameters, &secret)).await;
        self.settle("create", key, done).await.map(|()| true)
    }

    /// The keys, and the Secrets that should be keys and are none.
    pub(super) async fn list(&self) -> Result<(Vec<Found>, Vec<(String, KeyError)>), Failure> {
        let all = in_time(self.secrets.list(&ListParams::default().labels(SELECTOR))).await;
        let (mut found, mut unreadable) = (Vec::new(), Vec::new());
        for secret in all.map_err(|error| self.explain("list", &error))? {
            let name = secret.metadata.name.clone().unwrap_or_default();
            match read(secret) {
                Ok(key) => found.push(key),
                Err(error) => unreadable.push((name, error)),
            }
        }
        Ok((found, unreadable))
    }

    /// The key whose ID begins so.
    pub(super) async fn one(&self, id: &str) -> Result<Found, Failure> {
        let (found, _) = self.list().await?;
        choose(found, id).map_err(|error| match error {
            Choice::None => failed!(
                "there is no key {id} in the namespace {}; `sandgate keys list` lists them",
                self.namespace
            ),
            Choice::Several(several) => {
                usage!("{id}: expected one ID, and {several} begin so; `sandgate keys list` lists them")
            }
        })
    }

    /// Writes a key that has changed, if nobody else has changed it.
    pub(super) async fn replace(&self, found: &Found) -> Result<(), Failure> {
        let mut changed = found.secret.clone();
        changed.data = Some(data(&found.key));
        let name = secret_name(&found.key.meta.id);
        let done = in_time(self.secrets.replace(&name, &PostParams::default(), &changed)).await;
        self.settle("update", &found.key, done).await
    }

    /// Says whether a key was written. Where the answer does not say it, the Secret does: a key that was
    /// written and is not shown now is one that nobody has.
    async fn settle(&self, verb: &str, key: &StoredKey, done: Result<Secret, Error>) -> Result<(), Failure> {
        let Err(error) = done else { return Ok(()) };
        if is_refused(&error) {
            return Err(self.explain(verb, &error));
        }
        let id = &key.meta.id;
        match self.has(key).await {
            Ok(true) => Ok(()),
            Ok(false) if is_conflict(&error) => {
                Err(Failure::new("the key was changed by somebody else at the same time; try again"))
            }
            Ok(false) => Err(failed!(
                "{}. The cluster does not have the new key; should it have it later, revoke or rotate {id}: nobody \
                 knows its text",
                self.explain(verb, &error)
            )),
            Err(unread) => Err(failed!(
                "{}. Nor is it known whether the cluster has the new key ({unread}): if it has, revoke or rotate {id}, \
                 nobody knows its text",
                self.explain(verb, &error)
            )),
        }
    }

    /// Whether the cluster has exactly this key, and not another one of its ID.
    async fn has(&self, key: &StoredKey) -> Result<bool, Error> {
        let (name, until) = (secret_name(&key.meta.id), Instant::now() + SETTLE);
        loop {
            match in_time(self.secrets.get_opt(&name)).await {
                Ok(secret) => {
                    let found = secret.and_then(|secret| read(secret).ok());
                    return Ok(found.is_some_and(|found| found.key.digest == key.digest));
                }
                Err(error) if is_refused(&error) || Instant::now() >= until => return Err(error),
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    /// Deletes a key, if it is the one that was found.
    pub(super) async fn delete(&self, found: &Found) -> Result<(), Failure> {
        let uid = found.secret.metadata.uid.clone();
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
        let name = secret_name(&found.key.meta.id);
        match in_time(self.secrets.delete(&name, &parameters)).await {
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            done => done.map(drop).map_err(|error| self.explain("delete", &error)),
        }
    }

    fn explain(&self, verb: &str, error: &Error) -> Failure {
        let namespace = &self.namespace;
        match error {
            Error::Api(status) if status.code == 403 => failed!(
                "this account may not {verb} Secrets in the namespace {namespace}: {}. An administrator of the \
                 cluster makes keys",
                status.message
            ),
            Error::Api(status) => failed!("the API server refused: {}", status.message),
            other => failed!("the API server did not answer: {other}"),
        }
    }
}

/// Why no key was chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    None,
    Several(usize),
}

/// The key of this ID, or the only one whose ID begins so.
fn choose(found: Vec<Found>, id: &str) -> Result<Found, Choice> {
    let mut fitting: Vec<Found> = found.into_iter().filter(|key| key.key.meta.id.starts_with(id)).collect();
    if let Some(at) = fitting.iter().position(|key| key.key.meta.id == id) {
        return Ok(fitting.swap_remove(at));
    }
    match (fitting.pop(), fitting.len()) {
        (Some(only), 0) if !id.is_empty() => Ok(only),
        (Some(_), rest) => Err(Choice::Several(rest + 1)),
        (None, _) => Err(Choice::None),
    }
}

/// Whether the server says that it has not done what was asked. A conflict may be with the same write, which
/// the client has sent twice.
fn is_refused(error: &Error) -> bool {
    matches!(error, Error::Api(status) if (400..500).contains(&status.code)) && !is_conflict(error)
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::Api(status) if status.code == 409)
}

async fn in_time<T>(request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match timeout(PATIENCE, request).await {
        Ok(answer) => answer,
        Err(late) => Err(Error::Service(late.into())),
    }
}

fn data(key: &StoredKey) -> BTreeMap<String, ByteString> {
    key.data().into_iter().map(|(name, value)| (name, ByteString(value))).collect()
}

fn secret(key: &StoredKey) -> Secret {
    let labels = BTreeMap::from([
        (KIND_LABEL.to_owned(), KIND.to_owned()),
        ("app.kubernetes.io/managed-by".to_owned(), "sandgate".to_owned()),
    ]);
    Secret {
        metadata: ObjectMeta {
            name: Some(secret_name(&key.meta.id)),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        type_: Some(SECRET_TYPE.to_owned()),
        data: Some(data(key)),
        ..Secret::default()
    }
}

fn read(secret: Secret) -> Result<Found, KeyError> {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let data = secret.data.as_ref();
    let key = StoredKey::read(name, |entry| Some(data?.get(entry)?.0.as_slice()))?;
    let annotations = secret.metadata.annotations.as_ref();
    let last_used = annotations.and_then(|all| all.get(LAST_USED)?.parse().ok());
    Ok(Found { key, last_used, secret })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::tests::stored;

    fn found(ids: &[&str]) -> Vec<Found> {
        ids.iter().map(|id| read(secret(&stored(id))).unwrap()).collect()
    }

    #[test]
    fn a_secret_is_read_as_it_was_written_with_its_last_use() {
        let mut written = secret(&stored("one"));
        let used = BTreeMap::from([(LAST_USED.to_owned(), "2026-11-18T08:00:00Z".to_owned())]);
        written.metadata.annotations = Some(used);
        let found = read(written).unwrap();
        assert_eq!(found.key, stored("one"));
        assert_eq!(found.last_used, Some("2026-11-18T08:00:00Z".parse().unwrap()));
    }

    #[test]
    fn a_key_is_chosen_by_its_id_or_by_a_beginning_that_no_other_has() {
        let of = |id: &str| choose(found(&["ab", "abc", "x"]), id).map(|found| found.key.meta.id);
        assert_eq!(of("ab"), Ok("ab".to_owned()));
        assert_eq!(of("abc"), Ok("abc".to_owned()));
        assert_eq!(of("x"), Ok("x".to_owned()));
        assert_eq!(of("a"), Err(Choice::Several(2)));
        assert_eq!(of("y"), Err(Choice::None));
        assert_eq!(of(""), Err(Choice::Several(3)));
        assert!(matches!(choose(found(&["x"]), ""), Err(Choice::Several(1))));
    }
}
