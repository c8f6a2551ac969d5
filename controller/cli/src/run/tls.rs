//! TLS at the door: the `tls` section in Envoy's config, and what keeps it fresh while Envoy runs.
//!
//! Envoy takes a certificate that changes only by SDS, here from a file for each secret, which names the PEM
//! files. By itself it would read these again when something is renamed into their folder: not when one is
//! overwritten, nor when a link is replaced as certbot does it. So its watch is on a folder of ours
//! (`watched_directory`), one for each secret:
//!
//! 1. We look at the PEM files once a second ([`reload`]).
//! 2. When they have changed and are good, we rename a file within the folder of that secret.
//! 3. Envoy reads the PEM files of that secret. Connections that are open go on; new ones get the new
//!    certificate.
//!
//! A pair that is not good is not shown to Envoy, and would change nothing if it were: the last good one
//! serves. The folders are apart because one bad secret that Envoy has read keeps all others of the listener
//! from changing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sandgate_peering::pem;
use serde_json::{Value, json};

use super::RunError;
use super::render::{add, text};
use crate::config::{Certificate, Config, Tls, Version};
use crate::failure::{Failure, usage};

mod files;
mod reload;
#[cfg(test)]
mod tests;

pub(super) use reload::Reload;

/// Where `--print-config` is to write the secrets, in the environment: so asks a gateway for the config of
/// its next Envoy.
pub(super) const SECRETS: &str = "SANDGATE_SECRETS_FOLDER";
/// The section as it was when the secrets were written, in their folder.
const SECTION: &str = "section.json";

const CHAIN: &str = "/static_resources/listeners/0/filter_chains/0";
const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const CONTEXT: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext";
/// How long a handshake may take.
const HANDSHAKE: &str = "10s";

/// Looks at every file of the section. A bad one is a mistake; what a person should know all the same is
/// returned.
pub(crate) fn check(config: &Config) -> Result<Vec<String>, Failure> {
    let Some(tls) = &config.tls else { return Ok(Vec::new()) };
    let mut warnings = Vec::new();
    let mut pairs = Vec::new();
    for (index, certificate) in tls.certificates.iter().enumerate() {
        let place = |key: &str| config.place(&format!("tls.certificates[{index}].{key}"));
        let pair =
            files::pair(certificate).map_err(|wrong| usage!("{}: {}", place(wrong.key), wrong.reason))?;
        warnings.extend(pair.out_of_date().map(|word| format!("{}: {word}", place("certificate"))));
        pairs.push(pair);
    }
    if let Some(file) = &tls.client_ca {
        pem::authorities(file).map_err(|reason| usage!("{}: {reason}", config.place("tls.client-ca")))?;
    }
    for domain in config.domains() {
        if !pairs.iter().any(|pair| pair.is_for(&format!("*.{domain}"))) {
            warnings.push(format!(
                "{}: no certificate is for *.{domain}, the hosts of its sandboxes",
                config.place("filter.domains")
            ));
        }
    }
    Ok(warnings)
}

/// The section as a part of Envoy's config.
pub(super) struct Door<'a> {
    pub(super) tls: &'a Tls,
    /// The folder of the secrets' files. Without one the PEM files are named in the listener itself, and read
    /// once.
    pub(super) secrets: Option<&'a Path>,
}

impl Door<'_> {
    /// Puts TLS under the listener's filters. These stay as they are: a connection is counted against its
    /// address before its handshake begins.
    pub(super) fn put(&self, config: &mut Value) -> Result<(), RunError> {
        let socket = json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": CONTEXT,
                "common_tls_context": self.context()?,
                "require_client_certificate": self.tls.client_ca.is_some(),
            },
        });
        add(config, CHAIN, "transport_socket", socket)?;
        add(config, CHAIN, "transport_socket_connect_timeout", HANDSHAKE.into())?;
        // Envoy takes no secret from anywhere, a file included, before it has a name.
        add(config, "", "node", json!({ "id": "sandgate", "cluster": "sandgate" }))
    }

    fn context(&self) -> Result<Value, RunError> {
        let oldest = match self.tls.min_version {
            Version::V1_2 => "TLSv1_2",
            Version::V1_3 => "TLSv1_3",
        };
        let mut context = json!({
            "alpn_protocols": ["h2", "http/1.1"],
            "tls_params": { "tls_minimum_protocol_version": oldest },
        });
        let Some(folder) = self.secrets else {
            let pairs: Result<Vec<Value>, RunError> = self.tls.certificates.iter().map(certificate).collect();
            context["tls_certificates"] = pairs?.into();
            if let Some(file) = &self.tls.client_ca {
                context["validation_context"] = json!({ "trusted_ca": { "filename": text(file)? } });
            }
            return Ok(context);
        };
        let by_sds = |name: &str| -> Result<Value, RunError> {
            let file = secret_file(folder, name);
            let source =
                json!({ "path_config_source": { "path": text(&file)? }, "resource_api_version": "V3" });
            Ok(json!({ "name": name, "sds_config": source }))
        };
        let pairs = (0..self.tls.certificates.len()).map(|index| by_sds(&name(index)));
        context["tls_certificate_sds_secret_configs"] = pairs.collect::<Result<_, _>>()?;
        if self.tls.client_ca.is_some() {
            context["validation_context_sds_secret_config"] = by_sds(CLIENT_CA)?;
        }
        Ok(context)
    }
}

const CLIENT_CA: &str = "client-ca";

fn name(index: usize) -> String {
    format!("certificate-{index}")
}

fn secret_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.json"))
}

/// The folder in which a rename makes Envoy read this secret's PEM files again.
fn bell(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

fn certificate(files: &Certificate) -> Result<Value, RunError> {
    Ok(json!({
        "certificate_chain": { "filename": text(&files.certificate)? },
        "private_key": { "filename": text(&files.key)? },
    }))
}

/// Writes the secrets' files for Envoy. They name the PEM files; no key is copied.
pub(super) fn write_secrets(folder: &Path, tls: &Tls) -> Result<(), RunError> {
    let write = |name: &str, key: &str, mut secret: Value| -> Result<(), RunError> {
        let bell = bell(folder, name);
        secret["watched_directory"] = json!({ "path": text(&bell)? });
        let secret = json!({ "@type": SECRET, "name": name, key: secret });
        let file = secret_file(folder, name);
        let wrote = fs::create_dir_all(&bell)
            .and_then(|()| fs::write(&file, json!({ "resources": [secret] }).to_string()));
        wrote.map_err(RunError::write(&file))
    };
    for (index, files) in tls.certificates.iter().enumerate() {
        write(&name(index), "tls_certificate", certificate(files)?)?;
    }
    if let Some(file) = &tls.client_ca {
        write(CLIENT_CA, "validation_context", json!({ "trusted_ca": { "filename": text(file)? } }))?;
    }
    let file = folder.join(SECTION);
    let section = serde_json::to_string(tls).map_err(io::Error::from);
    section.and_then(|section| fs::write(&file, section)).map_err(RunError::write(&file))
}
