//! A manager alone: with a certificate of its own, with keys that change while it runs, and `sandgate keys`
//! when answers get lost.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use sandgate_tests::cluster::{Cluster, Manager, api_request};
use sandgate_tests::kubernetes::{ApiServer, Ask, Fault, Wire};
use sandgate_tests::{
    Authority, Cli, Client, DEADLINE, Https, Pair, Request, Secured, eventually, eventually_every,
    replace_by_rename,
};
use serde_json::Value;
use tempfile::TempDir;

const NAME: &str = "manager.test";
/// How long a key that is rotated away is still good: longer than the manager needs to hear of the new one.
const OVERLAP: Duration = Duration::from_secs(15);
/// Between two questions with a key: a manager counts them, wrong keys above all.
const PACE: Duration = Duration::from_millis(300);
/// A manager writes when keys were used after 20 to 40 seconds.
const NOTED: Duration = Duration::from_secs(90);
const LEFT_AS_IT_WAS: &str = "the certificate has changed and the old one is kept";

/// Runs `sandgate keys` with the rights of this kubeconfig.
async fn keys(kubeconfig: &Path, arguments: &[&str]) -> Cli {
    let kubeconfig = kubeconfig.to_str().expect("a path of text");
    Cli::run(&[&["keys"][..], arguments, &["--json", "--kubeconfig", kubeconfig]].concat()).await
}

/// What a command that was done says.
fn said(done: &Cli) -> Value {
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    serde_json::from_str(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.stdout))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// A manager whose API is https.
struct Secure {
    manager: Manager,
    authority: Authority,
    folder: TempDir,
    first: Pair,
}

impl Secure {
    async fn start(cluster: &Cluster) -> Self {
        let folder = TempDir::with_prefix("sandgate-manager-").expect("create a folder");
        let authority = Authority::new(folder.path());
        let first = authority.pair(&[NAME]);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).expect("write");
            path.display().to_string()
        };
        let certificate = format!("--tls-cert={}", file("tls.crt", &first.certificate));
        let key = format!("--tls-key={}", file("tls.key", &first.key));
        let manager = cluster.manager().flag(&certificate).flag(&key).start().await;
        Self { manager, authority, folder, first }
    }

    fn address(&self) -> SocketAddr {
        self.manager.address()
    }

    async fn connect(&self) -> Secured {
        let client = Https::trusting(&self.authority.file());
        client.connect(self.address(), NAME).await.unwrap_or_else(|e| panic!("{e}\n{}", self.manager.log()))
    }

    /// What a list is answered with.
    async fn status(&self, key: &str) -> u16 {
        let request = api_request(key, "GET", "/v2/sandboxes", None);
        self.connect().await.client.send(request).await.expect("an answer").status
    }
}

/// The certificate is replaced, and a broken one is not taken. Connections that are open go on.
async fn certificates(secure: &Secure) {
    let health = || Request::get("/health").host(NAME);
    let mut open = secure.connect().await;
    assert_eq!((open.certificate == secure.first.der, open.protocol.as_str()), (true, "http/1.1"));
    assert_eq!(open.client.send(health()).await.expect("an answer").status, 200);
    // Nobody is served in plain HTTP beside it.
    let plain = Client::http1(secure.address()).await.expect("connect").send(health()).await;
    assert!(plain.is_err(), "{:?}", plain.map(|reply| reply.status));

    let second = secure.authority.pair(&[NAME]);
    let file = |name: &str| secure.folder.path().join(name);
    replace_by_rename(&file("tls.key"), &second.key);
    replace_by_rename(&file("tls.crt"), &second.certificate);
    eventually("the new certificate is shown", DEADLINE, async || {
        (secure.connect().await.certificate == second.der).then_some(())
    })
    .await;

    let refusals = || secure.manager.log().matches(LEFT_AS_IT_WAS).count();
    let before = refusals();
    replace_by_rename(&file("tls.crt"), "no certificate");
    eventually("the broken certificate is refused", DEADLINE, async || (refusals() > before).then_some(()))
        .await;
    let mut anew = secure.connect().await;
    assert!(anew.certificate == second.der, "the last good one");
    for client in [&mut anew.client, &mut open.client] {
        assert_eq!(client.send(health()).await.expect("an answer").status, 200);
    }
}

