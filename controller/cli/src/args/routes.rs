//! The options of `sandgate routes`.

use clap::Args;

use crate::terminal::lesson;

/// List the routes of a running gateway.
#[derive(Args)]
#[command(after_help = lesson("\
Examples:
  sandgate routes
  sandgate routes --state paused --namespace team
  sandgate routes --id default--demo
  sandgate routes --json | jq -r '.[].ip'

Tokens are never shown: AUTH says whether a route has one. Exit code: 1 if there is no route with the --id."))]
pub(crate) struct Routes {
    /// Where the gateway's admin pages are
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9901")]
    pub(crate) admin: String,
    /// Only routes in this state
    #[arg(long, value_parser = ["creating", "available", "running", "paused", "dead"])]
    pub(crate) state: Option<String>,
    /// Only routes of this namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only routes whose id begins so
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only the route with this id
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix"])]
    pub(crate) id: Option<String>,
    /// Only the digest of the whole table: equal on gateways that serve the same
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix", "id"])]
    pub(crate) digest: bool,
    /// Only sandboxes that are not served because another has the id they claim, or had it until now
    #[arg(long, conflicts_with_all = ["state", "namespace", "prefix", "id", "digest"])]
    pub(crate) displaced: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
