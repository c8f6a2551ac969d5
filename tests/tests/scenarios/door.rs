//! TLS at the gateway's door: `sandgate run` with a `tls` section and real files.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sandgate_tests::{
    Authority, Cli, Client, Https, Pair, Place, Request, Running, Sandbox, WebSocket, locations,
    raw_exchange, route, routes,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::support::{PORT, sandbox};

mod bootstrap;
mod rotation;

/// A host of the sandbox `demo` below [`DOMAIN`].
const HOST: &str = "8000-default--demo.a.example";
const DOMAIN: &str = "*.a.example";

/// A folder with an authority, certificates and a config.
pub(crate) struct Site {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Site {
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("sandgate-door-").expect("create a folder");
        let authority = Authority::new(folder.path());
        Self { folder, authority }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `NAME.crt` and `NAME.key`, and returns the entry of the section for them.
    pub(crate) fn certificate(&self, name: &str, names: &[&str]) -> (Pair, Value) {
        let pair = self.authority.pair(names);
        let files = (self.file(&format!("{name}.crt")), self.file(&format!("{name}.key")));
        fs::write(&files.0, &pair.certificate).expect("write");
        fs::write(&files.1, &pair.key).expect("write");
        (pair, json!({ "certificate": files.0, "key": files.1 }))
    }

    /// A client that trusts the authority.
    fn client(&self) -> Https {
        Https::trusting(&self.authority.file())
    }

    fn config(&self, section: &Value) -> String {
        let file = self.file("gateway.yaml");
        fs::write(&file, json!({ "tls": section }).to_string()).expect("write");
        file.display().to_string()
    }

    /// `sandgate run` with this section and these routes, once it is ready.
    pub(crate) async fn open(&self, section: &Value, routes: &str) -> (Running, SocketAddr) {
        let mut running = self.start(section, routes, Running::start);
        let gateway = running.printed("the address of the gateway", address).await;
        (running, gateway)
    }

    fn start(&self, section: &Value, routes: &str, start: impl Fn(&[&str]) -> Running) -> Running {
        let file = self.file("routes.yaml");
        fs::write(&file, routes).expect("write");
        let (config, file) = (self.config(section), file.display().to_string());
        let mut arguments = vec!["run", "--port", "0", "--admin-port", "0", "--concurrency", "2"];
        arguments.extend(["--config", &config, "--routes", &file]);
        start(&arguments)
    }
}

/// The address after `gateway  https://`.
fn address(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find(|line| line.trim().starts_with("gateway"))?;
    line.split("https://").nth(1)?.trim().parse().ok()
}

async fn demo() -> (Sandbox, String) {
    let demo = sandbox("demo").await;
    let routes = routes([route("demo").ip(demo.ip())]);
    (demo, routes)
}

#[tokio::test]
async fn clients_choose_http_2_or_1_1_and_sandboxes_see_https() {
    let (site, (demo, routes)) = (Site::new(), demo().await);
    let (_, entry) = site.certificate("a", &[DOMAIN]);
    let (_running, gateway) = site.open(&json!({ "certificates": [entry] }), &routes).await;
    for (speaks, agreed) in [
        (&["h2", "http/1.1"][..], "h2"),
        (&["http/1.1"], "http/1.1"),
        // No word of protocols: what everybody spoke before there was one.
        (&[], ""),
    ] {
        for client in [site.client(), site.client().old()] {
            let mut secured = client.speaking(speaks).connect(gateway, HOST).await.expect("a handshake");
            assert_eq!(secured.protocol, agreed);
            let request = Request::get("/x").host(HOST).header("x-forwarded-proto", "http");
            let reply = secured.client.send(request).await.expect("an answer");
            assert_eq!((reply.sandbox(), reply.seen_path()), ("demo".to_owned(), "/x".to_owned()));
            assert_eq!(reply.seen("x-forwarded-proto"), ["https"], "over {agreed}");
        }
    }
    let mut socket =
        WebSocket::over_tls(&site.client(), gateway, HOST, "/ws").await.expect("a WebSocket over TLS");
    assert_eq!(socket.next().await.as_deref(), Some("demo"));
    socket.send("over TLS").await;
    assert_eq!(socket.next().await.as_deref(), Some("over TLS"));
    socket.close().await;

    // Whoever does not speak TLS gets no word, and no sandbox hears of it.
    let before = demo.requests();
    let plain = format!("GET / HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n\r\n");
    let answer = raw_exchange(gateway, plain.as_bytes()).await;
    assert!(!answer.contains("HTTP/"), "{answer:?}");
    assert_eq!(demo.requests(), before);
}

#[tokio::test]
async fn the_name_a_client_asks_for_picks_the_certificate_and_the_first_is_for_all_others() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (first, a) = site.certificate("a", &[DOMAIN, "127.0.0.1"]);
    let (second, mut b) = site.certificate("b", &["*.b.example", "c.example"]);
    b["domains"] = json!(["*.b.example"]);
    let (_running, gateway) = site.open(&json!({ "certificates": [a, b] }), &routes).await;
    for (name, expected) in [
        (HOST, &first),
        ("8000-default--demo.b.example", &second),
        ("c.example", &second),
        // An address is no name: none is sent.
        ("127.0.0.1", &first),
    ] {
        let mut secured = site.client().connect(gateway, name).await.expect(name);
        assert!(secured.certificate == expected.der, "another certificate for {name}");
        // The certificate decides nothing about the request: its host does.
        let reply = secured.client.send(Request::get("/").host("8000-default--demo.b.example")).await;
        assert_eq!(reply.expect("an answer").sandbox(), "demo", "{name}");
    }
    let shown = site.client().connect(gateway, "elsewhere.example").await.err().expect("a wrong certificate");
    assert!(shown.to_string().contains("a.example"), "{shown}");
}

