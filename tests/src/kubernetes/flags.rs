//! The flags of the two programs, the same for our build of them and for the binaries of an envtest folder;
//! and those of controllers and scheduler, which only our build has.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use serde_json::json;

use super::access::kubeconfig;

/// The token of the administrator. The server is on loopback and ends with the test.
pub(super) const ADMIN_TOKEN: &str = "admin-of-one-test";
pub(super) const ETCD_PORT: u16 = 2379;
pub(super) const SECURE_PORT: u16 = 6443;

/// Room for 100,000 sandboxes with their pod templates.
const ETCD_QUOTA: u64 = 8 << 30;

/// What one server is started with; the same each time it comes back.
pub(super) struct Flags {
    pub(super) etcd: Vec<String>,
    pub(super) apiserver: Vec<String>,
    /// `None`: neither controllers nor scheduler.
    pub(super) controllers: Option<Vec<String>>,
}

/// What a scenario adds to the flags.
#[derive(Debug, Default)]
pub(super) struct Extra {
    pub(super) apiserver: Vec<String>,
    pub(super) controllers: Option<Vec<String>>,
}

pub(super) fn url(ip: IpAddr) -> String {
    format!("https://{ip}:{SECURE_PORT}")
}

pub(super) fn etcd_url(ip: IpAddr) -> String {
    format!("http://{ip}:{ETCD_PORT}")
}

/// The file that holds the serving certificate and its authority: kube-apiserver signs its own.
pub(super) fn authority(folder: &Path) -> std::path::PathBuf {
    folder.join("pki/apiserver.crt")
}

/// Writes the files that the flags name, and gives the flags. `extra` comes last and so wins.
pub(super) fn prepare(ip: IpAddr, folder: &Path, extra: &Extra) -> Flags {
    let tokens = folder.join("tokens.csv");
    let line = format!("{ADMIN_TOKEN},admin,admin,system:masters\n");
    fs::write(&tokens, line).expect("write the token file");
    let (client, peer) = (etcd_url(ip), format!("http://{ip}:2380"));
    let pki = folder.join("pki");
    let (pki, key) = (pki.display(), pki.join("apiserver.key"));
    let etcd = vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        format!("--quota-backend-bytes={ETCD_QUOTA}"),
        // What is acknowledged survives a kill without it; only a crash of the machine needs it.
        "--unsafe-no-fsync=true".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    let mut apiserver = vec![
        format!("--etcd-servers={client}"),
        // History goes when a scenario says so, not by a clock.
        "--etcd-compaction-interval=0".to_owned(),
        format!("--bind-address={ip}"),
        format!("--advertise-address={ip}"),
        format!("--secure-port={SECURE_PORT}"),
        format!("--cert-dir={pki}"),
        format!("--token-auth-file={}", tokens.display()),
        "--authorization-mode=RBAC".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", key.display()),
        format!("--service-account-key-file={}", key.display()),
        "--service-account-extend-token-expiration=false".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--profiling=false".to_owned(),
    ];
    if extra.controllers.is_none() {
        // It would want an account in every namespace, and no controller makes one here.
        apiserver.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    apiserver.extend_from_slice(&extra.apiserver);
    let controllers = extra.controllers.as_ref().map(|flags| {
        let file = folder.join("controllers.kubeconfig");
        let admin = kubeconfig(&url(ip), Some(&authority(folder)), &json!({ "token": ADMIN_TOKEN }));
        fs::write(&file, admin.to_string()).expect("write the controllers' kubeconfig");
        let mut all = vec![format!("--kubeconfig={}", file.display())];
        all.extend_from_slice(flags);
        all
    });
    Flags { etcd, apiserver, controllers }
}
