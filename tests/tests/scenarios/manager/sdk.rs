//! The published SDKs of E2B, as people install them, from create to kill.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use sandgate_tests::cluster::{Cluster, Manager, SYSTEM_NAMESPACE};
use sandgate_tests::deploy::{Audit, folder};
use sandgate_tests::{Authority, DEADLINE, E2bSdk, Edition, LoopbackPort, Running, Where, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{BASE, NAMESPACE, Site};

fn rights() -> String {
    std::fs::read_to_string(folder().join("rbac/manager.yaml")).expect("the manager's rights")
}

/// An account with the rights that are shipped for the manager and no others: its kubeconfig, and its name.
async fn account(cluster: &Cluster) -> (PathBuf, String) {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": SYSTEM_NAMESPACE } });
    cluster.api().apply(&namespace.to_string()).await;
    cluster.api().apply(&rights()).await;
    let account = cluster.api().service_account(SYSTEM_NAMESPACE, "sandgate-manager").await;
    (cluster.api().kubeconfig(&account.token().await), account.user())
}

/// What came of each call: a value, or the name of an exception.
fn assert_came(seen: &Value, values: &[(&str, Value)], exceptions: &[(&str, &str)]) {
    let values = values.iter().filter(|(call, value)| seen[call]["value"] != *value).map(|(call, _)| call);
    let exceptions = exceptions.iter().filter(|(call, name)| seen[call]["exception"] != *name);
    let wrong: Vec<String> = values
        .chain(exceptions.map(|(call, _)| call))
        .map(|call| format!("{call} is {}", seen[call]))
        .collect();
    assert!(wrong.is_empty(), "{}\n\nof: {seen:#}", wrong.join("\n"));
}

/// What came of two sandboxes whose timeout passed.
pub(super) fn timeouts(seen: &Value, not_found: &str) {
    let values = [
        ("ended_is_running", "False"),
        ("left_over", "True"),
        ("auto_paused", "True"),
        ("auto_paused_running", "[]"),
        ("woken", "still here\n"),
        ("woken_running", "True"),
        ("woken_kill", "True"),
    ];
    let exceptions = [("ended_info", not_found), ("ended_connect", not_found)];
    assert_came(seen, &values.map(|(call, value)| (call, json!(value))), &exceptions);
}

/// Python's outcomes, of both versions but for the exceptions that 2.8.1 does not have.
fn python(seen: &Value, version: &str) {
    let old = version == "2.8.1";
    let not_found = if old { "NotFoundException" } else { "SandboxNotFoundException" };
    let values = [
        ("version", version),
        ("is_running", "True"),
        ("env", "hello there\n"),
        ("write", "/home/user/note.txt"),
        ("read", "written by the SDK"),
        ("same", "written by the SDK"),
        ("info", r#"["base", true, "running"]"#),
        ("info_id", "True"),
        ("left", "5"),
        ("set_timeout", "15"),
        ("shorter", "2"),
        ("listed", "True"),
        ("listed_one", "True"),
        ("listed_other", "[]"),
        ("listed_paused", "[]"),
        ("connected", "written by the SDK"),
        ("metrics", "[true, true, true]"),
        ("other_kill", "False"),
        ("other_list", "0"),
        ("untouched", "written by the SDK"),
        ("pause", "True"),
        ("pause_again", if old { "None" } else { "False" }),
        ("paused_state", "paused"),
        ("paused_listed", "True"),
        ("paused_running", "[]"),
        ("paused_is_running", "False"),
        ("paused_metrics", "[]"),
        ("resume", "True"),
        ("resumed_state", "['running', 10]"),
        ("resumed_env", "hello there\n"),
        ("resumed_write", "once more"),
        ("kill", "True"),
        ("kill_again", "False"),
        ("killed_listed", "[]"),
        ("killed_is_running", "False"),
        ("private_token", "[True, None]"),
        ("private_envd", "in"),
        ("private_connected", "True"),
        ("private_paused", "True"),
        ("private_resumed", "True"),
        ("private_kill", "True"),
        ("many", "[20, true]"),
        ("paging", "[20, 20, 6]"),
        ("all_killed", "[20, true, []]"),
    ];
    let exceptions = [
        ("failed", "CommandExitException"),
        ("wrong_key", "AuthenticationException"),
        ("wrong_key_list", "AuthenticationException"),
        ("other_info", not_found),
        ("other_connect", not_found),
        ("other_timeout", not_found),
        ("never_was", not_found),
        ("killed_info", not_found),
        ("killed_connect", not_found),
    ];
    assert_came(seen, &values.map(|(call, value)| (call, json!(value))), &exceptions);
    timeouts(seen, not_found);
    let unknown = seen["unknown_template"]["message"].as_str().expect("an exception");
    assert!(unknown.contains("no-such-template"), "it says which template: {unknown}");
    // Nobody learns from the words whether another key has such a sandbox.
    let words = |call: &str| seen[call]["message"].as_str().expect("an exception").to_owned();
    assert_eq!(words("other_connect").len(), words("killed_connect").len());
}

fn javascript(seen: &Value) {
    let values = [
        ("isRunning", json!(true)),
        ("env", json!("hello there\n")),
        ("write", json!("/home/user/note.txt")),
        ("read", json!("written by the SDK")),
        ("info", json!([BASE, true, "running"])),
        ("setTimeout", json!(15)),
        ("listed", json!(true)),
        ("metrics", json!([true, true, 0])),
        ("otherKill", json!(false)),
        ("pause", json!(true)),
        ("pauseAgain", json!(false)),
        ("paused", json!([BASE, true, "paused"])),
        ("connect", json!(true)),
        ("resumed", json!([BASE, true, "running"])),
        ("resumedEnv", json!("hello there\n")),
        ("many", json!([5, true])),
        ("kill", json!(true)),
        ("killAgain", json!(false)),
    ];
    let exceptions = [
        ("wrongKey", "AuthenticationError"),
        ("otherInfo", "SandboxNotFoundError"),
        ("killedInfo", "SandboxNotFoundError"),
    ];
    assert_came(seen, &values, &exceptions);
    let unknown = seen["unknownTemplate"]["message"].as_str().expect("an exception");
    assert!(unknown.contains("no-such-template"), "it says which template: {unknown}");
}

/// `sandgate run` as people start it: with certificates for a domain, sandboxes of a cluster, and the manager
/// behind it. Names below `localhost` are this machine, so not even DNS is stood in for.
struct Door {
    _running: Running,
    domain: String,
    authority: Authority,
    _folder: TempDir,
}

impl Door {
    async fn open(site: &Site, manager: &Manager, pushes: SocketAddr) -> Self {
        let folder = TempDir::with_prefix("sandgate-manager-").expect("create a folder");
        let authority = Authority::new(folder.path());
        let pair = authority.pair(&["*.sandboxes.localhost"]);
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("write");
            path.display().to_string()
        };
        let certificate =
            json!({ "certificate": file("crt.pem", &pair.certificate), "key": file("key.pem", &pair.key) });
        let providers = json!([{ "kind": "openkruise", "namespaces": [NAMESPACE] }]);
        let config = json!({
            "tls": { "certificates": [certificate] },
            "manager": { "address": manager.address().to_string() },
            "gateway": {
                "kubernetes": { "kubeconfig": site.cluster.kubeconfig(), "providers": providers },
                "pod-ranges": ["127.0.0.0/8"],
                "refresh": {
                    "address": pushes.ip(), "port": pushes.port(), "provider": "openkruise", "insecure": true,
                },
            },
        });
        let config = file("gateway.yaml", &config.to_string());
        let mut running = Running::start(&["run", "--port", "0", "--admin-port", "0", "--config", &config]);
        let address = |output: &str| -> Option<SocketAddr> {
            let line = output.lines().find(|line| line.trim().starts_with("gateway"))?;
            line.split("https://").nth(1)?.trim().parse().ok()
        };
        let address = running.printed("the address of the gateway", address).await;
        let domain = format!("sandboxes.localhost:{}", address.port());
        Self { _running: running, domain, authority, _folder: folder }
    }
}

/// Python has nothing but a domain and a key; JavaScript has two URLs. After a connect 2.8.1 names the
/// sandbox by the host alone, so it needs a domain.
#[tokio::test]
async fn the_published_sdks_live_from_create_to_kill() {
    let files = TempDir::with_prefix("sandgate-rights-").expect("create a folder");
    let (cluster, audit) = Audit::of(Cluster::builder(), files.path());
    let site = Site::of(cluster.start().await).await;
    let (kubeconfig, user) = account(&site.cluster).await;
    let gateway = site.gateway(&site.cluster.kubeconfig()).await;
    site.template(BASE, "envd", 4).await;
    let pushes = LoopbackPort::reserve();
    let pushes = SocketAddr::from((Ipv4Addr::LOCALHOST, pushes.number()));
    let manager = site.cluster.manager().kubeconfig(&kubeconfig).gateway(&gateway).await;
    let manager = manager.gateway_at(pushes).start().await;
    let door = Door::open(&site, &manager, pushes).await;
    let [new, old, js, other] = ["new", "old", "js", "other"].map(|name| site.cluster.api_key(name));
    let (new, old, js, other) = tokio::join!(new, old, js, other);

    let (api, sandboxes) = (manager.url(), format!("http://{}", gateway.address()));
    let urls = Where::Urls { api: &api, sandboxes: &sandboxes };
    let authority = door.authority.file();
    let domain = Where::Domain(&door.domain, &authority);
    let live = |edition, place, key| E2bSdk::live(edition, place, [key, other.as_str()], BASE);
    let (today, javascripts) =
        tokio::join!(live(Edition::Python, domain, &new), live(Edition::JavaScript, urls, &js));
    python(&today, "2.63.0");
    javascript(&javascripts);
    python(&live(Edition::Python281, domain, &old).await, "2.8.1");

    // Whatever was made is gone, and the pool is full again.
    site.claimed_are(0).await;
    site.is_warm(BASE, 4).await;
    // A key says nothing in a log.
    let log = manager.log();
    for key in [&new, &old, &js, &other] {
        assert!(!log.contains(key.as_str()), "a key is in the log");
    }

    // All that with the rights that are shipped.
    let (_, refused) = audit.asked(&user);
    assert!(refused.is_empty(), "a right is missing: {refused:#?}");

    // A key that is revoked is refused soon; the others are not.
    let listed = manager.ask(&other, "GET", "/v2/sandboxes", None).await;
    assert_eq!((listed.status, listed.json()), (200, json!([])));
    site.cluster.revoke_key("other").await;
    eventually("the key is refused", DEADLINE, async || {
        (manager.ask(&other, "GET", "/v2/sandboxes", None).await.status == 401).then_some(())
    })
    .await;
    assert_eq!(manager.ask(&new, "GET", "/v2/sandboxes", None).await.status, 200);
}
