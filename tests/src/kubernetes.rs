//! A real control plane for the scenarios: kube-apiserver on etcd, in one process on an address of its own.
//!
//! [`ApiServer::shared`] is one server for the whole test process: each scenario works in namespaces of its
//! own ([`ApiServer::namespace`]). A scenario that kills the server, compacts its history or switches its
//! features starts its own ([`ApiServer::builder`]). Either has the definitions of the three providers
//! (`tests/crds`), and neither can outlive the test: the process ends when its standard input does.
//!
//! [`kruise`], [`agent_sandbox`] and [`opensandbox`] write sandboxes as their controllers would; [`Wire`]
//! stands between a gateway and the server and spoils what passes.
//!
//! The program is `tests/cluster` (`SANDGATE_CLUSTER`), here without controllers and scheduler; where
//! `KUBEBUILDER_ASSETS` names a folder, its `etcd` and `kube-apiserver` are started instead, with the same
//! flags.

mod access;
mod apply;
mod flags;
mod object;
mod process;
mod providers;
mod seed;
mod server;
mod template;
mod wire;

pub use access::ServiceAccount;
pub use apply::documents;
pub(crate) use object::timestamp;
pub use object::{Draft, Object};
pub use providers::{Kind, agent_sandbox, kruise, opensandbox};
pub use server::{ApiServer, ApiServerBuilder};
pub use template::pod_template;
pub use wire::{Ask, Fault, Seen, Wire};
