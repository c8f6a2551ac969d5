//! What pools and batches cost, on a real cluster with hollow pods. See the README of this folder's package.
//!
//! Control plane, scheduler, node, operator and bench share the machine's cores: a figure of one is a figure
//! of all of them together, which is why [`allocate`] compares rounds of the same run with each other.

#![forbid(unsafe_code)]

mod allocate;
mod bare;
mod observer;
mod ready;
mod site;
mod size;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::machine;
use sandgate_benches::record::Record;

/// What pools and batches cost. Needs SANDGATE_CLUSTER (`make cluster` builds it and says where it is) and
/// SANDGATE_OPERATOR.
#[derive(Parser)]
#[command(name = "pools", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Allocations a second from a pool of ready pods, beside a bare loop of the same patches
    Allocate(Common),
    /// From a pod that is ready to its batch that is, with many at once
    Ready(Common),
    /// CPU of one allocation, and memory, by the size of the pool
    Size(Common),
}

#[derive(Args, Clone)]
struct Common {
    /// A look at everything, with a tenth of the pods: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many pods [default: 1000; ready: 128; size: 100, 1000 and 10000]
    #[arg(long, value_delimiter = ',')]
    pods: Vec<u32>,
    /// How many rounds [default: 6; ready: 5; size: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

impl Common {
    fn pods(&self, usual: &[u32]) -> Vec<u32> {
        let chosen = if self.pods.is_empty() { usual } else { &self.pods };
        chosen.iter().map(|&count| if self.quick { (count / 10).max(1) } else { count }).collect()
    }

    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let (Bench::Allocate(common) | Bench::Ready(common) | Bench::Size(common)) = &cli.bench;
    println!("{}", machine::describe());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut record = Record::default();
    runtime.block_on(async {
        match &cli.bench {
            Bench::Allocate(_) => allocate::run(common, &mut record).await,
            Bench::Ready(_) => ready::run(common, &mut record).await,
            Bench::Size(_) => size::run(common, &mut record).await,
        }
    });
    record.close(common.out.as_deref())
}
