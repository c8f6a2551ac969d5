//! Certificates for sandboxes that speak TLS, for the gateway in front of them, and for its clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// A certificate and its key.
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: String,
    /// The key, PEM.
    pub key: String,
    /// The certificate as a client sees it.
    pub der: Vec<u8>,
}

/// An authority of one scenario, with its files in a folder.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: PathBuf,
}

impl Authority {
    /// Makes one, and writes `ca.pem`.
    pub fn new(folder: &Path) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        // A name of its own: of two authorities with one name, whoever checks a certificate may try the wrong
        // one.
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        params.distinguished_name.push(DnType::CommonName, format!("the authority of {name}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        std::fs::write(folder.join("ca.pem"), issuer.pem()).expect("write the authority");
        Self { issuer, folder: folder.to_owned() }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    /// The authority's certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A certificate and its key as files, for a client of this name.
    pub fn client(&self, name: &str) -> (PathBuf, PathBuf) {
        let (certificate, key) = self.issue(name);
        let files = (self.folder.join(format!("{name}.pem")), self.folder.join(format!("{name}.key")));
        std::fs::write(&files.0, certificate.pem()).expect("write the certificate");
        std::fs::write(&files.1, key.serialize_pem()).expect("write the key");
        files
    }

    /// A certificate for these names, which may have a wildcard, and its key, both in PEM.
    pub fn pair(&self, names: &[&str]) -> Pair {
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("names");
        params.distinguished_name.push(DnType::CommonName, names.concat());
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem(), der: certificate.der().to_vec() }
    }

    /// What a server of this name needs; with `mutual` it takes only clients of this authority.
    pub fn server(&self, name: &str, mutual: bool) -> TlsAcceptor {
        let (certificate, key) = self.issue(name);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("TLS versions");
        let builder = if mutual {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).expect("an authority");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        } else {
            builder.with_no_client_auth()
        };
        let config = builder.with_single_cert(vec![certificate.der().clone()], key).expect("a server");
        TlsAcceptor::from(Arc::new(config))
    }
}
