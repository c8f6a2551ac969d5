//! Discovery against a real HTTPS server on loopback.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::https::WELL_KNOWN;
use crate::https::tests::{Answer, Server};
use crate::jwt::tests::key_set;

const KEYS: &str = "/keys";

fn settings(server: &Server, origin: JwtOrigin) -> JwtSettings {
    JwtSettings {
        origin,
        ca_file: Some(server.ca_file()),
        leeway: Duration::from_secs(60),
        refresh: Duration::from_secs(300),
        min_refetch: Duration::from_secs(5),
    }
}

async fn discover(server: &Server, issuer: Option<&str>) -> Result<Fetched, String> {
    let url = server.url(WELL_KNOWN);
    let origin = JwtOrigin::Discovery { url, issuer: issuer.map(ToOwned::to_owned) };
    fetch(&settings(server, origin))().await.map_err(|error| error.to_string())
}

fn publish(server: &Server, issuer: &str, keys_url: &str) {
    let document = json!({ "issuer": issuer, "jwks_uri": keys_url, "claims_supported": ["sub"] });
    server.text(WELL_KNOWN, &document.to_string());
}

#[tokio::test]
async fn a_discovery_document_names_the_issuer_and_the_url_of_the_keys() {
    let server = Server::start().await;
    let own = server.url("").to_string();
    let own = own.trim_end_matches('/');
    server.text(KEYS, &key_set(&["a"]));
    for issuer in [own.to_owned(), format!("{own}/")] {
        publish(&server, &issuer, &server.url(KEYS).to_string());
        let fetched = discover(&server, None).await.unwrap();
        assert_eq!((fetched.issuer, fetched.keys), (issuer, key_set(&["a"]).into()));
    }
}

#[tokio::test]
async fn a_document_of_another_issuer_is_refused_unless_the_config_names_it() {
    let server = Server::start().await;
    server.text(KEYS, &key_set(&["a"]));
    publish(&server, "https://other.example", &server.url(KEYS).to_string());
    let error = discover(&server, None).await.unwrap_err();
    assert!(error.contains("names the issuer https://other.example, expected https://localhost:"), "{error}");
    assert_eq!(server.asked(KEYS), 0);
    let fetched = discover(&server, Some("https://other.example")).await.unwrap();
    assert_eq!(fetched.issuer, "https://other.example");
    for wrong in ["https://other.example/", "https://another.example"] {
        assert!(discover(&server, Some(wrong)).await.is_err(), "letter by letter");
    }
    publish(&server, "", &server.url(KEYS).to_string());
    assert!(discover(&server, None).await.is_err());
}

#[tokio::test]
async fn a_document_that_is_wrong_or_leads_elsewhere_is_refused() {
    let server = Server::start().await;
    let own = server.url("").to_string();
    let own = own.trim_end_matches('/');
    for keys_url in ["http://localhost/keys", "/keys", "file:///etc/passwd", "https://u:p@localhost/keys"] {
        publish(&server, own, keys_url);
        let error = discover(&server, None).await.unwrap_err();
        assert!(error.contains("expected an https URL as jwks_uri"), "{error}");
    }
    for (text, reason) in [
        ("{", "the JSON text ends early"),
        ("<html>", "not a JSON text"),
        (r#"{"issuer": "x"}"#, "not of the expected shape"),
        ("[]", "not of the expected shape"),
    ] {
        server.text(WELL_KNOWN, text);
        let error = discover(&server, None).await.unwrap_err();
        assert!(error.contains(WELL_KNOWN) && error.ends_with(reason), "{error}");
    }
    publish(&server, own, &server.url(KEYS).to_string());
    server.answer(KEYS, Answer::Raw("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n".to_owned()));
    let error = discover(&server, None).await.unwrap_err();
    assert!(error.contains("/keys: 500"), "{error}");
}

#[tokio::test]
async fn a_key_set_is_had_from_its_url_or_from_a_file() {
    let server = Server::start().await;
    server.text(KEYS, &key_set(&["a"]));
    let issuer = || "https://issuer.example".to_owned();
    let by_url = JwtOrigin::Url { url: server.url(KEYS), issuer: issuer() };
    let expected = Fetched { issuer: issuer(), keys: key_set(&["a"]).into() };
    assert_eq!(fetch(&settings(&server, by_url))().await.unwrap(), expected);
    let path = server.ca_file().with_file_name("keys.json");
    let by_file = JwtOrigin::File { path: path.clone(), issuer: issuer() };
    let by_file = fetch(&settings(&server, by_file));
    assert!(by_file().await.is_err());
    std::fs::write(path, key_set(&["a"])).unwrap();
    assert_eq!(by_file().await.unwrap(), expected);
}
