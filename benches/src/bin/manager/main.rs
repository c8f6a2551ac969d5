//! What the manager costs: claims beside a bare loop of the same writes, memory, reads and waits of its
//! cache, and the time from a create to the first request that a gateway routes. See the README of this
//! folder's package.
//!
//! API server, manager, gateways and bench share the machine's cores: a figure of one is a figure of all of
//! them together, which is why [`claim`] compares rounds of the same run with each other.

#![forbid(unsafe_code)]

mod bare;
mod claim;
mod memory;
mod objects;
mod pace;
mod reads;
mod route;
mod runtimes;
mod site;
mod waits;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::machine;
use sandgate_benches::record::Record;

/// What the manager costs. `make bench-manager` sets the variables that say where the programs are, builds
/// them and records everything.
#[derive(Parser)]
#[command(name = "manager", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Claims a second from a full pool through the API, and how long each takes, beside a bare loop of the
    /// same conditional updates
    Claim(Common),
    /// Memory of the manager that follows 100,000 sandboxes
    Memory(Common),
    /// What a read of the cache costs, with 100,000 sandboxes in it
    Reads(Common),
    /// 10,000 waits at once: from an event to the one who waits for it
    Waits(Common),
    /// Two managers and three gateways: from a create to the first request that is routed, and whether every
    /// gateway routes it when the create is answered
    Route(Common),
}

#[derive(Args, Clone)]
struct Common {
    /// A look, with a tenth of the sandboxes and few rounds: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many sandboxes [default: claim 1000 a round; memory, reads 100000; waits 10000; route 1000]
    #[arg(long, value_name = "N")]
    sandboxes: Option<usize>,
    /// How many rounds [default: 10; reads 20; memory and route 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// How many requests are under way at a time
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    concurrency: Vec<usize>,
}

impl Common {
    fn sandboxes(&self, usual: usize) -> usize {
        self.sandboxes.unwrap_or(if self.quick { usual / 10 } else { usual })
    }

    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { usual.min(2) } else { usual })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (Bench::Claim(common)
    | Bench::Memory(common)
    | Bench::Reads(common)
    | Bench::Waits(common)
    | Bench::Route(common)) = &cli.bench;
    println!("{}", machine::describe());
    let mut record = Record::default();
    let mut runtime = match cli.bench {
        // As the manager runs.
        Bench::Waits(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    runtime.enable_all().build().expect("a runtime").block_on(async {
        match &cli.bench {
            Bench::Claim(_) => claim::run(common, &mut record).await,
            Bench::Memory(_) => memory::run(common, &mut record).await,
            Bench::Reads(_) => reads::run(common, &mut record),
            Bench::Waits(_) => waits::run(common, &mut record).await,
            Bench::Route(_) => route::run(common, &mut record).await,
        }
    });
    record.close(common.out.as_deref())
}
