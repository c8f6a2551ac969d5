//! The `sandgate` command: what a person types. `run` starts a gateway, `explain` says what it would do with a request,
//! `routes` lists what it knows, `push` tells gateways of a route, `check` says whether one could watch a cluster, `validate`
//! whether it would take a file, `probe` whether it answers, `envoy` installs the Envoy it needs. The decisions are the gateway's own code; nothing
//! here decides about a request.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod admin;
mod args;
mod check;
mod config;
mod explain;
mod failure;
mod probe;
mod push;
mod routes;
mod run;
mod terminal;
mod validate;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match perform(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            terminal::error(&failure.to_string());
            failure.code()
        }
    }
}

fn perform(command: Command) -> Result<ExitCode, Failure> {
    if let Command::Exec(exec) = command {
        return Err(run::exec(&exec));
    }
    // One thread: Envoy must be started from a thread that lives as long as the process (see `run::process`).
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        match command {
            Command::Run(run) => run::run(run).await,
            Command::Explain(explain) => explain::explain(explain).await,
            Command::Routes(routes) => routes::routes(routes).await,
            Command::Push(push) => push::push(&push).await,
            Command::Check(args) => check::check(args).await,
            Command::Validate(args) => validate::validate(&args),
            Command::Probe(args) => probe::probe(&args).await,
            Command::Envoy => run::pinned_envoy().await,
            Command::Exec(_) => unreachable!("handled above"),
        }
    })
}
