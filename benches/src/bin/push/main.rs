//! What pushed routes cost: from a push to the request that is answered by it, what many of them cost the
//! requests, and how long a gateway that was cut off is behind. See the README of this folder's package.

#![forbid(unsafe_code)]

mod gateway;
mod latency;
mod lister;
mod partition;
mod relist;
mod sender;
mod sink;
mod throughput;
mod words;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use sandgate_benches::failure::{Doing as _, Failure, Result};
use sandgate_benches::questions::Questions;
use sandgate_benches::record::Record;
use sandgate_benches::{machine, open_loop, process, upstream};

/// What pushed routes cost a real Envoy with the module. Needs SANDGATE_ENVOY and SANDGATE_MODULE;
/// `make bench-push` sets them, builds what is needed and records everything.
#[derive(Parser)]
#[command(name = "push", max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// From a push to the first request that is answered by it: a new sandbox served, a paused one refused, a
    /// deleted one gone
    Latency(Common),
    /// How many pushes a second one gateway takes, and what 20,000 a second do to the latency of requests
    Throughput(Common),
    /// How long a gateway that was cut off needs for the table of the others once its line is back; three
    /// gateways in network namespaces (needs root)
    Partition(Common),
    /// From a push to the first request that is answered by it, while a list of a million objects is read and
    /// committed
    Relist(Common),
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
    #[command(name = "__sink", hide = true)]
    Sink,
    #[command(name = "__open-loop", hide = true)]
    OpenLoop { rate: u32, questions: Vec<String> },
}

#[derive(Args, Clone)]
struct Common {
    /// A look in less than a minute: not for the record
    #[arg(long)]
    quick: bool,
    /// Write every round here, as tab-separated values
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// How many rounds [default: latency and relist 10, throughput and partition 15; quick: 2]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// The core of Envoy: its worker, its main thread, and the thread that takes pushes
    #[arg(long, default_value_t = 0, value_name = "N")]
    proxy_core: usize,
    /// The core of the senders, of the requests and of the sandboxes
    #[arg(long, default_value_t = 1, value_name = "N")]
    load_core: usize,
    /// Move the thread that takes pushes to this core: as where a gateway has a core to spare
    #[arg(long, value_name = "N")]
    receiver_core: Option<usize>,
    /// Pushes a second while requests are timed (throughput)
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    pushes: u32,
    /// Objects in the list (relist) [default: 1,000,000; quick: 100,000]
    #[arg(long, value_name = "N")]
    objects: Option<usize>,
    /// Requests a second while they are timed (throughput)
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    requests: u32,
}

impl Common {
    fn rounds(&self, usual: usize) -> usize {
        self.rounds.unwrap_or(if self.quick { 2 } else { usual })
    }
}

fn main() -> ExitCode {
    let done = match Cli::parse().bench {
        Bench::Latency(common) => measured(&common, latency::run),
        Bench::Throughput(common) => measured(&common, throughput::run),
        Bench::Partition(common) => measured(&common, partition::run),
        Bench::Relist(common) => measured(&common, relist::run),
        Bench::Pinned { core, parent, program, args } => {
            Err(process::become_pinned(core, parent, &program, &args))
        }
        Bench::Upstream => upstream::serve(),
        Bench::Sink => sink::serve(),
        Bench::OpenLoop { rate, questions } => generate(&questions, rate),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn measured(common: &Common, run: fn(&Common, &mut Record) -> Result<()>) -> Result<()> {
    println!("{}", machine::describe());
    let mut record = Record::default();
    run(common, &mut record)?;
    record.summarise();
    println!("load at the end {}", machine::load());
    match &common.out {
        Some(path) => record.write(path).doing(format!("writing {}", path.display())),
        None => Ok(()),
    }
}

fn generate(questions: &[String], rate: u32) -> Result<()> {
    let asked = Questions::from_args(questions)
        .ok_or_else(|| Failure::Asked(format!("not questions: {questions:?}")))?;
    let answers = open_loop::run(&asked, rate)?;
    println!("{}", serde_json::to_string(&answers).map_err(|error| Failure::Asked(error.to_string()))?);
    Ok(())
}
