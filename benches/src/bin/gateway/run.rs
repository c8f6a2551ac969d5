//! The run: cell by cell, all contenders of a cell up at once, in rounds of short slots.
//!
//! In each round every contender has one slot, in a random order that is another one each round; all begin at
//! the same place of the walk through the IDs. So what the machine does in a minute falls on all alike, and a
//! ratio is of slots that are seconds apart.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use sandgate_benches::rng::Rng;

use crate::cell::Cell;
use crate::contender::Contender;
use crate::failure::{Failure, Result};
use crate::journal::{Journal, Kind};
use crate::site::{Place, Site};

/// What a run does.
pub(crate) struct Plan {
    pub(crate) cells: Vec<Cell>,
    pub(crate) contenders: Vec<Contender>,
    /// Everyone runs in this cell alone; in the others only the limit and Sandgate.
    pub(crate) peers_only_in: Option<Cell>,
    pub(crate) rounds: usize,
    /// Rounds of the open loop, in the cells that have any.
    pub(crate) latency_rounds: usize,
    pub(crate) latency_cells: Vec<Cell>,
    pub(crate) seconds: f64,
    pub(crate) rate: u32,
}

/// Set when the person at the terminal wants to stop.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

pub(crate) fn stopped() -> Result<()> {
    if STOP.load(Ordering::Relaxed) { Err(Failure::Interrupted) } else { Ok(()) }
}

impl Plan {
    /// Who runs in a cell.
    fn contenders(&self, cell: Cell) -> impl Iterator<Item = &Contender> {
        let all = self.peers_only_in.is_none_or(|only| only == cell);
        let ours = |one: &Contender| {
            matches!(one, Contender::Limit | Contender::LimitAgain | Contender::Sandgate(_))
        };
        self.contenders.iter().filter(move |one| one.does(cell) && (all || ours(one)))
    }

    /// The rounds of a cell, throughput and latency in turn.
    fn rounds(&self, cell: Cell) -> impl Iterator<Item = (Kind, usize)> {
        let latency = if self.latency_cells.contains(&cell) { self.latency_rounds } else { 0 };
        (0..self.rounds.max(latency)).flat_map(move |round| {
            let throughput = (round < self.rounds).then_some((Kind::Throughput, round));
            let latency = (round < latency).then_some((Kind::Latency, round));
            throughput.into_iter().chain(latency)
        })
    }

    fn left(&self, cell: Cell, journal: &Journal) -> Vec<(Kind, usize)> {
        self.rounds(cell).filter(|&(kind, round)| !journal.is_done(&cell.name(), kind, round)).collect()
    }
}

/// Runs what is not in the journal yet.
pub(crate) fn run(plan: &Plan, place: &Place, journal: &mut Journal) -> Result<()> {
    let slots =
        |cell: Cell, journal: &Journal| plan.left(cell, journal).len() * plan.contenders(cell).count();
    let total: usize = plan.cells.iter().map(|&cell| slots(cell, journal)).sum();
    let bar = ProgressBar::new(total as u64).with_style(style());
    bar.enable_steady_tick(Duration::from_millis(500));
    // Where there is no terminal for a bar, a line now and then.
    let tell = |text: &str| {
        if !std::io::stderr().is_terminal() {
            eprintln!("{}/{total} slots  {text}", bar.position());
        }
    };
    for &cell in &plan.cells {
        let left = plan.left(cell, journal);
        if left.is_empty() {
            continue;
        }
        tell(&cell.name());
        let mut sites = Vec::new();
        for contender in plan.contenders(cell) {
            stopped()?;
            bar.set_message(format!("{}: starting {}", cell.name(), contender.name()));
            let mut site = Site::start(contender, cell, place)?;
            site.warm()?;
            sites.push(site);
        }
        for (kind, round) in left {
            if round % 5 == 0 {
                tell(&format!("{} round {round}, {kind:?}", cell.name()));
            }
            one_round(plan, cell, kind, round, &mut sites, journal, &bar)?;
        }
    }
    bar.finish_with_message("done");
    Ok(())
}