#[tokio::test]
async fn with_a_client_ca_only_its_clients_get_in_and_the_file_is_followed() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, entry) = site.certificate("a", &[DOMAIN]);
    let (friends, strangers) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let (friends, strangers) = (Authority::new(friends.path()), Authority::new(strangers.path()));
    let trusted = site.file("clients.pem");
    fs::copy(friends.file(), &trusted).expect("copy");
    let section = json!({ "certificates": [entry], "client-ca": trusted });
    let (_running, gateway) = site.open(&section, &routes).await;

    let ask = async |client: Https| {
        let mut secured = client.connect(gateway, HOST).await.ok()?;
        Some(secured.client.send(Request::get("/").host(HOST)).await.ok()?.sandbox())
    };
    let friend = site.client().with_certificate(friends.client("friend"));
    let stranger = site.client().with_certificate(strangers.client("stranger"));
    assert_eq!(ask(friend.clone()).await.as_deref(), Some("demo"));
    for client in [site.client(), site.client().old(), stranger.clone(), stranger.clone().old()] {
        assert_eq!(ask(client).await, None);
    }

    // Both authorities, then the second alone.
    let text = |file: PathBuf| fs::read_to_string(file).expect("read");
    fs::write(&trusted, text(friends.file()) + &text(strangers.file())).expect("write");
    rotation::eventually_true("the stranger is let in", async || ask(stranger.clone()).await.is_some()).await;
    assert!(ask(friend.clone()).await.is_some());
    fs::write(&trusted, text(strangers.file())).expect("write");
    rotation::eventually_true("the friend is kept out", async || ask(friend.clone()).await.is_none()).await;
    assert!(ask(stranger).await.is_some());
}

#[tokio::test]
async fn old_versions_and_connections_that_do_not_shake_hands_are_turned_away() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, entry) = site.certificate("a", &[DOMAIN]);
    let section = json!({ "certificates": [entry], "min-version": "1.3" });
    let (_running, gateway) = site.open(&section, &routes).await;
    let mut silent = TcpStream::connect(gateway).await.expect("connect");
    assert!(site.client().old().connect(gateway, HOST).await.is_err());
    assert!(site.client().connect(gateway, HOST).await.is_ok());
    // Twice the time that a handshake may take.
    let closed = timeout(std::time::Duration::from_secs(20), silent.read(&mut [0; 1])).await;
    assert!(matches!(closed.expect("closed in time"), Ok(0) | Err(_)));
}

