//! `sandgate-operator`. What it does stands in the library; here are the log, the threads and the exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use sandgate_operator::{Args, LogFormat, run};
use tracing_subscriber::EnvFilter;

/// The work is waiting for the API server: two threads are enough for thousands of sandboxes.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let args = Args::parse();
    let wrong = |text: String| Args::command().error(clap::error::ErrorKind::ValueValidation, text).exit();
    let filter = match EnvFilter::builder().parse(&args.log) {
        Ok(filter) => filter,
        Err(error) => wrong(format!("--log: {error}")),
    };
    if let Err(error) = args.times() {
        wrong(error.to_string());
    }
    let activity = &args.environments.activity;
    if let Err(error) = activity.gateways(&args.access()).map(drop).and(activity.credentials().map(drop)) {
        wrong(error.to_string());
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(run(args)).map_err(|error| error.to_string()),
        Err(error) => Err(format!("no threads: {error}")),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}
