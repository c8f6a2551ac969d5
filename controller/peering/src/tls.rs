//! TLS of both sides: rustls on ring, HTTP/1.1 only.
//!
//! The server asks for a client certificate where an authority is given, and goes on without one: probes have none, and
//! what a request without one may do is the request's business. A certificate that is presented must be good, or the
//! handshake fails.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig};
use webpki::EndEntityCert;

use crate::pem::{authorities, certificates, private_key};
#[cfg(feature = "receive")]
use crate::receive::TlsFiles;

const ALPN: &[u8] = b"http/1.1";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What the receiver serves with.
pub(crate) fn server_config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        Some(file) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities(file)?, provider())
                .allow_unauthenticated()
                .build()
                .map_err(|error| format!("{}: {error}", file.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
        None => builder.with_no_client_auth(),
    };
    let mut config = builder
        .with_single_cert(certificates(&files.certificate)?, private_key(&files.key)?)
        .map_err(|error| format!("{}: {error}", files.certificate.display()))?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}

/// Whether a client's certificate, which its authority has vouched for, is for one of these names; no names are any.
/// Names are exact: a wildcard says which servers a certificate may stand for, and not who a client is.
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

/// What the sender connects with: an authority for the peers, and perhaps a certificate of its own.
pub(crate) fn client_config(ca: &Path, identity: Option<(&Path, &Path)>) -> Result<ClientConfig, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(authorities(ca)?, provider())
        .build()
        .map_err(|error| format!("{}: {error}", ca.display()))?;
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_webpki_verifier(verifier);
    let mut config = match identity {
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| format!("{}: {error}", certificate.display()))?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(config)
}