fn one_round(
    plan: &Plan,
    cell: Cell,
    kind: Kind,
    round: usize,
    sites: &mut [Site],
    journal: &mut Journal,
    bar: &ProgressBar,
) -> Result<()> {
    let name = cell.name();
    let start = Rng::new(round as u64).below(cell.addresses);
    let mut order: Vec<usize> = (0..sites.len()).collect();
    shuffle(&name, kind, round, &mut order);
    for at in order {
        stopped()?;
        let site = &mut sites[at];
        bar.set_message(format!("{name} round {round}: {}", site.contender().name()));
        let slot = site.slot(kind, round, plan.seconds, plan.rate, start)?;
        journal.add(slot)?;
        bar.inc(1);
    }
    journal.finish(&name, kind, round)
}

/// An order that looks random and can be made again.
fn shuffle(cell: &str, kind: Kind, round: usize, order: &mut [usize]) {
    let seed =
        cell.bytes().fold(kind as u64, |seed, byte| seed.wrapping_mul(131).wrapping_add(u64::from(byte)));
    Rng::new(seed ^ ((round as u64) << 32)).shuffle(order);
}

fn style() -> ProgressStyle {
    let template = "{bar:30} {pos}/{len} slots, {eta} left  {msg}";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Where the suite's files are.
pub(crate) fn journal_path(out: &std::path::Path) -> PathBuf {
    out.join("raw.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{self, BASE};
    use crate::generator::Answers;
    use crate::journal::{Settings, Slot};

    fn plan() -> Plan {
        Plan {
            cells: cell::all(),
            contenders: Contender::known(),
            peers_only_in: None,
            rounds: 3,
            latency_rounds: 2,
            latency_cells: vec![BASE],
            seconds: 1.0,
            rate: 1_000,
        }
    }

    #[test]
    fn orders_differ_from_round_to_round_and_every_contender_is_first_at_times() {
        let mut firsts = std::collections::HashSet::new();
        for round in 0..50 {
            let mut order: Vec<usize> = (0..6).collect();
            shuffle("cell", Kind::Throughput, round, &mut order);
            firsts.insert(order[0]);
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3, 4, 5]);
        }
        assert_eq!(firsts.len(), 6);
    }

    #[test]
    fn a_quick_run_has_the_peers_at_the_base_and_sandgate_everywhere() {
        let quick = Plan { peers_only_in: Some(BASE), ..plan() };
        let names = |cell| quick.contenders(cell).map(Contender::name).collect::<Vec<&str>>();
        assert_eq!(names(BASE).len(), Contender::known().len());
        let elsewhere = names(Cell { addresses: 1, ..BASE });
        assert!(elsewhere.contains(&"limit") && elsewhere.contains(&"limit again"));
        assert!(elsewhere.iter().any(|name| name.starts_with("sandgate")) && !elsewhere.contains(&"lua"));
    }

    #[test]
    fn a_run_that_goes_on_does_only_what_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings {
            slot_seconds: 1.0,
            rate: 1,
            contenders: Vec::new(),
            envoy: String::new(),
            modules: String::new(),
        };
        let mut journal = Journal::open(&journal_path(folder.path()), &settings).expect("a journal");
        let plan = plan();
        let all = [
            (Kind::Throughput, 0),
            (Kind::Latency, 0),
            (Kind::Throughput, 1),
            (Kind::Latency, 1),
            (Kind::Throughput, 2),
        ];
        assert_eq!(plan.left(BASE, &journal), all);
        let other = Cell { addresses: 1, ..BASE };
        assert_eq!(plan.left(other, &journal).len(), 3);
        let answers = Answers { requests: 1, seconds: 1.0, failed: 0, latency: None };
        let slot = Slot {
            cell: BASE.name(),
            kind: Kind::Throughput,
            round: 0,
            contender: String::new(),
            answers,
            cpu_nanos: 0,
            side_cpu_nanos: 0,
            resident: 0,
            changes: 0,
        };
        journal.add(slot).expect("written");
        assert_eq!(plan.left(BASE, &journal), all, "the round is not done");
        journal.finish(&BASE.name(), Kind::Throughput, 0).expect("written");
        assert_eq!(plan.left(BASE, &journal), all[1..]);
        assert_eq!(plan.left(other, &journal).len(), 3);
    }
}
