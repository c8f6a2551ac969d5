//! What environments cost, and how a pool follows its demand. See the README of this folder's package.
//!
//! Control plane, scheduler, node, operator, manager and bench share the machine's cores: a figure of one is
//! a figure of all of them together, which is why [`claim`] compares rounds of the same run with each other.

#![forbid(unsafe_code)]

mod burst;
mod claim;
mod idle;
mod plot;
mod route;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::machine;
use sandgate_benches::record::Record;

/// What environments cost. Needs SANDGATE_CLUSTER (`make cluster` builds it and says where it is),
/// SANDGATE_OPERATOR and SANDGATE_MANAGER.
#[derive(Parser)]
#[command(name = "environments", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The choice of a pool, with many environments
    Route(Common),
    /// Claims through the manager, beside a bare loop of the same writes
    Claim(Common),
    /// CPU of the operator by the number of environments: while nothing changes, and of one change
    Idle(Common),
    /// A pool that scales by itself: from nothing to a demand, and back. Every decision is recorded, and
    /// plotted beside the record
    Burst(Common),
}

#[derive(Args, Clone)]
struct Common {
    /// A look at everything, with a tenth of the objects: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many environments, or pods [default: route 1000; claim 500 a round; idle 100 and 1000; burst 800]
    #[arg(long, value_delimiter = ',')]
    size: Vec<u32>,
    /// How many rounds [default: route 20; claim 6; idle 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

impl Common {
    fn sizes(&self, usual: &[u32]) -> Vec<u32> {
        let chosen = if self.size.is_empty() { usual } else { &self.size };
        chosen.iter().map(|&count| if self.quick { (count / 10).max(1) } else { count }).collect()
    }

    fn size(&self, usual: u32) -> u32 {
        self.sizes(&[usual])[0]
    }

    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (Bench::Route(common) | Bench::Claim(common) | Bench::Idle(common) | Bench::Burst(common)) =
        &cli.bench;
    println!("{}", machine::describe());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut record = Record::default();
    runtime.block_on(async {
        match &cli.bench {
            Bench::Route(_) => route::run(common, &mut record),
            Bench::Claim(_) => claim::run(common, &mut record).await,
            Bench::Idle(_) => idle::run(common, &mut record).await,
            Bench::Burst(_) => burst::run(common, &mut record).await,
        }
    });
    record.close(common.out.as_deref())
}
