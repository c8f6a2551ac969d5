//! TLS, and client certificates as proof.

use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::Full;
use hyper::Request;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::fixture::{Answer, KEY, Plane, eventually, exchange, key_file, message};
use crate::hmac::unix_now;

/// An authority, which writes its files into a folder.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let folder = tempdir().unwrap();
        std::fs::write(folder.path().join("ca"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca")
    }

    /// A certificate for a name, or for several with commas between them.
    pub(crate) fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = name.split(',').map(ToOwned::to_owned).collect();
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let files = (self.folder.path().join(name), self.folder.path().join(format!("{name}.key")));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        std::fs::write(&files.1, key.serialize_pem()).unwrap();
        files
    }

    pub(crate) fn server(&self, rest: Value) -> Value {
        let (certificate, key) = self.issue("gateway.test");
        let mut tls = json!({ "certificate": certificate, "key": key });
        if let (Value::Object(tls), Value::Object(mut rest)) = (&mut tls, rest) {
            tls.append(&mut rest);
        }
        tls
    }
}

/// Pushes with a certificate of `client`'s, believing `server`.
async fn push(
    plane: &Plane,
    server: &Authority,
    client: Option<(&Authority, &str)>,
    authorization: Option<String>,
) -> Result<Answer, String> {
    let identity = client.map(|(authority, name)| authority.issue(name));
    let identity = identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
    let connector = TlsConnector::from(Arc::new(crate::send::client_config(&server.ca(), identity).unwrap()));
    let stream = TcpStream::connect(plane.address).await.map_err(|error| error.to_string())?;
    let name = ServerName::try_from("gateway.test").unwrap();
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    let mut request = Request::post("/refresh").header("host", "gateway.test");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let body = message("running", "5").to_string();
    exchange(stream, request.body(Full::new(body.into())).unwrap()).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_client_certificate_of_the_authority_is_believed_and_no_other() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let plane = Plane::start(json!({ "tls": ours.server(json!({ "client-ca": ours.ca() })) })).await;
    assert_eq!(plane.status().methods, ["mtls"]);
    assert_eq!(push(&plane, &ours, None, None).await.unwrap().status, 401);
    assert!(push(&plane, &ours, Some((&theirs, "manager.test")), None).await.is_err());
    assert!(push(&plane, &theirs, Some((&ours, "manager.test")), None).await.is_err(), "a false server");
    assert_eq!(plane.reader.counts().objects, 0);
    assert_eq!(push(&plane, &ours, Some((&ours, "manager.test")), None).await.unwrap().status, 204);
    assert_eq!(plane.reader.counts().objects, 1);
}

#[tokio::test]
async fn only_certificates_for_the_given_names_are_believed() {
    let ours = Authority::new();
    let names = json!({ "client-ca": ours.ca(), "client-names": ["manager.test", "other.test"] });
    let plane = Plane::start(json!({ "tls": ours.server(names) })).await;
    assert_eq!(push(&plane, &ours, Some((&ours, "stranger.test")), None).await.unwrap().status, 401);
    assert_eq!(plane.reader.counts().objects, 0);
    assert_eq!(push(&plane, &ours, Some((&ours, "manager.test")), None).await.unwrap().status, 204);
}

#[tokio::test]
async fn a_certificate_for_a_wildcard_does_not_pass_as_one_of_the_names_under_it() {
    let ours = Authority::new();
    let names = json!({ "client-ca": ours.ca(), "client-names": ["manager.sandgate.svc", "10.0.0.1"] });
    let plane = Plane::start(json!({ "tls": ours.server(names) })).await;
    for stranger in ["*.sandgate.svc", "*.svc", "x.manager.sandgate.svc", "10.0.0.2", "*.sandgate.svc,other"]
    {
        let answer = push(&plane, &ours, Some((&ours, stranger)), None).await.unwrap();
        assert_eq!(answer.status, 401, "{stranger}");
    }
    assert_eq!(plane.reader.counts().objects, 0);
    for named in
        ["manager.sandgate.svc", "Manager.Sandgate.SVC", "*.sandgate.svc,manager.sandgate.svc", "10.0.0.1"]
    {
        let answer = push(&plane, &ours, Some((&ours, named)), None).await.unwrap();
        assert_eq!(answer.status, 204, "{named}");
    }
}

#[tokio::test]
async fn with_two_methods_either_is_enough_and_a_wrong_header_is_never_forgiven() {
    let (ours, keys) = (Authority::new(), tempdir().unwrap());
    let (key, file) = key_file(&keys, "main", KEY);
    let plane = Plane::start(json!({
        "tls": ours.server(json!({ "client-ca": ours.ca() })),
        "hmac": { "keys": [{ "id": "main", "file": file }] },
    }))
    .await;
    let body = message("running", "5").to_string();
    let signed = || Some(key.sign("POST", "/refresh", body.as_bytes(), unix_now()).unwrap());
    let client = Some((&ours, "manager.test"));
    assert_eq!(push(&plane, &ours, None, None).await.unwrap().status, 401);
    assert_eq!(push(&plane, &ours, client, Some("Bearer x".to_owned())).await.unwrap().status, 401);
    assert_eq!(push(&plane, &ours, client, Some("Basic x".to_owned())).await.unwrap().status, 401);
    assert_eq!(plane.reader.counts().objects, 0);
    assert_eq!(push(&plane, &ours, None, signed()).await.unwrap().status, 204);
    assert_eq!(push(&plane, &ours, client, None).await.unwrap().status, 204);
    assert_eq!(push(&plane, &ours, client, signed()).await.unwrap().status, 204);
}

#[tokio::test]
async fn an_authority_that_is_replaced_is_followed() {
    let (ours, next) = (Authority::new(), Authority::new());
    let trusted = ours.folder.path().join("trusted");
    std::fs::copy(ours.ca(), &trusted).unwrap();
    let plane = Plane::start(json!({ "tls": ours.server(json!({ "client-ca": trusted })) })).await;
    assert!(push(&plane, &ours, Some((&next, "manager.test")), None).await.is_err());
    assert_eq!(push(&plane, &ours, Some((&ours, "manager.test")), None).await.unwrap().status, 204);
    // A connection that is open was believed by the old authority: it ends.
    let open = TcpStream::connect(plane.address).await.unwrap();
    std::fs::write(&trusted, "no certificate").unwrap();
    eventually(|| plane.status().error).await;
    assert_eq!(push(&plane, &ours, Some((&ours, "manager.test")), None).await.unwrap().status, 204);
    std::fs::copy(next.ca(), &trusted).unwrap();
    eventually(|| plane.status().error.is_none().then_some(())).await;
    assert_eq!(push(&plane, &ours, Some((&next, "manager.test")), None).await.unwrap().status, 204);
    assert!(push(&plane, &ours, Some((&ours, "manager.test")), None).await.is_err());
    drop(open);
    eventually(|| (plane.status().connections == 0).then_some(())).await;
}
