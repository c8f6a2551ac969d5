//! The `sandgate` command line.
//!
//! `run` starts a gateway. `explain`, `routes`, `check`, `validate` and `probe` answer questions about one.
//! `push` sends routes to gateways. `keys` makes and ends the API keys of the manager. `envoy` installs the
//! Envoy that a gateway needs. `completions` and `man` print what is made from the definitions in `args`.
//! What happens to a request is decided by the gateway's own crates, never here.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

mod admin;
mod args;
mod check;
mod config;
mod explain;
mod failure;
mod keys;
mod pages;
mod probe;
mod push;
mod routes;
mod run;
mod terminal;
mod validate;

use args::{Cli, Command};
use failure::{Failure, failed};

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
    // These need no runtime.
    match &command {
        Command::Exec(exec) => return Err(run::exec(exec)),
        Command::Completions(args) => return pages::completions(args),
        Command::Man(args) => return pages::man(args),
        _ => {}
    }
    // One thread: Envoy must be started from a thread that lives as long as the process (see `run::process`).
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed!("cannot start: {error}"))?;
    runtime.block_on(async {
        match command {
            Command::Run(run) => run::run(run).await,
            Command::Explain(explain) => explain::explain(explain).await,
            Command::Routes(routes) => routes::routes(routes).await,
            Command::Push(push) => push::push(&push).await,
            Command::Keys(args) => keys::keys(args).await,
            Command::Check(args) => check::check(args).await,
            Command::Validate(args) => validate::validate(&args),
            Command::Probe(args) => probe::probe(&args).await,
            Command::Envoy => run::pinned_envoy().await,
            Command::Exec(_) | Command::Completions(_) | Command::Man(_) => unreachable!("handled above"),
        }
    })
}
