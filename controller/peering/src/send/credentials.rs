//! The credentials of a sender: a client certificate, a bearer token, or a shared key.

use std::path::{Path, PathBuf};

use rustls::ClientConfig;
use rustls::client::WebPkiServerVerifier;

use crate::credential::{CredentialError, read};
use crate::hmac::{HmacKey, RandomError, unix_now};
use crate::pem::{authorities, certificates, private_key};
use crate::reload::Reloaded;
use crate::tls::{ALPN, provider};

/// The files that authenticate a sender. They are read again when they change.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The authorities of the peers' certificates: needed where a peer is `https`.
    pub ca: Option<PathBuf>,
    /// A client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// A file with a bearer token, as Kubernetes projects one into a pod.
    pub token: Option<PathBuf>,
    /// A shared key: its name and its file. Used in the place of a token.
    pub hmac: Option<(String, PathBuf)>,
}

impl Credentials {
    /// A shared key as it is written on a command line: `ID=FILE`. Nothing if the text is something else.
    pub fn named_key(text: &str) -> Option<(String, PathBuf)> {
        let (id, file) = text.split_once('=').filter(|(id, file)| !id.is_empty() && !file.is_empty())?;
        Some((id.to_owned(), file.into()))
    }
}

pub(super) struct Proofs {
    pub(super) tls: Option<Reloaded<ClientConfig>>,
    token: Option<Reloaded<String>>,
    hmac: Option<Reloaded<HmacKey>>,
}

impl Proofs {
    /// Reads the files.
    pub(super) fn read(credentials: &Credentials) -> Result<Self, CredentialError> {
        let Credentials { ca, certificate, token, hmac } = credentials.clone();
        let tls = ca.map(|ca| {
            let files = [&ca].into_iter().chain(certificate.iter().flat_map(|(a, b)| [a, b])).cloned();
            Reloaded::new(files.collect(), move || {
                client_config(&ca, certificate.as_ref().map(|(a, b)| (a.as_path(), b.as_path())))
            })
        });
        let token = token.map(|file| {
            Reloaded::new(vec![file.clone()], move || {
                let content = read(&file)?;
                let token = content.trim_ascii();
                match str::from_utf8(token) {
                    Ok(token) if !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()) => {
                        Ok(format!("Bearer {token}"))
                    }
                    _ => Err(CredentialError::content(&file, "a token")),
                }
            })
        });
        let hmac =
            hmac.map(|(id, file)| Reloaded::new(vec![file.clone()], move || HmacKey::read(&id, &file)));
        Ok(Self { tls: tls.transpose()?, token: token.transpose()?, hmac: hmac.transpose()? })
    }

    /// The `authorization` header of one try.
    pub(super) fn authorization(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Option<String>, RandomError> {
        if let Some(hmac) = &self.hmac {
            return hmac.get().sign(method, path, body, unix_now()).map(Some);
        }
        Ok(self.token.as_ref().map(|token| token.get().as_ref().clone()))
    }

    /// Reads the files again that have changed. May block.
    pub(super) fn reload(&self) {
        let reloaded = [
            self.tls.as_ref().and_then(Reloaded::reload),
            self.token.as_ref().and_then(Reloaded::reload),
            self.hmac.as_ref().and_then(Reloaded::reload),
        ];
        for error in reloaded.into_iter().flatten().filter_map(Result::err) {
            tracing::error!("push: the credentials have changed and the old ones are kept: {error}");
        }
    }
}

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
