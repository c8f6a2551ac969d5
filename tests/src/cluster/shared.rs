//! A cluster for scenarios that need no more of one than a namespace.

use std::time::Duration;

use tokio::sync::OnceCell;

use super::{Cluster, Node};
use crate::kubernetes::ApiServer;

struct Shared {
    cluster: Cluster,
    // Held as long as the process: nobody else ends it.
    _node: Node,
}

impl Cluster {
    /// The cluster that scenarios of this process share, with our definitions and one node, `a`. Each works
    /// in a namespace of its own and brings an operator for that namespace alone
    /// ([`OperatorBuilder::opensandbox`](super::OperatorBuilder::opensandbox)). Whoever kills or cuts more
    /// than that starts its own.
    pub async fn shared() -> Self {
        static SHARED: OnceCell<Shared> = OnceCell::const_new();
        let shared = SHARED.get_or_init(async || {
            let api = ApiServer::shared_with_controllers().await;
            let kubeconfig = api.admin_kubeconfig();
            let cluster = Self { api, kubeconfig, heartbeat: Duration::from_secs(2) };
            cluster.install_definitions().await;
            let node = cluster.node("a").start().await;
            Shared { cluster, _node: node }
        });
        let Self { api, kubeconfig, heartbeat } = &shared.await.cluster;
        // A client lives on the runtime that made it, so each scenario has its own.
        Self { api: api.on_this_runtime().await, kubeconfig: kubeconfig.clone(), heartbeat: *heartbeat }
    }
}
