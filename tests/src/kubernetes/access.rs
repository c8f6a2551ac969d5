//! Who may do what: kubeconfigs, service accounts, tokens.

use std::fs;
use std::path::{Path, PathBuf};

use kube::Client;
use serde_json::{Value, json};

use super::apply::apply;
use super::server::ApiServer;

/// A kubeconfig as JSON, which is YAML too. `user` is what stands under `user:`.
pub(super) fn kubeconfig(url: &str, authority: Option<&Path>, user: &Value) -> Value {
    let mut cluster = json!({ "server": url });
    if let Some(authority) = authority {
        cluster["certificate-authority"] = json!(authority);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": cluster }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
        "current-context": "test",
    })
}

impl ApiServer {
    /// A kubeconfig with the administrator's token.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig(self.admin_token())
    }

    /// A kubeconfig with this token in it.
    pub fn kubeconfig(&self, token: &str) -> PathBuf {
        self.write_kubeconfig(&self.url(), &json!({ "token": token }))
    }

    /// A kubeconfig that names a file with the token, so that the token can be rotated.
    pub fn kubeconfig_with_token_file(&self, token_file: &Path) -> PathBuf {
        self.write_kubeconfig(&self.url(), &json!({ "tokenFile": token_file }))
    }

    /// A new file with a token in it, beside the server's other files.
    pub fn token_file(&self, token: &str) -> PathBuf {
        let file = self.folder().join(self.unique("token"));
        fs::write(&file, token).expect("write the token");
        file
    }

    pub(super) fn write_kubeconfig(&self, url: &str, user: &Value) -> PathBuf {
        let authority = url.starts_with("https:").then(|| self.authority());
        let file = self.folder().join(self.unique("kubeconfig"));
        fs::write(&file, kubeconfig(url, authority.as_deref(), user).to_string())
            .expect("write a kubeconfig");
        file
    }

    /// Makes a service account. It has no right until a binding gives it some ([`ApiServer::apply`]).
    pub async fn service_account(&self, namespace: &str, name: &str) -> ServiceAccount {
        let metadata = json!({ "namespace": namespace, "name": name });
        apply(&self.client(), &json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }))
            .await;
        ServiceAccount { client: self.client(), namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// A service account.
///
/// # Tokens
/// A real server gives none that lives shorter than ten minutes. What ends one earlier is the end of the
/// object it is bound to: [`ServiceAccount::token_bound_to`] with [`ServiceAccount::revoke`]. The server
/// remembers a token it has found good for ten seconds, so wait for the refusal with `eventually`. A request
/// that is already answered, such as a watch, goes on until it is cut.
#[derive(Clone)]
pub struct ServiceAccount {
    client: Client,
    namespace: String,
    name: String,
}

impl ServiceAccount {
    /// Who the server says this is.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// A token that lives for the least time a server gives.
    pub async fn token(&self) -> String {
        self.request(&json!({ "expirationSeconds": 600 })).await
    }

    /// A token for another audience than the API server itself.
    pub async fn token_for(&self, audience: &str) -> String {
        self.request(&json!({ "expirationSeconds": 600, "audiences": [audience] })).await
    }

    /// A token that dies with a secret made for it, whose name is `lease`.
    pub async fn token_bound_to(&self, lease: &str) -> String {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "namespace": self.namespace, "name": lease },
        });
        apply(&self.client, &secret).await;
        self.request(&json!({
            "expirationSeconds": 600,
            "boundObjectRef": { "apiVersion": "v1", "kind": "Secret", "name": lease },
        }))
        .await
    }

    /// Ends the token that is bound to `lease`.
    pub async fn revoke(&self, lease: &str) {
        let path = format!("/api/v1/namespaces/{}/secrets/{lease}", self.namespace);
        let request = http::Request::delete(path).body(Vec::new()).expect("a request");
        let _gone: Value = self.client.request(request).await.expect("delete the secret");
    }

    async fn request(&self, spec: &Value) -> String {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts/{}/token", self.namespace, self.name);
        let body = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .expect("a request");
        let answer: Value = self.client.request(request).await.expect("a token");
        answer["status"]["token"].as_str().expect("a token").to_owned()
    }
}
