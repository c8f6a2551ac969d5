//! The command line. Each option is defined once, here, and may be given in the environment as well.

mod env_pool;
mod environments;
mod opensandbox;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueEnum};
use sandgate_follow::Access;

use crate::{Times, TimesError};
pub use env_pool::{ActivityArgs, ActivityArgsError};
pub use environments::EnvArgs;
pub use opensandbox::{Bind, Concurrency, OpenSandboxArgs};

/// Makes and keeps sandboxes: the controllers of Sandbox and SandboxSet (agents.kruise.io/v1alpha1), and
/// those of BatchSandbox, Pool and SandboxSnapshot (sandbox.opensandbox.io/v1alpha1), and those of SandboxEnv
/// and SandboxPool (agents.navix.sh/v1alpha1).
#[derive(Clone, Debug, Parser)]
#[command(
    name = "sandgate-operator",
    version,
    max_term_width = 110,
    // Of an option that is given twice the last counts, as for OpenSandbox's operator.
    args_override_self = true,
    after_help = "\
Examples:
  sandgate-operator
      In a pod: with the pod's own access, one of several replicas.
  sandgate-operator --kubeconfig ~/.kube/config --leader-elect=false
      On your machine, alone: it leads at once.
  sandgate-operator --controllers sandbox --namespace team-a
      Only sandboxes, and only those of one namespace.
  sandgate-operator --controllers batchsandbox,pool,sandboxsnapshot --concurrency 'batchsandbox=64;pool=32'
      In the place of OpenSandbox's operator, whose options are taken as well.
  curl 127.0.0.1:8090/readyz
      What is missing until it can work, such as a CRD that is not installed.

Replicas agree on a leader by a Lease. The others stand by: they watch, are ready, and change nothing. A leader that stops \
hands over at once; one that dies is followed after --lease-duration.

The CRDs, and the rights that this program needs, are part of the Helm chart. A CRD that is missing is waited for.

SIGTERM and SIGINT finish what is under way, give up the lease and end with 0. A second one ends at once. The exit code is \
2 if an option is wrong, and 1 if something could not start or ended."
)]
pub struct Args {
    /// Which controllers to run, with commas between them
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_CONTROLLERS",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "sandbox,sandboxset"
    )]
    pub controllers: Vec<ControllerName>,
    /// Only this namespace [default: all of them]
    #[arg(
        long,
        short = 'n',
        alias = "watch-namespace",
        env = "SANDGATE_OPERATOR_NAMESPACE",
        value_name = "NAME"
    )]
    pub namespace: Option<String>,
    /// The kubeconfig [default: the pod's own access, else KUBECONFIG or ~/.kube/config]
    #[arg(long, env = "SANDGATE_OPERATOR_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, env = "SANDGATE_OPERATOR_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Agree with other replicas on one that leads; without this, never run two
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_LEADER_ELECT",
        value_name = "BOOL",
        value_parser = opensandbox::go_bool,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_value_t = true,
        default_missing_value = "true"
    )]
    pub leader_elect: bool,
    /// The name of the Lease
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_LEASE_NAME",
        value_name = "NAME",
        default_value = "sandgate-operator"
    )]
    pub lease_name: String,
    /// The namespace of the Lease [default: the pod's, else default]
    #[arg(long, env = "SANDGATE_OPERATOR_LEASE_NAMESPACE", value_name = "NAME")]
    pub lease_namespace: Option<String>,
    /// How long a leader that is not heard of keeps the lease
    #[arg(long, env = "SANDGATE_OPERATOR_LEASE_DURATION", value_name = "SECONDS", default_value_t = 15)]
    pub lease_duration: u64,
    /// How long a leader goes on that cannot renew the lease; less than --lease-duration
    #[arg(long, env = "SANDGATE_OPERATOR_RENEW_DEADLINE", value_name = "SECONDS", default_value_t = 10)]
    pub renew_deadline: u64,
    /// How often the lease is renewed and looked at; at most half of --renew-deadline
    #[arg(long, env = "SANDGATE_OPERATOR_RETRY_PERIOD", value_name = "SECONDS", default_value_t = 2)]
    pub retry_period: u64,
    /// How many objects each controller works on at a time; for OpenSandbox's kinds see --concurrency
    #[arg(
        long,
        env = "SANDGATE_OPERATOR_WORKERS",
        value_name = "N",
        default_value_t = 8,
        value_parser = clap::value_parser!(u16).range(1..=256)
    )]
    pub workers: u16,
    /// Where /healthz, /readyz and /metrics are; port 0 for a free one, which is logged
    #[arg(long, env = "SANDGATE_OPERATOR_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    /// How much to log: error, warn, info, debug or trace, or a list such as info,sandgate_operator=debug
    #[arg(long, env = "SANDGATE_OPERATOR_LOG", value_name = "LEVELS", default_value = "info")]
    pub log: String,
    /// How to log, on standard error
    #[arg(long, env = "SANDGATE_OPERATOR_LOG_FORMAT", value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// The controllers of OpenSandbox's kinds.
    #[command(flatten)]
    pub opensandbox: OpenSandboxArgs,
    /// The controllers of environments.
    #[command(flatten)]
    pub environments: EnvArgs,
}

/// A controller, as `--controllers` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum ControllerName {
    /// The one of sandboxes.
    #[value(name = "sandbox")]
    Sandbox,
    /// The one of sets of sandboxes.
    #[value(name = "sandboxset")]
    SandboxSet,
    /// The one of OpenSandbox's batches.
    #[value(name = "batchsandbox")]
    BatchSandbox,
    /// The one of OpenSandbox's pools.
    #[value(name = "pool")]
    Pool,
    /// The one of OpenSandbox's snapshots.
    #[value(name = "sandboxsnapshot")]
    SandboxSnapshot,
    /// The one of environments.
    #[value(name = "sandboxenv")]
    SandboxEnv,
    /// The one of the pools of environments.
    #[value(name = "sandboxpool")]
    EnvPool,
    /// The one that gives lone pools an environment.
    #[value(name = "pooladoption")]
    PoolAdoption,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Args {
    /// Which cluster, and with which credentials.
    pub fn access(&self) -> Access {
        Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() }
    }

    /// The controllers, each once.
    pub fn controllers(&self) -> BTreeSet<ControllerName> {
        self.controllers.iter().copied().collect()
    }

    /// The durations of the election.
    ///
    /// # Errors
    /// If they do not fit together.
    pub fn times(&self) -> Result<Times, TimesError> {
        let [duration, renew, retry] =
            [self.lease_duration, self.renew_deadline, self.retry_period].map(Duration::from_secs);
        Times::new(duration, renew, retry)
    }
}
