//! Certificates, keys and authorities in PEM files. Every error begins with the file's name.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The certificates of a file; there is at least one.
///
/// # Errors
/// A file that cannot be read, or has none.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let content = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&content).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => Err(format!("{}: expected certificates in PEM", file.display())),
    }
}

/// The first private key of a file.
///
/// # Errors
/// A file that cannot be read, or has none.
pub fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(&read(file)?)
        .map_err(|_| format!("{}: expected a private key in PEM, without a passphrase", file.display()))
}

/// The authorities of a file; there is at least one.
///
/// # Errors
/// A file that cannot be read, or a certificate in it that cannot be an authority's.
pub fn authorities(file: &Path) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(Arc::new(roots))
}
