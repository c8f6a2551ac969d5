//! A run for the record: the plan from the command line, what it was made with, the journal, the report.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::process::Command;

use sandgate_benches::machine;

use crate::args;
use crate::cell::{self, BASE, Cell};
use crate::contender::{Contender, LIMIT};
use crate::envoy_config::Way;
use crate::failure::{Doing as _, Failure, Result};
use crate::journal::{Journal, Settings};
use crate::process;
use crate::report;
use crate::run::{self, Plan, journal_path};
use crate::site::Place;
use crate::wrk;

pub(crate) fn run(args: &args::Run) -> Result<()> {
    let plan = plan(args)?;
    let place = Place::find(args.proxy_core, args.load_core)?;
    fs::create_dir_all(&args.out).doing(format!("making {}", args.out.display()))?;
    let path = journal_path(&args.out);
    if args.fresh && path.exists() {
        fs::remove_file(&path).doing(format!("removing {}", path.display()))?;
    }
    let settings = settings(&plan, &place)?;
    let mut journal = Journal::open(&path, &settings)?;
    fs::write(args.out.join("run.md"), made_with(&settings)).doing("writing run.md")?;
    // Changes of the table are made here, and are load. Not before the machine was described: its cores are
    // counted by this.
    process::pin(args.load_core)?;
    let done = run::run(&plan, &place, &mut journal);
    wrk::tidy();
    done?;
    println!("{}", report::write(&args.out, None)?);
    Ok(())
}

fn plan(args: &args::Run) -> Result<Plan> {
    let mut cells = if args.quick && args.cell.is_empty() { cell::quick() } else { cell::all() };
    if !args.cell.is_empty() {
        cells.retain(|cell| args.cell.iter().any(|part| cell.name().contains(part)));
    }
    if cells.is_empty() {
        let names: Vec<String> = cell::all().iter().map(|cell| cell.name()).collect();
        return Err(Failure::Asked(format!("no such cell; there are:\n{}", names.join("\n"))));
    }
    let mut contenders = Contender::known();
    if args.quick {
        contenders.retain(|one| *one != Contender::Sandgate(Way::OriginalDstPooled));
    }
    for text in &args.contender {
        contenders.push(Contender::other(text)?);
    }
    for name in &args.without {
        let before = contenders.len();
        contenders.retain(|one| one.name() != name || name == LIMIT);
        if contenders.len() == before {
            return Err(Failure::Asked(format!("no contender to leave out is called {name:?}")));
        }
    }
    let rounds = args.rounds.unwrap_or(if args.quick { 6 } else { 30 });
    let latency_rounds = args.latency_rounds.unwrap_or(if args.quick { 3.min(rounds) } else { rounds });
    let latency_cells: Vec<Cell> = if args.quick {
        vec![BASE]
    } else {
        cells.iter().copied().filter(|cell| cell.has_latency()).collect()
    };
    let seconds = f64::from(args.seconds.max(1));
    let peers_only_in = args.quick.then_some(BASE);
    Ok(Plan {
        cells,
        contenders,
        peers_only_in,
        rounds,
        latency_rounds,
        latency_cells,
        seconds,
        rate: args.rate,
    })
}

fn settings(plan: &Plan, place: &Place) -> Result<Settings> {
    let mut modules = DefaultHasher::new();
    for file in [&place.module, &place.noop] {
        fs::read(file).doing(format!("reading {}", file.display()))?.hash(&mut modules);
    }
    Ok(Settings {
        slot_seconds: plan.seconds,
        rate: plan.rate,
        contenders: plan.contenders.iter().map(|one| one.name().to_owned()).collect(),
        envoy: envoy_version(&first_line(&place.envoy, &["--version"])),
        modules: format!("{:016x}", modules.finish()),
    })
}

/// What stands under the tables.
fn made_with(settings: &Settings) -> String {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let wrk = first_line(Path::new("wrk"), &["-v"]);
    let git = |args: &[&str]| first_line(Path::new("git"), args);
    let changed =
        if git(&["status", "--porcelain", "--untracked-files=no"]).is_empty() { "" } else { ", changed" };
    format!(
        "Made with `gateway {}` on {}.\n\nSlots of {} s; the open loop at {} requests a second. {}; {}; commit {}{changed}.\n",
        args.join(" "),
        machine::describe(),
        settings.slot_seconds,
        settings.rate,
        settings.envoy,
        wrk.split(" Copyright").next().unwrap_or_default(),
        git(&["rev-parse", "--short", "HEAD"]),
    )
}

/// `Envoy 1.40.0` of `…/envoy  version: commit/1.40.0/Clean/RELEASE/BoringSSL`.
fn envoy_version(line: &str) -> String {
    let version = line.split("version: ").nth(1).and_then(|rest| rest.split('/').nth(1));
    format!("Envoy {}", version.unwrap_or("of unknown version"))
}

fn first_line(program: &Path, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.map(|output| [output.stdout, output.stderr].concat()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_envoy_says() {
        let line = "/x/envoy  version: 0123abc/1.40.0/Clean/RELEASE/BoringSSL";
        assert_eq!(envoy_version(line), "Envoy 1.40.0");
    }
}
