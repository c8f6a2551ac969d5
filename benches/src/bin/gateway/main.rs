//! What a request through Sandgate costs, beside plain Envoy and beside other ways to do it. See the README
//! of this folder's package.

#![forbid(unsafe_code)]

mod admin;
mod args;
mod cell;
mod changes;
mod churn;
mod contender;
mod envoy_config;
mod generator;
mod hook;
mod http2;
mod instructions;
mod journal;
mod peers;
mod record;
mod report;
mod run;
mod site;
mod summary;
mod wrk;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::thread;

use clap::Parser as _;
use sandgate_benches::{failure, fleet, message, open_loop, proc, process, upstream};

use args::{Args, Command};
use failure::{Doing as _, Failure, Result};
use generator::Questions;
use run::STOP;
use site::Place;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Run(run) => listen_for_signals().and_then(|()| record::run(&run)),
        Command::Report { out, readme } => {
            report::write(&out, readme.as_deref()).map(|text| println!("{text}"))
        }
        Command::Churn(churn) => listen_for_signals().and_then(|()| churn::run(&churn)),
        Command::Hook { out } => hook::run(&out),
        Command::Instructions { out } => Place::find(0, 1).and_then(|place| instructions::run(&out, place)),
        Command::Pinned { core, parent, program, args } => {
            Err(process::become_pinned(core, parent, &program, &args))
        }
        Command::Upstream => upstream::serve(),
        Command::Extproc { routes } => peers::serve_extproc(&routes),
        Command::OpenLoop { rate, questions } => {
            asked(&questions).and_then(|questions| open_loop::run(&questions, rate)).and_then(say)
        }
        Command::Http2 { questions } => {
            asked(&questions).and_then(|questions| http2::run(&questions)).and_then(say)
        }
        Command::HookChild { shape, size } => hook::child(&shape, size),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn asked(args: &[String]) -> Result<Questions> {
    Questions::from_args(args).ok_or_else(|| Failure::Asked(format!("not questions: {args:?}")))
}

fn say(answers: generator::Answers) -> Result<()> {
    println!("{}", serde_json::to_string(&answers).map_err(|error| Failure::Asked(error.to_string()))?);
    Ok(())
}

/// The first SIGINT or SIGTERM lets the slot under way finish and ends everything in order; the second ends
/// this process at once, and the kernel its children.
fn listen_for_signals() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().doing("a runtime")?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (
            signal(SignalKind::interrupt()).doing("listening for signals")?,
            signal(SignalKind::terminate()).doing("listening for signals")?,
        )
    };
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if STOP.swap(true, Ordering::Relaxed) {
                    #[expect(clippy::disallowed_methods, reason = "what the second signal asks for")]
                    std::process::exit(130);
                }
                eprintln!("\nstopping after this slot; once more to stop at once");
            }
        });
    });
    Ok(())
}