/// A key is rotated: both are good for a while, and then the new one alone. Its use is written down.
async fn rotation(secure: &Secure, kubeconfig: &Path) {
    let first = said(&keys(kubeconfig, &["create", "--name", "rotated"]).await);
    let (id, old) = (text(&first, "id"), text(&first, "key"));
    let known = async |key: &str| {
        let is_known = async || (secure.status(key).await == 200).then_some(());
        eventually_every(PACE, "the key is known", DEADLINE, is_known).await;
    };
    known(old).await;

    // The command reads the clock after this.
    let good_until = Instant::now() + OVERLAP;
    let overlap = format!("{}s", OVERLAP.as_secs());
    let second = said(&keys(kubeconfig, &["rotate", id, "--overlap", &overlap]).await);
    assert_eq!(text(&second, "id"), id);
    let new = text(&second, "key");
    assert_ne!(new, old);
    known(new).await;
    let status = eventually_every(PACE, "the old key ends", OVERLAP + DEADLINE, async || {
        let status = secure.status(old).await;
        // What is answered before then is answered as if nothing had happened.
        assert!(status == 200 || Instant::now() >= good_until, "{status} before its time");
        (status != 200).then_some(status)
    })
    .await;
    assert_eq!(status, 401);
    assert_eq!(secure.status(new).await, 200);

    let used = eventually_every(PACE, "the last use is written", NOTED, async || {
        let listed = said(&keys(kubeconfig, &["list"]).await);
        let found = listed.as_array()?.iter().find(|key| key["id"] == id)?;
        Some(found["lastUsedAt"].as_str()?.to_owned())
    })
    .await;
    // Times as text, to the second: they compare as times do.
    assert!(used[..19] >= text(&first, "createdAt")[..19], "{used}");
}

#[tokio::test]
async fn a_manager_takes_new_certificates_and_new_keys_while_it_runs() {
    let cluster = Cluster::builder().start().await;
    let secure = Secure::start(&cluster).await;
    let kubeconfig = cluster.kubeconfig();
    tokio::join!(certificates(&secure), rotation(&secure, &kubeconfig));
}

/// The ends of a key, as its list shows them.
fn mask(key: &str) -> String {
    let digits = key.strip_prefix("e2b_").expect("a key");
    format!("e2b_{}...{}", &digits[..4], &digits[36..])
}

#[tokio::test]
async fn a_key_that_was_written_is_shown_though_the_answer_is_lost_and_one_that_was_not_is_not() {
    let api = ApiServer::shared().await;
    let (namespace, wire) = (api.namespace("keys").await, Wire::to(&api).await);
    let kubeconfig = wire.kubeconfig(wire.admin_token());
    let run = async |arguments: &[&str]| {
        keys(&kubeconfig, &[arguments, &["--system-namespace", namespace.as_str()]].concat()).await
    };
    let masks = async || -> Vec<String> {
        let listed = said(&run(&["list"]).await);
        listed.as_array().expect("a list").iter().map(|key| text(key, "mask").to_owned()).collect()
    };

    wire.once(Ask::Write, Fault::LoseAnswer);
    let made = said(&run(&["create", "--name", "lost"]).await);
    assert!(wire.is_spent());
    assert_eq!(masks().await, [mask(text(&made, "key"))]);

    wire.once(Ask::Write, Fault::LoseAnswer);
    let id = text(&made, "id");
    let rotated = said(&run(&["rotate", id]).await);
    assert!(wire.is_spent());
    assert_ne!(rotated["key"], made["key"]);
    assert_eq!(masks().await, [mask(text(&rotated, "key"))]);

    // An answer that leaves it open, and nothing was done.
    for arguments in [&["create", "--name", "other"][..], &["rotate", id]] {
        wire.once(Ask::Write, Fault::Answer(500));
        let failed = run(arguments).await;
        assert_eq!((failed.code, failed.stdout.as_str()), (Some(1), ""), "{}", failed.stderr);
        assert!(failed.stderr.contains("does not have the new key"), "{}", failed.stderr);
        assert!(wire.is_spent());
        assert_eq!(masks().await, [mask(text(&rotated, "key"))]);
    }
}
