//! A client that speaks TLS: whom it trusts, what it speaks, and who it is.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::Client;
use crate::DEADLINE;

/// How a client speaks TLS. It checks the server's certificate, as every good client does.
#[derive(Clone)]
pub struct Https {
    authority: PathBuf,
    identity: Option<(PathBuf, PathBuf)>,
    protocols: Vec<&'static str>,
    old: bool,
}

/// A connection, and what the handshake gave.
pub struct Secured {
    /// The connection.
    pub client: Client,
    /// The server's certificate, DER.
    pub certificate: Vec<u8>,
    /// The protocol that both have agreed on; empty if on none.
    pub protocol: String,
}

impl Https {
    /// Trusts the authority in this file, and speaks HTTP/2 and HTTP/1.1.
    pub fn trusting(authority: &Path) -> Self {
        let protocols = vec!["h2", "http/1.1"];
        Self { authority: authority.to_owned(), identity: None, protocols, old: false }
    }

    /// Speaks only these protocols.
    #[must_use]
    pub fn speaking(mut self, protocols: &[&'static str]) -> Self {
        protocols.clone_into(&mut self.protocols);
        self
    }

    /// Has a certificate and its key.
    #[must_use]
    pub fn with_certificate(mut self, files: (PathBuf, PathBuf)) -> Self {
        self.identity = Some(files);
        self
    }

    /// Knows no TLS newer than 1.2.
    #[must_use]
    pub fn old(mut self) -> Self {
        self.old = true;
        self
    }

    fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.authority).expect("an authority") {
            roots.add(certificate.expect("a certificate")).expect("an authority");
        }
        let versions = if self.old { vec![&TLS12] } else { vec![&TLS13, &TLS12] };
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&versions)
            .expect("TLS versions")
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some((certificate, key)) => {
                let chain = CertificateDer::pem_file_iter(certificate).expect("a certificate");
                let chain = chain.collect::<Result<_, _>>().expect("a certificate");
                let key = PrivateKeyDer::from_pem_file(key).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a client certificate")
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// Connects and shakes hands.
    pub(super) async fn stream(&self, server: SocketAddr, name: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(self.config()));
        let handshake = async { connector.connect(name, TcpStream::connect(server).await?).await };
        timeout(DEADLINE, handshake).await.expect("a handshake within the deadline")
    }

    /// A connection to the server of this name, in the protocol that both have agreed on.
    ///
    /// # Errors
    /// When the handshake fails. A server that refuses the client's certificate may do so only after it.
    pub async fn connect(&self, server: SocketAddr, name: &str) -> io::Result<Secured> {
        let stream = self.stream(server, name).await?;
        let (_, session) = stream.get_ref();
        let certificate = session.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.expect("a server has a certificate").to_vec();
        let protocol = String::from_utf8_lossy(session.alpn_protocol().unwrap_or_default()).into_owned();
        let client = if protocol == "h2" {
            Client::over_http2(stream, server, "https").await?
        } else {
            Client::over(stream, server).await?
        };
        Ok(Secured { client, certificate, protocol })
    }
}
