//! The options of `sandgate check`.

use std::path::PathBuf;

use clap::Args;

use crate::terminal::lesson;

/// Connect to a cluster as a gateway would, and say line by line what works and what helps where it does not.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate check
      Your kubectl's cluster (in a pod: the pod's own), every kind of sandbox but sandbox-env, whose pods
      say nothing of whether it is there: name it with --provider.
  sandgate check --config gateway.yaml
      Exactly what `sandgate run --config gateway.yaml` would watch.
  sandgate check --provider openkruise --kubeconfig gateway.kubeconfig
      With the credentials that the gateway will have: yours may do more than it may.
  sandgate check --json | jq -r '.checks[] | select(.mark == \"fail\").hint'

What is looked at, in this order:
  API server    whether it can be reached, its certificate, its version
  identity      who it takes you for
  definition    whether it serves the kind, in the version that is read
  rights        to list and to watch; a hint names the file to apply
  list          one complete list: how, how many objects, how long
  sandboxes     how many are in which state; only running ones are served
  unreadable    objects that have no route, and which field is to blame

Nothing in the cluster is changed, and no token is shown.

Exit code: 0 if a gateway would work (there may be warnings), 1 if something failed, 2 if the command line or a file is wrong."))]
pub(crate) struct Check {
    /// The config file given to `sandgate run`: its gateway.kubernetes section is checked
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A kubeconfig, instead of the configured one [default: the pod's own access, else KUBECONFIG or
    /// ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Only this provider: openkruise, agent-sandbox, opensandbox, sandbox-env, or one of the config; may be
    /// repeated
    #[arg(long = "provider", value_name = "NAME")]
    pub(crate) providers: Vec<String>,
    /// Only this namespace; may be repeated
    #[arg(long = "namespace", short = 'n', value_name = "NAME")]
    pub(crate) namespaces: Vec<String>,
    /// How long one answer may take; a list may take longer, as long as objects arrive
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) timeout: u64,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
