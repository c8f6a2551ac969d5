//! `sandgate-manager`. What it does stands in the library; here are the log, the threads and the exit code.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};
use sandgate_manager::{Args, LogFormat, run};
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let args = Args::parse();
    let wrong = |text: String| Args::command().error(clap::error::ErrorKind::ValueValidation, text).exit();
    let filter = match EnvFilter::builder().parse(&args.log) {
        Ok(filter) => filter,
        Err(error) => wrong(format!("--log: {error}")),
    };
    if let Err(error) = args.check() {
        wrong(error.to_string());
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().init(),
    }
    // As many threads as there are cores: a create is a dozen of small steps, most of them of JSON and TLS.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
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
