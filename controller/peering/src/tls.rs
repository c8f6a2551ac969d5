//! TLS of both sides: rustls on ring, HTTP/1.1 only.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};

use crate::credential::CredentialError;
use crate::pem::{certificates, private_key};
use crate::reload::{PERIOD, Reloaded};

pub(crate) const ALPN: &[u8] = b"http/1.1";

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The TLS of a server that asks for no client certificate, from files that are followed when they are
/// replaced.
pub struct ServerTls {
    config: Reloaded<ServerConfig>,
}

impl ServerTls {
    /// How often to [`reload`](Self::reload).
    pub const PERIOD: std::time::Duration = PERIOD;

    /// Reads the files: a certificate with what leads to its authority, and its key, both PEM.
    ///
    /// # Errors
    /// A file that is missing or wrong.
    pub fn read(certificate: PathBuf, key: PathBuf) -> Result<Self, CredentialError> {
        let paths = vec![certificate.clone(), key.clone()];
        Ok(Self { config: Reloaded::new(paths, move || server_config(&certificate, &key))? })
    }

    /// What new connections are accepted with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.config.get()
    }

    /// Reads the files again if they have changed; what is wrong leaves the old ones in use. May block.
    pub fn reload(&self) -> Option<Result<(), CredentialError>> {
        self.config.reload()
    }
}

fn server_config(certificate: &Path, key: &Path) -> Result<ServerConfig, CredentialError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialError::tls(certificate, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, private_key(key)?)
        .map_err(|error| CredentialError::tls(certificate, &error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(vec!["api.example".to_owned()]).unwrap();
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        (certificate, key)
    }

    #[test]
    fn a_certificate_that_is_replaced_is_used_from_then_on_and_a_wrong_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path());
        let tls = ServerTls::read(certificate.clone(), key).unwrap();
        let first = tls.config();
        assert!(tls.reload().is_none());
        std::fs::write(&certificate, "no certificate").unwrap();
        let error = tls.reload().unwrap().unwrap_err().to_string();
        assert!(error.ends_with("tls.crt: expected certificates in PEM"), "{error}");
        assert!(Arc::ptr_eq(&first, &tls.config()));
        write(folder.path());
        tls.reload().unwrap().unwrap();
        assert!(!Arc::ptr_eq(&first, &tls.config()));
    }
}
