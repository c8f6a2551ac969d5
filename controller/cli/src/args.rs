//! The command line. Each option is defined once, here. Help, man pages and completions are made from it.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::terminal::{STYLES, lesson};

mod check;
mod explain;
mod keys;
mod push;
mod routes;
mod run;
mod tools;

pub(crate) use check::Check;
pub(crate) use explain::Explain;
pub(crate) use keys::{Cluster, CreateKey, Keys, KeysCommand, ListKeys, RevokeKey, RotateKey};
pub(crate) use push::Push;
pub(crate) use routes::Routes;
pub(crate) use run::Run;
pub(crate) use tools::{Completions, ManPages, Probe, Validate};

/// The gateway for sandboxes: Envoy, with the routes in its own memory.
#[derive(Parser)]
#[command(
    name = "sandgate",
    version,
    max_term_width = 110,
    styles = STYLES,
    after_help = lesson("\
Start here:
  sandgate run --demo
      A gateway with two demo sandboxes, and the curl lines to try it.
  sandgate run --routes FILE
      A gateway to sandboxes of your own.
  sandgate explain --routes FILE URL
      Which sandbox a request addresses, and what would happen to it.
  sandgate check
      Whether a gateway could watch your cluster, and what is missing.
  sandgate validate gateway.yaml
      Whether a config file is right, and where it is not.
  sandgate keys create --name me
      A key for E2B's SDK and the manager of your cluster.")
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Explain(Explain),
    Routes(Routes),
    Push(Box<Push>),
    Keys(Keys),
    Check(Check),
    Validate(Validate),
    Probe(Probe),
    /// Print where the Envoy is that this version is made for, installing it into the cache if need be
    Envoy,
    Completions(Completions),
    Man(ManPages),
    #[command(name = "__exec", hide = true)]
    Exec(Exec),
}

/// Becomes another program that ends when this one's parent does. See `run::process`.
#[derive(Args)]
pub(crate) struct Exec {
    #[arg(long)]
    pub(crate) parent: i32,
    pub(crate) program: PathBuf,
    #[arg(last = true)]
    pub(crate) args: Vec<OsString>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
