//! Asks an API server for what a gateway needs of it, with the gateway's own client: same config, same
//! credentials, same rate. Nothing is changed: the server does not store a review.

use std::sync::Arc;
use std::time::Duration;

use sandgate_follow::{Access, Api, Failure, Timing, shorten};
use serde_json::{Value, json};

use crate::settings::KubernetesSettings;
use sandgate_objects::Resource;

/// Asks an API server.
pub struct Probe {
    access: Access,
    api: Arc<Api>,
}

/// Why there was no answer. A retry may help with every kind but `Config`, which needs other files.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct ProbeError {
    /// What kind of trouble it is.
    pub trouble: Trouble,
    /// What happened. Contains no credential.
    pub text: String,
}

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No client could be made: kubeconfig, certificates, credential plugin.
    Config,
    /// The server cannot be reached, or does not answer.
    Unreachable,
    /// The config does not trust the server's certificate.
    Certificate,
    /// The server does not accept the credentials (401).
    Credentials,
    /// The server accepts the credentials and refuses the request (403).
    Forbidden,
    /// The server does not know the resource (404).
    Absent,
    /// The server asks for a retry later (429, 503).
    Busy,
    /// Anything else.
    Other,
}

/// Whether something is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// It is.
    pub allowed: bool,
    /// The reason that the server gives, if any.
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

impl Probe {
    /// Nothing is read or requested yet. An answer may take as long as `wait`.
    pub fn new(settings: &KubernetesSettings, wait: Duration) -> Self {
        let access = settings.access();
        let timing = Timing { response: wait, list_silence: wait, ..Timing::default() };
        Probe { api: Api::new(access.clone(), timing), access }
    }

    /// The URL of the API server, from the config that a gateway would use.
    ///
    /// # Errors
    /// If there is no such config.
    pub async fn server(&self) -> Result<String, ProbeError> {
        let config = self.access.config().await.map_err(Failure::from)?;
        Ok(config.cluster_url.to_string().trim_end_matches('/').to_owned())
    }

    /// The API server's version, as in `v1.34.1`.
    ///
    /// # Errors
    /// Here and below: if there is no answer, or none that can be read. A retry may help.
    pub async fn version(&self) -> Result<String, ProbeError> {
        let path = "/version";
        text(path, &self.get(path).await?["gitVersion"])
    }

    /// The user that the API server sees in our credentials.
    pub async fn user(&self) -> Result<String, ProbeError> {
        let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        text(path, &self.post(path, &review).await?["status"]["userInfo"]["username"])
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
        let status = &self.post(path, &review).await?["status"];
        let allowed = status["allowed"].as_bool().ok_or_else(|| unexpected(path))?;
        let reasons = ["reason", "evaluationError"].map(|key| status[key].as_str().unwrap_or_default());
        let reason = reasons.into_iter().find(|reason| !reason.is_empty()).unwrap_or_default();
        Ok(Right { allowed, reason: shorten(reason) })
    }

    /// The versions of its group in which a resource is served; none where the API server does not know it.
    pub async fn served_versions(&self, resource: &Resource) -> Result<Vec<String>, ProbeError> {
        let root = match &*resource.group {
            "" => "/api".to_owned(),
            group => format!("/apis/{group}"),
        };
        let group = match self.get(&root).await {
            Err(ProbeError { trouble: Trouble::Absent, .. }) => return Ok(Vec::new()),
            group => group?,
        };
        let mut served = Vec::new();
        for version in group["versions"].as_array().ok_or_else(|| unexpected(&root))? {
            // A group has objects here, and `/api` has plain texts.
            let version = text(&root, version.get("version").unwrap_or(version))?;
            let list = match self.get(&format!("{root}/{version}")).await {
                // Removed since the group was read.
                Err(ProbeError { trouble: Trouble::Absent, .. }) => continue,
                list => list?,
            };
            if list["resources"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|found| found["name"] == *resource.plural)
            {
                served.push(version);
            }
        }
        Ok(served)
    }

    async fn get(&self, path: &str) -> Result<Value, ProbeError> {
        serde_json::from_slice(&self.api.get(path).await?).map_err(|_| unexpected(path))
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, ProbeError> {
        let answer = self.api.post(path, body.to_string().into_bytes()).await?;
        serde_json::from_slice(&answer).map_err(|_| unexpected(path))
    }
}

/// A text in the answer to a request for `path`.
fn text(path: &str, value: &Value) -> Result<String, ProbeError> {
    value.as_str().map(shorten).ok_or_else(|| unexpected(path))
}

fn unexpected(path: &str) -> ProbeError {
    ProbeError { trouble: Trouble::Other, text: format!("the answer to {path} is not of the expected shape") }
}
