//! The client's TLS.

use std::path::Path;

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;

use crate::credential::CredentialError;
use crate::pem::{authorities, certificates, private_key};
use crate::tls::{ALPN, provider};

/// Reads the authorities of the peers, and the certificate and key of the sender, if it has one.
pub(crate) fn client_config(
    ca: &Path,
    identity: Option<(&Path, &Path)>,
) -> Result<ClientConfig, CredentialError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(authorities(ca)?, provider())
        .build()
        .map_err(|error| CredentialError::tls(ca, &error))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialError::tls(ca, &error))?
        .with_webpki_verifier(verifier);
    let mut config = match identity {
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| CredentialError::tls(certificate, &error))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}
