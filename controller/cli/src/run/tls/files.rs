//! Certificates and their keys as they are on disk now.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{Error, InconsistentKeys, ServerConfig};
use sandgate_peering::CredentialError;
use sandgate_peering::pem::{certificates, private_key};
use webpki::{EndEntityCert, KeyUsage};

use crate::config::Certificate;

/// What is wrong with a file of the section, and which key names the file. A retry helps once the file has
/// changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Wrong {
    pub(super) key: &'static str,
    pub(super) reason: String,
}

/// A certificate whose key is there.
#[derive(Debug)]
pub(super) struct Pair {
    certificate: CertificateDer<'static>,
    file: String,
}

/// Reads a certificate and its key, and looks whether they belong together and are for the names that were
/// promised.
pub(super) fn pair(files: &Certificate) -> Result<Pair, Wrong> {
    let wrong = |key: &'static str| move |error: CredentialError| Wrong { key, reason: error.to_string() };
    let chain = certificates(&files.certificate).map_err(wrong("certificate"))?;
    let key = private_key(&files.key).map_err(wrong("key"))?;
    let file = files.certificate.display().to_string();
    let pair = match chain.first() {
        Some(certificate) => Pair { certificate: certificate.clone(), file },
        None => return Err(Wrong { key: "certificate", reason: format!("{file}: no certificate") }),
    };
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(|error| Wrong { key: "certificate", reason: error.to_string() })?;
    if let Err(error) = builder.with_no_client_auth().with_single_cert(chain, key) {
        let key_file = files.key.display();
        return Err(match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Wrong {
                key: "key",
                reason: format!("{key_file}: not the key of the first certificate in {}", pair.file),
            },
            Error::General(reason) => Wrong { key: "key", reason: format!("{key_file}: {reason}") },
            other => Wrong { key: "certificate", reason: format!("{}: {other}", pair.file) },
        });
    }
    if let Some(domain) = files.domains.iter().find(|domain| !pair.is_for(domain)) {
        let reason = format!("{} is not for {domain}, but for {}", pair.file, pair.names());
        return Err(Wrong { key: "domains", reason });
    }
    Ok(pair)
}

impl Pair {
    fn parsed(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(&self.certificate).ok()
    }

    /// Whether it is good for a name, or for every name one label below it.
    pub(super) fn is_for(&self, domain: &str) -> bool {
        // A name that nobody has written into a certificate as such.
        let name =
            domain.strip_prefix("*.").map_or_else(|| domain.to_owned(), |base| format!("0-any-0.{base}"));
        let Ok(name) = ServerName::try_from(name) else { return false };
        self.parsed().is_some_and(|parsed| parsed.verify_is_valid_for_subject_name(&name).is_ok())
    }

    fn names(&self) -> String {
        let parsed = self.parsed();
        let names: Vec<&str> = parsed.iter().flat_map(|parsed| parsed.valid_dns_names()).collect();
        if names.is_empty() { "no name".to_owned() } else { names.join(", ") }
    }

    /// What the checker says of the certificate at a time. There is no authority to ask, so it is never all
    /// good.
    fn at(&self, time: u64) -> Option<webpki::Error> {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(time));
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        let usage = KeyUsage::server_auth();
        self.parsed()?.verify_for_usage(algorithms, &[], &[], time, usage, None, None).err()
    }

    /// What is wrong with its dates now.
    pub(super) fn out_of_date(&self) -> Option<String> {
        match self.at(UnixTime::now().as_secs())? {
            webpki::Error::CertExpired { not_after, .. } => {
                Some(format!("{}: expired on {}: clients will refuse it", self.file, date(not_after)))
            }
            webpki::Error::CertNotValidYet { not_before, .. } => {
                Some(format!("{}: not valid before {}: clients will refuse it", self.file, date(not_before)))
            }
            _ => None,
        }
    }

    /// One line for a person.
    pub(super) fn shown(&self) -> String {
        // The end of year 9999 is the last date that a certificate can have.
        let until = match self.at(253_402_300_800) {
            Some(webpki::Error::CertExpired { not_after, .. }) => format!(", until {}", date(not_after)),
            _ => String::new(),
        };
        format!("{}: for {}{until}", self.file, self.names())
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map_or_else(|_| "?".to_owned(), |time| time.to_string())
}
