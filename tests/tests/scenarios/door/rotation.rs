//! Certificates that are replaced while the gateway serves.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sandgate_tests::{DEADLINE, Https, Pair, Place, Request, Running, eventually, replace_by_rename};
use serde_json::json;
use tokio::task::JoinHandle;

use super::{DOMAIN, HOST, Site, address, demo};

const OTHER_HOST: &str = "8000-default--demo.b.example";

pub(super) async fn eventually_true(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    eventually(what, DEADLINE, async || condition().await.then_some(())).await;
}

/// Clients that ask without a pause, counted by themselves.
struct Load {
    over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Two on one connection each, in HTTP/2 and in HTTP/1.1, and two that connect anew for every request.
    fn start(client: &Https, gateway: std::net::SocketAddr) -> Self {
        let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let kinds = [
            ("h2", true, HOST),
            ("http/1.1", true, OTHER_HOST),
            ("h2", false, OTHER_HOST),
            ("http/1.1", false, HOST),
        ];
        let clients = kinds.map(|(protocol, keeps, host)| {
            let (over, answered, client) =
                (over.clone(), answered.clone(), client.clone().speaking(&[protocol]));
            tokio::spawn(async move {
                let mut kept = None;
                while !over.load(Ordering::Relaxed) {
                    let mut secured = match kept.take() {
                        Some(secured) => secured,
                        None => client.connect(gateway, host).await.expect("a handshake"),
                    };
                    let reply = secured.client.send(Request::get("/").host(host)).await.expect("an answer");
                    assert_eq!(reply.sandbox(), "demo");
                    answered.fetch_add(1, Ordering::Relaxed);
                    kept = keeps.then_some(secured);
                }
            })
        });
        Self { over, answered, clients: clients.into() }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends it. Every request was answered, or this fails.
    async fn end(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("no request failed");
        }
        self.answered.load(Ordering::Relaxed)
    }
}

/// A folder as the kubelet mounts a Secret: `tls.crt` and `tls.key` are links through `..data`, which is
/// swapped by rename.
pub(super) struct Secret<'a>(pub(super) &'a Path);

impl Secret<'_> {
    pub(super) fn mount(&self, revision: &str, pair: &Pair) {
        let folder = self.0.join(format!("..{revision}"));
        fs::create_dir_all(&folder).expect("create the revision");
        fs::write(folder.join("tls.crt"), &pair.certificate).expect("write");
        fs::write(folder.join("tls.key"), &pair.key).expect("write");
        let link = self.0.join("..data_tmp");
        symlink(format!("..{revision}"), &link).expect("link the revision");
        fs::rename(&link, self.0.join("..data")).expect("swap the link");
    }
}

#[tokio::test]
async fn however_files_are_replaced_new_connections_get_the_new_certificate_and_no_request_fails() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (_, a) = site.certificate("a", &[DOMAIN]);
    let (certificate, key) = (site.file("a.crt"), site.file("a.key"));
    let mounted = site.file("secret");
    let secret = Secret(&mounted);
    secret.mount("first", &site.authority.pair(&["*.b.example"]));
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("..data/{name}"), mounted.join(name)).expect("link the file");
    }
    let b = json!({ "certificate": mounted.join("tls.crt"), "key": mounted.join("tls.key") });
    let (running, gateway) = site.open(&json!({ "certificates": [a, b] }), &routes).await;
    let load = Load::start(&site.client(), gateway);
    let shows = async |host: &str, pair: &Pair| {
        let secured = site.client().connect(gateway, host).await.expect("a handshake");
        secured.certificate == pair.der
    };
    let answered = async |what: &str| {
        let before = load.answered();
        eventually_true(what, async || load.answered() > before + 20).await;
    };
    answered("requests are answered").await;

    let next = site.authority.pair(&[DOMAIN]);
    replace_by_rename(&certificate, &next.certificate);
    replace_by_rename(&key, &next.key);
    eventually_true("the renamed pair is served", async || shows(HOST, &next).await).await;

    let next = site.authority.pair(&["*.b.example"]);
    secret.mount("second", &next);
    eventually_true("the swapped Secret is served", async || shows(OTHER_HOST, &next).await).await;

    let next = site.authority.pair(&[DOMAIN]);
    fs::write(&certificate, &next.certificate).expect("overwrite");
    fs::write(&key, &next.key).expect("overwrite");
    eventually_true("the overwritten pair is served", async || shows(HOST, &next).await).await;

    // As certbot does it: the links are taken away and made anew.
    let (next, archive) = (site.authority.pair(&[DOMAIN]), site.file("archive"));
    fs::create_dir(&archive).expect("create a folder");
    for (file, name, text) in [(&certificate, "crt", &next.certificate), (&key, "key", &next.key)] {
        fs::write(archive.join(name), text).expect("write");
        fs::remove_file(file).expect("remove");
        symlink(archive.join(name), file).expect("link");
    }
    eventually_true("the linked pair is served", async || shows(HOST, &next).await).await;

    answered("requests are answered after it all").await;
    let (count, said) = (load.end().await, running.stderr());
    assert!(count > 40, "{count} requests");
    assert_eq!(said.matches("loaded again: ").count(), 4, "{said}");
    assert!(!said.contains("Failed to reload"), "Envoy was shown a pair that is none: {said}");
}

