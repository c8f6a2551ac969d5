//! `sandgate validate`: whether `sandgate run` would take a config file and a routes file.
//!
//! The checks are those of `run`, which stops at the first mistake. Here all mistakes are reported.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::Value;

use crate::args::Validate;
use crate::config::Config;
use crate::explain::read_routes;
use crate::failure::{Failure, usage};
use crate::run::{check_keys, check_manager, check_tls, shipped_filter_config};
use crate::terminal::{complaint, note, print, several};

pub(crate) fn validate(args: &Validate) -> Result<ExitCode, Failure> {
    let mut mistakes = Vec::new();
    let mut good = Vec::new();
    let mut routes = args.routes.clone();
    if let Some(path) = &args.config {
        mistakes = Config::mistakes(path, &shipped_filter_config());
        if let Ok(config) = Config::load(Some(path), shipped_filter_config()) {
            match check_tls(&config) {
                Ok(warnings) => warnings.iter().for_each(|warning| note(&format!("warning: {warning}"))),
                Err(failure) => mistakes.push(failure.to_string()),
            }
            for checked in [check_manager(&config), check_keys(&config)] {
                mistakes.extend(checked.err().map(|failure| failure.to_string()));
            }
            let named = config.gateway.get("routes-file").and_then(Value::as_str).map(PathBuf::from);
            let cluster = config.gateway.contains_key("kubernetes");
            let source = match (&routes, &named, cluster) {
                (None, None, false) => ", but it names no source of routes: start it with --routes FILE",
                _ => "",
            };
            good.push(format!("{}: ok{source}", path.display()));
            routes = routes.or(named);
        }
    }
    if let Some(path) = routes {
        match read_routes(&path) {
            Ok(routes) => {
                good.push(format!("{}: ok, {}", path.display(), several(routes.len(), "route")));
            }
            Err(failure) => mistakes.push(failure.to_string()),
        }
    }
    if mistakes.is_empty() {
        print(&(good.join("\n") + "\n"));
        return Ok(ExitCode::SUCCESS);
    }
    for mistake in &mistakes {
        complaint(mistake);
    }
    let count = several(mistakes.len(), "mistake");
    Err(usage!("{count}; `sandgate run` would not start"))
}
