//! What the operator costs, on a real cluster with hollow pods. See the README of this folder's package.
//!
//! Control plane, scheduler, node, operator and bench share the machine's cores: a figure of one is a figure
//! of all of them together, which is why [`create`] compares rounds of the same run with each other.

#![forbid(unsafe_code)]

mod bare;
mod create;
mod idle;
mod memory;
mod mould;
mod observer;
mod reconcile;
mod site;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::machine;
use sandgate_benches::record::Record;

/// What the operator costs. Needs SANDGATE_CLUSTER (`make cluster` builds it and says where it is) and
/// SANDGATE_OPERATOR.
#[derive(Parser)]
#[command(name = "operator", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Sandboxes a second when a set is made from nothing, beside a bare loop of the same writes
    Create(Common),
    /// CPU and memory while nothing happens
    Idle(Common),
    /// CPU of one look at a sandbox or at its set, by the size of the set
    Reconcile(Common),
}

#[derive(Args, Clone)]
struct Common {
    /// A look at everything, with a tenth of the sandboxes and short rounds: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many sandboxes [default: 1000; idle: 10000; reconcile: 100, 1000 and 10000]
    #[arg(long, value_delimiter = ',')]
    sandboxes: Vec<u32>,
    /// How many rounds [default: 10; idle and reconcile: 5]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// How long a round of idle is [default: 60]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
}

impl Common {
    fn sandboxes(&self, usual: &[u32]) -> Vec<u32> {
        let chosen = if self.sandboxes.is_empty() { usual } else { &self.sandboxes };
        chosen.iter().map(|&count| if self.quick { (count / 10).max(1) } else { count }).collect()
    }

    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(if self.quick { 10 } else { 60 })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (Bench::Create(common) | Bench::Idle(common) | Bench::Reconcile(common)) = &cli.bench;
    println!("{}", machine::describe());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut record = Record::default();
    runtime.block_on(async {
        match &cli.bench {
            Bench::Create(_) => create::run(common, &mut record).await,
            Bench::Idle(_) => idle::run(common, &mut record).await,
            Bench::Reconcile(_) => reconcile::run(common, &mut record).await,
        }
    });
    record.close(common.out.as_deref())
}
