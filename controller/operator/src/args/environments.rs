//! The options of the controllers of environments.

use clap::Args;

use super::ActivityArgs;

/// Environments, and their pools.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Environments (agents.navix.sh)")]
pub struct EnvArgs {
    /// The cluster that this is, as environments name it. Only its part of an environment is ever written, so
    /// the controllers of environments do not start without it
    #[arg(long, env = "LOCAL_CLUSTER_ID", value_name = "NAME", default_value = "")]
    pub local_cluster_id: String,

    /// The clusters that there are, with commas between them. What environments say about others is taken
    /// out; without this option nothing is
    #[arg(long, env = "SANDGATE_OPERATOR_CLUSTERS", value_name = "NAMES", value_delimiter = ',')]
    pub clusters: Vec<String>,

    /// What the release of unused sandboxes goes by.
    #[command(flatten)]
    pub activity: ActivityArgs,
}
