//! The whole life of sandboxes with the published SDKs and a control plane.

use std::path::Path;

use serde_json::Value;
use tokio::process::Command;

use super::{E2bSdk, folder, run, said};

/// A published SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// Python, at the version of `tests/e2b/requirements.txt`.
    Python,
    /// Python 2.8.1, which asks for the older paths.
    Python281,
    /// JavaScript, at the version of `tests/e2b/js/package.json`.
    JavaScript,
}

/// Where an SDK finds the API and the sandboxes.
#[derive(Clone, Copy, Debug)]
pub enum Where<'a> {
    /// At two URLs, in plain HTTP.
    Urls {
        /// Of the API.
        api: &'a str,
        /// Of the gateway.
        sandboxes: &'a str,
    },
    /// Under a domain (`DOMAIN[:PORT]`), over TLS, with certificates of the authority in this file.
    Domain(&'a str, &'a Path),
}

impl E2bSdk {
    /// Lives from create to kill, and makes the usual mistakes: what came of each call.
    pub async fn live(edition: Edition, place: Where<'_>, keys: [&str; 2], template: &str) -> Value {
        let mut life = edition.script("life").await;
        life.args([template, keys[1]]);
        said(place.tell(life, keys[0])).await
    }

    /// Lets the timeouts of two sandboxes pass: what came of each call. It needs some seconds.
    pub async fn outlive(place: Where<'_>, key: &str, template: &str) -> Value {
        let mut timeouts = Edition::Python.script("timeouts").await;
        timeouts.arg(template);
        said(place.tell(timeouts, key)).await
    }
}

impl Where<'_> {
    /// Tells a program of the SDK, in its environment.
    fn tell(self, mut program: Command, key: &str) -> Command {
        program.env("E2B_API_KEY", key);
        match self {
            Where::Urls { api, sandboxes } => {
                program.env("E2B_API_URL", api).env("E2B_SANDBOX_URL", sandboxes).env_remove("E2B_DOMAIN");
            }
            Where::Domain(domain, authority) => {
                program.env("E2B_DOMAIN", domain).env_remove("E2B_API_URL").env_remove("E2B_SANDBOX_URL");
                program.env("SSL_CERT_FILE", authority).env_remove("SSL_CERT_DIR");
                program.env("NODE_EXTRA_CA_CERTS", authority);
            }
        }
        // A proxy of this machine would resolve the names in the SDK's place.
        for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
            program.env_remove(name);
        }
        program
    }
}

impl Edition {
    pub(super) async fn script(self, name: &str) -> Command {
        let mut install = Command::new(match self {
            Self::JavaScript => folder().join("js/install"),
            Self::Python | Self::Python281 => folder().join("install"),
        });
        if self == Self::Python281 {
            install.arg("2.8.1");
        }
        let packages = run(install).await;
        let mut command = Command::new(if self == Self::JavaScript { "node" } else { "python3" });
        match self {
            Self::JavaScript => {
                command.arg(folder().join("js").join(format!("{name}.cjs"))).env("NODE_PATH", packages.trim())
            }
            Self::Python | Self::Python281 => command
                .arg(folder().join(format!("{name}.py")))
                .env("PYTHONPATH", packages.trim())
                .env("PYTHONDONTWRITEBYTECODE", "1"),
        };
        command
    }
}
