//! `task-executor`. What it does stands in the library; here are the log, the thread and the exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use sandgate_task_executor::{Args, LogFile, SHIM, install, run, shim};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == SHIM) {
        return shim(&words[2..]);
    }
    let args = Args::parse_from(Args::with_two_dashes(words));
    if let Some(file) = &args.install {
        return match install(file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("task-executor: --install {}: {error}", file.display());
                ExitCode::FAILURE
            }
        };
    }
    let log = tracing_subscriber::fmt().with_target(false);
    match args.log_file().map(LogFile::open) {
        None => log.init(),
        Some(Ok(file)) => log.with_ansi(false).with_writer(file).init(),
        Some(Err(error)) => {
            eprintln!("task-executor: --log-dir: {error}");
            return ExitCode::FAILURE;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(args)).map_err(|error| error.to_string()),
        Err(error) => Err(format!("no runtime: {error}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
