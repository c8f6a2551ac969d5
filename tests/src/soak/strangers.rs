//! Who has no business at the push port: those who connect and say nothing, half a handshake, and no
//! credentials.

use std::collections::VecDeque;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::PUSH_NAME;
use super::world::World;

/// So many of those who say nothing are there at one time.
const SILENT: usize = 6;

pub(super) async fn at_the_push_port(world: Arc<World>) {
    let mut turns = world.turns(1.0);
    let connector = connector(&world);
    let mut silent = VecDeque::new();
    while turns.next().await {
        if let Ok(mut stream) = TcpStream::connect(world.at.refresh).await {
            // The head of a handshake that does not come.
            let _closed = stream.write_all(&[0x16, 3, 1, 2, 0, 1]).await;
            silent.push_back(stream);
            world.did("stranger");
        }
        if silent.len() > SILENT {
            silent.pop_front();
        }
        match without_credentials(&world, &connector).await {
            Some(401) => world.did("stranger refused"),
            Some(other) => world.unexpected(format!("a push without credentials: {other}")),
            None => world.did("stranger cut off"),
        }
    }
}

fn connector(world: &World) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(&world.at.authority).expect("an authority");
    roots.add(authority).expect("an authority");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// What the receiver says to a push that nobody signed, if it says anything.
async fn without_credentials(world: &World, connector: &TlsConnector) -> Option<u16> {
    let stream = TcpStream::connect(world.at.refresh).await.ok()?;
    let name = ServerName::try_from(PUSH_NAME).expect("a name");
    let stream = connector.connect(name, stream).await.ok()?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.ok()?;
    let driver = tokio::spawn(connection);
    let request = hyper::Request::post("/refresh")
        .header("host", PUSH_NAME)
        .body(Full::<Bytes>::from(&b"{}"[..]))
        .expect("a request");
    let answer = sender.send_request(request).await.ok().map(|answer| answer.status().as_u16());
    driver.abort();
    answer
}
