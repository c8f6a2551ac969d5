//! Against a real HTTPS server on loopback.

use std::collections::HashMap;
use std::path::PathBuf;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::*;

/// What the server answers to a path.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// 200 and this.
    Text(String),
    /// Exactly this.
    Raw(String),
    /// Nothing.
    Silence,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<String, Answer>>,
    asked: Mutex<Vec<String>>,
    arrived: Notify,
}

/// A server with a certificate for `localhost`, of an authority of its own.
pub(crate) struct Server {
    port: u16,
    folder: TempDir,
    shared: Arc<Shared>,
}

/// A certificate for `localhost`, its key, and the authority in PEM.
fn certificate() -> (CertificateDer<'static>, PrivateKeyDer<'static>, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let pem = authority.self_signed(&authority_key).unwrap().pem();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    (own.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into(), pem)
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::speaking(rustls::ALL_VERSIONS).await
    }

    async fn speaking(versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
        let (certificate, key, authority) = certificate();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("ca.crt"), authority).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Shared>::default();
        let (acceptor, state) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(&shared));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
                tokio::spawn(async move { serve(stream, &acceptor, &state).await });
            }
        });
        Self { port, folder, shared }
    }

    pub(crate) fn url(&self, path: &str) -> HttpsUrl {
        format!("https://localhost:{}{path}", self.port).parse().unwrap()
    }

    pub(crate) fn ca_file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    pub(crate) fn answer(&self, path: &str, answer: Answer) {
        self.shared.answers.lock().insert(path.to_owned(), answer);
    }

    pub(crate) fn text(&self, path: &str, text: &str) {
        self.answer(path, Answer::Text(text.to_owned()));
    }

    /// How often a path was asked for.
    pub(crate) fn asked(&self, path: &str) -> usize {
        self.shared.asked.lock().iter().filter(|asked| *asked == path).count()
    }

    async fn get(&self, path: &str) -> Result<Bytes, HttpsError> {
        get(&self.url(path), client_config(Some(&self.ca_file()))?).await
    }
}

async fn serve(stream: TcpStream, acceptor: &TlsAcceptor, shared: &Shared) {
    let Ok(mut stream) = acceptor.accept(stream).await else { return };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains("\r\nhost: localhost:") && head.contains("\r\naccept: application/json"), "{head}");
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let answer = shared.answers.lock().get(&path).cloned();
    shared.asked.lock().push(path);
    shared.arrived.notify_one();
    let text = match answer {
        Some(Answer::Text(text)) => {
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len())
        }
        Some(Answer::Raw(text)) => text,
        Some(Answer::Silence) => std::future::pending().await,
        None => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
    };
    // A client that has read enough is gone.
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[test]
fn only_an_absolute_https_url_is_one() {
    for text in [
        "https://a",
        "https://a/",
        "HTTPS://a:8443/b/c?d=e",
        "https://[::1]:1/x",
        "https://10.0.0.1/x",
        "https://a.example/.well-known/openid-configuration",
    ] {
        assert!(text.parse::<HttpsUrl>().is_ok(), "{text}");
    }
    for text in [
        "",
        "a",
        "/a",
        "http://a",
        "https://",
        "https:///a",
        "https://u@a",
        "https://u:p@a/",
        "https://a:/",
        "https://a:b/",
        "https://a:70000/",
        "https://a b/",
        "https://a/#f",
        "https://a_b c/",
        "file:///a",
    ] {
        assert!(text.parse::<HttpsUrl>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn a_document_is_had_over_both_versions_of_tls() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let server = Server::speaking(&[version]).await;
        server.text("/a?b=c", "{}");
        assert_eq!(server.get("/a?b=c").await.unwrap(), "{}");
    }
}

#[tokio::test]
async fn a_server_that_proves_nothing_is_not_believed() {
    let server = Server::start().await;
    server.text("/a", "{}");
    let other = Server::start().await;
    let error = get(&server.url("/a"), client_config(Some(&other.ca_file())).unwrap()).await.unwrap_err();
    assert!(error.to_string().starts_with("TLS: "), "{error}");
    let by_address = format!("https://127.0.0.1:{}/a", server.port).parse().unwrap();
    let error = get(&by_address, client_config(Some(&server.ca_file())).unwrap()).await.unwrap_err();
    assert!(error.to_string().starts_with("TLS: "), "{error}");
    assert_eq!(server.asked("/a"), 0);
}

#[tokio::test]
async fn an_answer_that_is_no_document_is_refused_and_a_redirect_is_not_followed() {
    let server = Server::start().await;
    server.text("/target", "{}");
    let long = " ".repeat(MAX_DOCUMENT + 1);
    for (path, raw, reason) in [
        (
            "/moved",
            "HTTP/1.1 302 Found\r\nlocation: /target\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "302 Found: redirects are not followed",
        ),
        (
            "/broken",
            "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}".to_owned(),
            "500 Internal Server Error",
        ),
        ("/empty", "HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "204 No Content"),
        (
            "/long",
            format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{long}", long.len()),
            "larger than 1 MiB",
        ),
        ("/endless", format!("HTTP/1.1 200 OK\r\n\r\n{long}"), "larger than 1 MiB"),
        ("/cut", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{}".to_owned(), "the answer was cut off"),
    ] {
        server.answer(path, Answer::Raw(raw));
        assert_eq!(server.get(path).await.unwrap_err().to_string(), reason, "{path}");
    }
    assert!(server.get("/none").await.unwrap_err().to_string().starts_with("404"));
    assert_eq!(server.asked("/target"), 0);
    let most = " ".repeat(MAX_DOCUMENT);
    server.text("/most", &most);
    assert_eq!(server.get("/most").await.unwrap(), most);
}

#[tokio::test]
async fn a_silent_server_is_left_after_ten_seconds() {
    let server = Server::start().await;
    server.answer("/silence", Answer::Silence);
    let ask = server.get("/silence");
    tokio::pin!(ask);
    tokio::select! {
        answer = &mut ask => panic!("{answer:?}"),
        () = server.shared.arrived.notified() => {}
    }
    tokio::time::pause();
    let begun = tokio::time::Instant::now();
    assert_eq!(ask.await.unwrap_err().to_string(), "no answer within 10 s");
    assert!(begun.elapsed() <= Duration::from_secs(10), "the time to connect counts, too");
    assert!(begun.elapsed() > Duration::from_secs(5));
}

#[tokio::test]
async fn nobody_there_is_an_error_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
    drop(listener);
    let server = Server::start().await;
    let config = client_config(Some(&server.ca_file())).unwrap();
    let error = get(&url.parse().unwrap(), config).await.unwrap_err();
    assert!(error.to_string().starts_with("no connection: "), "{error}");
    std::fs::write(server.ca_file(), "no certificate").unwrap();
    let error = server.get("/").await.unwrap_err().to_string();
    assert!(error.ends_with("ca.crt: expected certificates in PEM"), "{error}");
}
