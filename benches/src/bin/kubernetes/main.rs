//! What the Kubernetes watch costs, on a real API server. See the README of this folder's package.
//!
//! Sandboxes are written into etcd as the API server stores them, and changed there: the API server then
//! tells its watches as if it had written them itself, and its own validation does not take the cores that
//! the watch is measured on. A put's revision is the object's `resourceVersion`, by which every clock below
//! is matched.

#![forbid(unsafe_code)]

mod child;
mod engine;
mod etcd;
mod fleet;
mod gateway;
mod latency;
mod process;
mod start;
mod steady;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::machine;
use sandgate_benches::record::Record;

/// What the Kubernetes watch costs. Needs SANDGATE_CLUSTER (`make cluster` builds it and says where it
/// is); with SANDGATE_ENVOY, SANDGATE_MODULE and SANDGATE_BIN the gateway is measured as well as the watch
/// alone.
#[derive(Parser)]
#[command(name = "kubernetes", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// From an event of the API server to the route that is served
    Latency(Common),
    /// Time and peak memory until ready
    Start(Common),
    /// Memory and CPU while sandboxes change
    Steady(Common),
    /// The watch alone, in a process of its own
    #[command(hide = true)]
    Engine { kubeconfig: PathBuf, namespace: String },
    /// A table with so many routes, in a process of its own
    #[command(hide = true)]
    Table { size: usize },
}

#[derive(Args, Clone)]
struct Common {
    /// A look at everything, with a tenth of the sandboxes and short rounds: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many sandboxes [default: 10000; start: 10000 and 100000]
    #[arg(long, value_delimiter = ',')]
    sandboxes: Vec<usize>,
    /// How many events a second [default: 100 and 1000; steady: 0 too]
    #[arg(long, value_delimiter = ',')]
    rates: Vec<u32>,
    /// How long a round is [default: 20]
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// How many rounds [default: 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
}

impl Common {
    fn sandboxes(&self, usual: &[usize]) -> Vec<usize> {
        let chosen = if self.sandboxes.is_empty() { usual } else { &self.sandboxes };
        chosen.iter().map(|&count| if self.quick { (count / 10).max(1) } else { count }).collect()
    }

    fn rates(&self, usual: &[u32]) -> Vec<u32> {
        if self.rates.is_empty() { usual.to_vec() } else { self.rates.clone() }
    }

    fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(if self.quick { 3 } else { 20 })
    }

    fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 1 } else { 3 })
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let common = match &cli.bench {
        Bench::Engine { kubeconfig, namespace } => return engine::run(kubeconfig, namespace),
        Bench::Table { size } => return engine::table(*size),
        Bench::Latency(common) | Bench::Start(common) | Bench::Steady(common) => common.clone(),
    };
    println!("{}", machine::describe());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut record = Record::default();
    runtime.block_on(async {
        match &cli.bench {
            Bench::Latency(_) => latency::run(&common, &mut record).await,
            Bench::Start(_) => start::run(&common, &mut record).await,
            _ => steady::run(&common, &mut record).await,
        }
    });
    record.summarise();
    println!("load at the end {}", machine::load());
    match common.out.map(|path| record.write(&path)) {
        Some(Err(error)) => {
            eprintln!("the record cannot be written: {error}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