#[tokio::test]
async fn the_share_of_an_address_is_counted_before_the_handshake() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, entry) = site.certificate("a", &[DOMAIN]);
    let few = |arguments: &[&str]| Running::start_with_files(256, arguments);
    let mut running = site.start(&json!({ "certificates": [entry] }), &routes, few);
    let gateway = running.printed("the address of the gateway", address).await;
    let (silent, place) = (Arc::new(AtomicUsize::new(0)), Place::reserve());
    // None of them says a word of TLS. Every one that is closed is opened again.
    let mut strangers = JoinSet::new();
    for _ in 0..120 {
        let (silent, from) = (Arc::clone(&silent), place.ip());
        strangers.spawn(async move {
            loop {
                let socket = TcpSocket::new_v4().expect("a socket");
                socket.bind((from, 0).into()).expect("an address of our own");
                if let Ok(stream) = socket.connect(gateway).await {
                    silent.fetch_add(1, Ordering::SeqCst);
                    let _closed = stream.readable().await;
                }
            }
        });
    }
    rotation::eventually_true("strangers have come", async || silent.load(Ordering::SeqCst) > 400).await;
    for _ in 0..20 {
        let mut secured = site.client().connect(gateway, HOST).await.expect("a client at another address");
        let reply = secured.client.send(Request::get("/").host(HOST)).await.expect("an answer");
        assert_eq!(reply.sandbox(), "demo");
    }
    let admin = running
        .printed("the admin port", |output| output.split("http://").nth(1)?.split('/').next()?.parse().ok());
    let mut admin = Client::http1(admin.await).await.expect("connect to the admin port");
    let refused = admin.send(Request::get("/stats?filter=connections_refused")).await.expect("an answer");
    let refused = refused.text().trim().rsplit(": ").next().map(str::parse::<u64>);
    assert!(matches!(refused, Some(Ok(1..))), "{refused:?}");
}

#[tokio::test]
async fn a_mistake_is_told_before_envoy_starts_and_explain_needs_no_files() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, a) = site.certificate("a", &[DOMAIN]);
    let (_, b) = site.certificate("b", &[DOMAIN]);
    let run = async |section: Value| {
        let config = site.config(&section);
        // Were Envoy started, it would be the next mistake.
        Cli::run(&["run", "--demo", "--config", &config, "--envoy", "/none"]).await
    };
    let one = |certificate: &Value, key: &Value| json!({ "certificates": [{ "certificate": certificate, "key": key }] });
    for (section, key, words) in [
        (one(&a["certificate"], &b["key"]), "key", "b.key: not the key of the first certificate in "),
        (one(&json!("/none.crt"), &b["key"]), "certificate", "/none.crt: No such file"),
        (
            one(&a["certificate"], &json!(site.file("gateway.yaml"))),
            "key",
            "gateway.yaml: expected a private key",
        ),
    ] {
        let done = run(section).await;
        assert_eq!(done.code, Some(2), "{}", done.stderr);
        let said = done.stderr.split_once("gateway.yaml:1:").expect("the place of the key").1;
        let (_column, said) = said.split_once(": ").expect("a column");
        assert!(said.starts_with(&format!("tls.certificates[0].{key}: ")) && said.contains(words), "{said}");
    }

    let config = site.config(&one(&json!("/none.crt"), &json!("/none.key")));
    let file = site.file("routes.yaml");
    fs::write(&file, routes).expect("write");
    let url = format!("https://{HOST}/");
    let file = file.display().to_string();
    let explained = Cli::run(&["explain", "--config", &config, "--routes", &file, &url]).await;
    assert_eq!(explained.code, Some(0), "{}{}", explained.stdout, explained.stderr);
    assert!(explained.stdout.contains(&PORT.to_string()), "{}", explained.stdout);
}

#[tokio::test]
async fn the_config_it_prints_is_one_that_envoy_takes() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, entry) = site.certificate("a", &[DOMAIN]);
    let section = json!({ "certificates": [entry], "client-ca": site.authority.file() });
    let (config, file) = (site.config(&section), site.file("routes.yaml"));
    fs::write(&file, routes).expect("write");
    let file = file.display().to_string();
    let printed = Cli::run(&["run", "--config", &config, "--routes", &file, "--print-config"]).await;
    assert_eq!(printed.code, Some(0), "{}", printed.stderr);
    fs::write(site.file("envoy.json"), printed.stdout).expect("write");
    let shown = |path: &Path| path.display().to_string();
    let (envoy, own) = (shown(&locations::envoy()), shown(&site.file("envoy.json")));
    let done = Cli::shell(&format!("'{envoy}' --mode validate -c '{own}'")).await;
    assert!(done.code == Some(0) && done.stdout.contains("OK"), "{}{}", done.stdout, done.stderr);
}
