//! Certificates, keys and authorities in PEM files. Every error begins with the file's name.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::credential::{CredentialError, read};

/// The certificates of a file; there is at least one.
///
/// # Errors
/// A file that cannot be read, or has none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialError> {
    let content = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(CredentialError::content(file, "certificates in PEM")),
    }
}

/// The first private key of a file.
///
/// # Errors
/// A file that cannot be read, or has none.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, CredentialError> {
    PrivateKeyDer::from_pem_slice(&read(file)?)
        .map_err(|_| CredentialError::content(file, "a private key in PEM, without a passphrase"))
}

/// The authorities of a file; there is at least one.
///
/// # Errors
/// A file that cannot be read, or a certificate in it that cannot be an authority's.
pub fn authorities(file: &Path) -> Result<Arc<RootCertStore>, CredentialError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| CredentialError::tls(file, &error))?;
    }
    Ok(Arc::new(roots))
}
