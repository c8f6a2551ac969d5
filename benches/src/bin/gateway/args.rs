//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::churn::Kind;

/// What a request through Sandgate costs, beside plain Envoy and beside other ways to do it
#[derive(Debug, Parser)]
#[command(name = "gateway")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure, and go on with a run that was cut
    Run(Run),
    /// Make the tables and plots from the raw data
    Report {
        /// Where the raw data is
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
        /// A readme to put the tables into, between its marks
        #[arg(long, value_name = "FILE")]
        readme: Option<PathBuf>,
    },
    /// Count the instructions of the module's own part of a request (needs valgrind)
    Hook {
        /// Where to put hook.tsv
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Count the instructions of a request in the whole of Envoy, and draw those of the module's hooks (needs
    /// valgrind)
    Instructions {
        /// Where to put instructions.tsv and hooks.svg
        #[arg(long, value_name = "FOLDER")]
        out: PathBuf,
    },
    /// Add and remove hosts while a hundred thousand are live
    Churn(Churn),
    #[command(name = "__pinned", hide = true, disable_help_flag = true)]
    Pinned {
        core: usize,
        parent: i32,
        program: OsString,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    #[command(name = "__upstream", hide = true)]
    Upstream,
    #[command(name = "__extproc", hide = true)]
    Extproc { routes: PathBuf },
    #[command(name = "__open-loop", hide = true)]
    OpenLoop { rate: u32, questions: Vec<String> },
    #[command(name = "__http2", hide = true)]
    Http2 { questions: Vec<String> },
    #[command(name = "__hook", hide = true)]
    HookChild { shape: String, size: usize },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Run {
    /// A look in under three minutes: three cells, few rounds, the peers in one cell
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the raw data, tables and plots go
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Forget what is there
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Rounds of every cell [default: 30, quick: 6]
    #[arg(long)]
    pub(crate) rounds: Option<usize>,
    /// Rounds of the open loop [default: as many; quick: 3, at the base only]
    #[arg(long)]
    pub(crate) latency_rounds: Option<usize>,
    /// Seconds of a slot
    #[arg(long, default_value_t = 1)]
    pub(crate) seconds: u32,
    /// Requests a second of the open loop
    #[arg(long, default_value_t = 2_000)]
    pub(crate) rate: u32,
    /// Only cells whose name contains this, such as 10000a or h2; may be given more than once
    #[arg(long, value_name = "PART")]
    pub(crate) cell: Vec<String>,
    /// Leave out contenders of this name; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) without: Vec<String>,
    /// One more contender: its name and command, with {port} where it is to listen and {upstreams} for a file
    /// with an ip:port a line
    #[arg(long, value_name = "NAME=COMMAND")]
    pub(crate) contender: Vec<String>,
    /// The core of the proxies
    #[arg(long, default_value_t = 0)]
    pub(crate) proxy_core: usize,
    /// The core of the load and of the sandboxes
    #[arg(long, default_value_t = 1)]
    pub(crate) load_core: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Churn {
    /// Where to put the raw data
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: PathBuf,
    /// Live hosts
    #[arg(long, default_value_t = 100_000)]
    pub(crate) hosts: usize,
    /// Hosts added and removed, a second, together
    #[arg(long, default_value_t = 3_000)]
    pub(crate) changes: u32,
    /// Requests a second to those who stay
    #[arg(long, default_value_t = 1_000)]
    pub(crate) rate: u32,
    /// Why hosts go
    #[arg(long, value_enum, default_value = "deletes")]
    pub(crate) kind: Kind,
    /// A look: at most 20,000 hosts and five rounds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Slots of a second with churn, and as many without
    #[arg(long, default_value_t = 30)]
    pub(crate) rounds: usize,
    /// The core of Envoy's worker
    #[arg(long, default_value_t = 0)]
    pub(crate) proxy_core: usize,
    /// The core of everything else
    #[arg(long, default_value_t = 1)]
    pub(crate) load_core: usize,
}
