//! Questions to an API server about what a gateway needs of it, by the gateway's own client: same config, same
//! credentials, same rate. Nothing is changed: a review is a question that the server stores nowhere.

use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use sandgate_follow::Access;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;
use tokio::time::timeout;

use super::client::Api;
use super::error::{Failure, shorten};
use super::head::category;
use super::provider::Resource;
use super::timing::Timing;
use crate::settings::KubernetesSettings;

/// The most that is read of an answer. Discovery of one group is a few KiB.
const MAX_ANSWER: usize = 4 << 20;

/// Asks an API server.
pub struct Probe {
    access: Access,
    api: Arc<Api>,
}

/// Why there was no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ProbeError {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// What happened, in words. Contains no credential.
    pub text: String,
}

/// What kind of trouble a question met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No client could be made: kubeconfig, certificates, credential plugin.
    Config,
    /// The server cannot be reached, or does not answer.
    Unreachable,
    /// The server's certificate is not one that the config trusts.
    Certificate,
    /// The server does not accept the credentials (401).
    Credentials,
    /// The server knows us and refuses (403).
    Forbidden,
    /// The server does not know what was asked for (404).
    Absent,
    /// The server asks to come back later (429, 503).
    Busy,
    /// Anything else.
    Other,
}

/// Whether something is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// It is.
    pub allowed: bool,
    /// What the server says about it, if anything.
    pub reason: String,
}

impl From<Failure> for ProbeError {
    fn from(failure: Failure) -> Self {
        let trouble = match &failure {
            Failure::Access(_) => Trouble::Config,
            Failure::Connection(text) if text.contains("certificate") => Trouble::Certificate,
            Failure::Connection(_) | Failure::Silent(_) | Failure::Cut => Trouble::Unreachable,
            Failure::Refused { code: 401, .. } => Trouble::Credentials,
            Failure::Refused { code: 403, .. } => Trouble::Forbidden,
            Failure::Refused { code: 404, .. } => Trouble::Absent,
            Failure::Refused { code: 429 | 503, .. } => Trouble::Busy,
            _ => Trouble::Other,
        };
        ProbeError { trouble, text: failure.to_string() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerVersion {
    git_version: String,
}

#[derive(Deserialize)]
struct UserReview {
    status: UserStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserStatus {
    user_info: UserInfo,
}

#[derive(Deserialize)]
struct UserInfo {
    username: String,
}

#[derive(Deserialize)]
struct AccessReview {
    status: AccessStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccessStatus {
    allowed: bool,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    evaluation_error: String,
}

/// `/apis/GROUP`, and `/api`, whose versions are plain texts.
#[derive(Deserialize)]
struct Group {
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum GroupVersion {
    Named { version: String },
    Plain(String),
}

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ServedResource>,
}

#[derive(Deserialize)]
struct ServedResource {
    name: String,
}

impl Probe {
    /// Nothing is read or asked yet. An answer may take as long as `wait`.
    pub fn new(settings: &KubernetesSettings, wait: Duration) -> Self {
        let access = settings.access();
        let timing = Timing { response: wait, list_silence: wait, ..Timing::default() };
        Probe { api: Api::new(access.clone(), timing), access }
    }

    /// Where the API server is, by the config that a gateway would use.
    ///
    /// # Errors
    /// Where there is no such config.
    pub async fn server(&self) -> Result<String, ProbeError> {
        let config = self.access.config().await.map_err(Failure::from)?;
        Ok(config.cluster_url.to_string().trim_end_matches('/').to_owned())
    }

    /// The API server's version, as in `v1.34.1`.
    ///
    /// # Errors
    /// Here and below: where there is no answer that can be read. Asking again may help.
    pub async fn version(&self) -> Result<String, ProbeError> {
        let version: ServerVersion = self.get("/version").await?;
        Ok(shorten(&version.git_version))
    }

    /// Who the API server takes us for.
    pub async fn user(&self) -> Result<String, ProbeError> {
        let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
        let review: UserReview =
            self.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &review).await?;
        Ok(shorten(&review.status.user_info.username))
    }

    /// Whether we may do this with all objects of a resource, in one namespace or in all.
    pub async fn may(
        &self,
        verb: &str,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Right, ProbeError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "verb": verb,
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "namespace": namespace.unwrap_or_default(),
            }},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let AccessReview { status } = self.post(path, &review).await?;
        let reason = if status.reason.is_empty() { &status.evaluation_error } else { &status.reason };
        Ok(Right { allowed: status.allowed, reason: shorten(reason) })
    }

    /// The versions of its group in which a resource is served; none where the API server does not know it.
    pub async fn served_versions(&self, resource: &Resource) -> Result<Vec<String>, ProbeError> {
        let root = match &*resource.group {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        let group: Group = match self.get(&root).await {
            Err(ProbeError { trouble: Trouble::Absent, .. }) => return Ok(Vec::new()),
            group => group?,
        };
        let mut served = Vec::new();
        for version in group.versions {
            let (GroupVersion::Named { version } | GroupVersion::Plain(version)) = version;
            let list: ResourceList = match self.get(&format!("{root}/{version}")).await {
                // Taken away since the question before.
                Err(ProbeError { trouble: Trouble::Absent, .. }) => continue,
                list => list?,
            };
            if list.resources.iter().any(|found| found.name == resource.plural) {
                served.push(shorten(&version));
            }
        }
        Ok(served)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ProbeError> {
        self.read(path, self.api.get(path).await?.body).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &serde_json::Value) -> Result<T, ProbeError> {
        self.read(path, self.api.post(path, body.to_string().into_bytes()).await?.body).await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str, body: kube::client::Body) -> Result<T, ProbeError> {
        let wait = self.api.timing.response;
        let body = timeout(wait, Limited::new(body, MAX_ANSWER).collect()).await;
        let body = body.map_err(|_| Failure::Silent(wait))?.map_err(|error| Failure::broken(&*error))?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| {
            let text = format!("the answer to {path} is {}", category(&error));
            ProbeError { trouble: Trouble::Other, text }
        })
    }
}
