//! The server's TLS.
//!
//! Where an authority is given, the server asks for a client certificate and goes on without one: probes have
//! none, and other methods may authenticate the request. A certificate that is presented must be good, or the
//! handshake fails.

use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use webpki::EndEntityCert;

use super::settings::TlsFiles;
use crate::credential::CredentialError;
use crate::pem::{authorities, certificates, private_key};
use crate::tls::{ALPN, provider};

/// Reads the files.
pub(crate) fn server_config(files: &TlsFiles) -> Result<ServerConfig, CredentialError> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialError::tls(&files.certificate, &error))?;
    let builder = match &files.client_ca {
        Some(file) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(file)?, provider())
                .allow_unauthenticated()
                .build()
                .map_err(|error| CredentialError::tls(file, &error))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|error| CredentialError::tls(&files.certificate, &error))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Whether a client's certificate, which its authority has signed, is for one of these names. No names allow
/// any. Names are compared exactly: a wildcard names servers that a certificate is good for, and identifies
/// no client.
pub(crate) fn is_named(certificate: &CertificateDer<'_>, names: &[ServerName<'static>]) -> bool {
    if names.is_empty() {
        return true;
    }
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return false };
    let is_written = |name: &ServerName<'_>| match name {
        ServerName::DnsName(name) => {
            certificate.valid_dns_names().any(|written| written.eq_ignore_ascii_case(name.as_ref()))
        }
        // An address has no wildcards.
        _ => true,
    };
    names.iter().any(|name| is_written(name) && certificate.verify_is_valid_for_subject_name(name).is_ok())
}
