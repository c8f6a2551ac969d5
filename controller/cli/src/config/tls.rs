//! The `tls` section: what the gateway shows its clients, and what it asks of them.
//!
//! Here is only what the section says. Whether the files are good is for `run::tls`, because
//! `sandgate explain` also runs where they are not.

use std::path::PathBuf;

use sandgate_config::{ConfigError, given, objects};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

#[cfg(test)]
mod tests;

const MAX_CERTIFICATES: usize = 64;
const MAX_DOMAINS: usize = 64;
/// A name of DNS, or all names one label below it.
const DOMAIN: &str =
    r"^(\*\.)?([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$";
const MAX_DOMAIN: usize = 253;

/// The checked section. It is written as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Tls {
    /// At least one. The first is also shown to clients that ask for a name which no certificate has.
    pub(crate) certificates: Vec<Certificate>,
    /// Whose certificates clients must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<PathBuf>,
    pub(crate) min_version: Version,
}

/// A certificate and its key, both in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// In lower case.
    pub(crate) domains: Vec<String>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Version {
    #[default]
    #[serde(rename = "1.2")]
    V1_2,
    #[serde(rename = "1.3")]
    V1_3,
}

/// HTTPS at the gateway's door. With this section the port speaks TLS only: HTTP/2 and HTTP/1.1, as the
/// client likes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(rename = "Tls")]
struct RawTls {
    /// The certificates. A client is shown the first one that has the name it asks for (SNI), and the first
    /// of the list if none has it.
    #[schemars(length(min = 1, max = MAX_CERTIFICATES))]
    #[serde(deserialize_with = "objects")]
    certificates: Vec<RawCertificate>,
    /// The authorities of clients' certificates, PEM. With it a client without a certificate of theirs is
    /// refused in the handshake.
    #[serde(default, deserialize_with = "given")]
    #[schemars(with = "String", length(min = 1))]
    client_ca: Option<String>,
    /// The oldest version of TLS that is spoken.
    #[serde(default)]
    #[schemars(with = "Value", extend("enum" = ["1.2", "1.3", 1.2, 1.3]))]
    min_version: Version,
}

/// A certificate with its key. Both files are read again when they change; a pair that is not good changes
/// nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Certificate")]
struct RawCertificate {
    /// The certificate and the ones between it and its authority, PEM. Relative paths are relative to the
    /// working folder.
    #[schemars(length(min = 1))]
    certificate: String,
    /// Its key, PEM, without a passphrase.
    #[schemars(length(min = 1))]
    key: String,
    /// Names that the certificate must be good for, such as *.sandboxes.example.com. Left out: whatever it is
    /// for.
    #[serde(default)]
    #[schemars(length(max = MAX_DOMAINS), inner(length(max = MAX_DOMAIN), regex(pattern = DOMAIN)))]
    domains: Vec<String>,
}

impl Tls {
    /// Reads the section.
    pub(crate) fn parse(section: &Value) -> Result<Self, ConfigError> {
        Self::check(sandgate_config::parse(section.to_string().as_bytes())?)
    }

    fn check(raw: RawTls) -> Result<Self, ConfigError> {
        let count = raw.certificates.len();
        if !(1..=MAX_CERTIFICATES).contains(&count) {
            let reason = format!("expected 1 to {MAX_CERTIFICATES} certificates, found {count}");
            return Err(ConfigError::new("certificates", reason));
        }
        let mut certificates = Vec::new();
        for (index, raw) in raw.certificates.into_iter().enumerate() {
            let key = |name: &str| format!("certificates[{index}].{name}");
            if raw.domains.len() > MAX_DOMAINS {
                let reason = format!("expected at most {MAX_DOMAINS} names, found {}", raw.domains.len());
                return Err(ConfigError::new(key("domains"), reason));
            }
            if let Some(wrong) = raw.domains.iter().position(|domain| !is_domain(domain)) {
                let reason = "expected a name such as gateway.example.com or *.sandboxes.example.com";
                return Err(ConfigError::new(format!("{}[{wrong}]", key("domains")), reason));
            }
            certificates.push(Certificate {
                certificate: file(&key("certificate"), &raw.certificate)?,
                key: file(&key("key"), &raw.key)?,
                domains: raw.domains.into_iter().map(|domain| domain.to_ascii_lowercase()).collect(),
            });
        }
        let client_ca = raw.client_ca.map(|path| file("client-ca", &path)).transpose()?;
        Ok(Self { certificates, client_ca, min_version: raw.min_version })
    }

    /// The JSON schema of what [`Tls::parse`] accepts.
    #[cfg(test)]
    fn schema() -> Value {
        schemars::schema_for!(RawTls).into()
    }
}

pub(super) fn file(key: &str, path: &str) -> Result<PathBuf, ConfigError> {
    if path.is_empty() {
        return Err(ConfigError::new(key, "expected the path of a file, found an empty text"));
    }
    // Not the canonical path: a link that is swapped later must be followed then.
    std::path::absolute(path).map_err(|error| ConfigError::new(key, format!("{path}: {error}")))
}

pub(super) fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let inner = label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        (1..=63).contains(&label.len()) && inner && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= MAX_DOMAIN && text.strip_prefix("*.").unwrap_or(text).split('.').all(is_label)
}

impl<'de> Deserialize<'de> for Version {
    /// YAML reads 1.2 without quotes as a number, and everybody writes it so.
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let found = Value::deserialize(input)?;
        let is = |text: &str, number: f64| found == text || found.as_f64() == Some(number);
        match () {
            () if is("1.2", 1.2) => Ok(Version::V1_2),
            () if is("1.3", 1.3) => Ok(Version::V1_3),
            () => Err(serde::de::Error::custom(format!("expected \"1.2\" or \"1.3\", found {found}"))),
        }
    }
}
