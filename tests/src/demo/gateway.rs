//! The gateway of the demo: `sandgate run`, as people start it.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::json;

use super::PATIENCE;
use crate::cluster::{Cluster, Daemon};
use crate::{Client, Request, eventually, locations};

pub(super) struct Gateway {
    daemon: Daemon,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Gateway {
    pub(super) async fn start(cluster: &Cluster, port: u16, admin_port: u16) -> Self {
        let folder = cluster.folder("gateway");
        let config = folder.join("gateway.json");
        let kubernetes =
            json!({ "kubeconfig": cluster.kubeconfig(), "providers": [{ "kind": "openkruise" }] });
        // Pods are processes of this machine here, on addresses that no real pod has.
        // The manager tells it of what it does. It asks for no secret, because nobody else reaches the port.
        let refresh =
            json!({ "address": "127.0.0.1", "port": 0, "provider": "openkruise", "insecure": true });
        let settings = json!({ "gateway": {
            "kubernetes": kubernetes, "pod-ranges": ["127.0.0.0/8"], "refresh": refresh,
        } });
        std::fs::write(&config, settings.to_string()).expect("write the gateway's config");
        let mut command = Command::new(locations::cli());
        command.arg("run").arg("--config").arg(&config).args(["--drain-time", "0"]);
        command.args(["--port", &port.to_string(), "--admin-port", &admin_port.to_string()]);
        command.env("TMPDIR", &folder);
        let mut daemon = Running(Some(Daemon::start("the gateway", &command, &folder.join("log"), "TERM")));
        let (address, admin) = eventually("the gateway is ready", PATIENCE, async || {
            let running = daemon.0.as_mut().expect("it was started");
            running.assert_alive();
            let log = running.log();
            Some((url(&log, "  gateway ")?, url(&log, "  admin ")?))
        })
        .await;
        let daemon = daemon.0.take().expect("it was started");
        Self { daemon, address, admin }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Where the manager tells it of routes.
    pub(super) async fn pushed_to(&self) -> SocketAddr {
        eventually("the gateway listens for the manager", PATIENCE, async || {
            let mut client = Client::http1(self.admin).await.ok()?;
            let status = client.send(Request::get("/sandgate/status")).await.ok()?;
            status.json()["refresh"]["listening"].as_str()?.parse().ok()
        })
        .await
    }

    pub(super) fn assert_alive(&mut self) {
        self.daemon.assert_alive();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.daemon.terminate();
    }
}

/// A gateway that is not ready yet, and ends as one that is.
struct Running(Option<Daemon>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.0 {
            daemon.terminate();
        }
    }
}

/// The address on the line of `sandgate run` that begins with `word`.
fn url(log: &str, word: &str) -> Option<SocketAddr> {
    let rest = log.lines().find_map(|line| line.strip_prefix(word))?.trim().strip_prefix("http://")?;
    rest.split('/').next()?.parse().ok()
}