#[tokio::test]
async fn a_broken_pair_keeps_the_last_good_one_and_no_other_from_changing() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (first, a) = site.certificate("a", &[DOMAIN]);
    let (_, b) = site.certificate("b", &["*.b.example"]);
    let (running, gateway) = site.open(&json!({ "certificates": [a, b] }), &routes).await;
    let shows = async |host: &str, pair: &Pair| {
        let mut secured = site.client().connect(gateway, host).await.expect("a handshake");
        let reply = secured.client.send(Request::get("/").host(host)).await.expect("an answer");
        reply.sandbox() == "demo" && secured.certificate == pair.der
    };
    let next = site.authority.pair(&[DOMAIN]);
    let half = &next.certificate[..next.certificate.len() / 2];
    let key = fs::read_to_string(site.file("a.key")).expect("read");
    for (certificate, key, words) in [
        (next.certificate.as_str(), key.as_str(), "a.key: not the key of the first certificate in "),
        (half, next.key.as_str(), "a.crt: expected certificates in PEM"),
        (&next.certificate, "", "a.key: expected a private key in PEM"),
    ] {
        fs::write(site.file("a.crt"), certificate).expect("write");
        fs::write(site.file("a.key"), key).expect("write");
        eventually_true(words, async || {
            running
                .stderr()
                .lines()
                .any(|line| line.contains("the last good certificate stays") && line.contains(words))
        })
        .await;
        assert!(shows(HOST, &first).await, "{words}");

        let other = site.authority.pair(&["*.b.example"]);
        replace_by_rename(&site.file("b.crt"), &other.certificate);
        replace_by_rename(&site.file("b.key"), &other.key);
        eventually_true("the other is served", async || shows(OTHER_HOST, &other).await).await;
    }
    fs::write(site.file("a.key"), &next.key).expect("write");
    eventually_true("the repaired pair is served", async || shows(HOST, &next).await).await;
}

/// Closes: after a hot restart the listener named the PEM files itself, so that a new certificate was not
/// followed.
#[tokio::test]
async fn files_are_followed_after_a_hot_restart_too_and_one_into_a_broken_pair_does_not_happen() {
    let (site, (_demo, routes)) = (Site::new(), demo().await);
    let (first, a) = site.certificate("a", &[DOMAIN]);
    let place = Place::reserve();
    let ip = place.ip().to_string();
    let restartable = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        // The address is ours alone, so its ports are free; the admin port is on an address that everybody
        // uses.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|socket| socket.local_addr());
        let admin = free.expect("a free port").port().to_string();
        for (option, value) in [("--port", "7788"), ("--admin-port", admin.as_str())] {
            let at = all.iter().position(|word| *word == option).expect("an option");
            all[at + 1] = value;
        }
        all.extend(["--hot-restart", "--address", &ip, "--drain-time", "1"]);
        Running::start(&all)
    };
    let mut running = site.start(&json!({ "certificates": [a] }), &routes, restartable);
    let gateway = running.printed("the address of the gateway", address).await;
    let shows = async |pair: &Pair| {
        let secured = site.client().connect(gateway, HOST).await.expect("a handshake");
        secured.certificate == pair.der
    };
    let said = async |words: &str| {
        eventually_true(words, async || running.stderr().contains(words)).await;
    };
    let hang_up =
        || Command::new("kill").arg("-HUP").arg(running.pid().to_string()).status().expect("run kill");

    fs::write(site.file("a.key"), "").expect("overwrite");
    hang_up();
    said("no restart, the gateway goes on as it was").await;
    assert!(shows(&first).await);

    let next = site.authority.pair(&[DOMAIN]);
    fs::write(site.file("a.crt"), &next.certificate).expect("overwrite");
    fs::write(site.file("a.key"), &next.key).expect("overwrite");
    hang_up();
    said("the old Envoy has ended").await;
    assert!(shows(&next).await);
    let last = site.authority.pair(&[DOMAIN]);
    fs::write(site.file("a.crt"), &last.certificate).expect("overwrite");
    fs::write(site.file("a.key"), &last.key).expect("overwrite");
    eventually_true("the overwritten pair is served", async || shows(&last).await).await;
}
