//! Markdown tables: one with everything at the base, one for each axis.

use std::fmt::Write as _;

use sandgate_benches::stats::Spread;

use crate::cell::{Axis, BASE, axes};
use crate::contender::{LIMIT, LIMIT_AGAIN};
use crate::summary::Summary;

pub(super) fn all(summaries: &[Summary]) -> String {
    let mut text = base(summaries);
    for axis in axes() {
        text.push_str(&throughput(summaries, &axis));
        text.push_str(&latency(summaries, &axis));
    }
    text
}

pub(super) fn find<'s>(summaries: &'s [Summary], cell: &str, contender: &str) -> Option<&'s Summary> {
    summaries.iter().find(|summary| summary.cell == cell && summary.contender == contender)
}

/// Every contender that is in any of these cells, the limit first.
pub(super) fn contenders<'s>(summaries: &'s [Summary], cells: &[String]) -> Vec<&'s str> {
    let mut found = Vec::new();
    for summary in summaries.iter().filter(|summary| cells.contains(&summary.cell)) {
        if !found.contains(&&*summary.contender) {
            found.push(&*summary.contender);
        }
    }
    let rank = |name: &str| match name {
        LIMIT => 0,
        LIMIT_AGAIN => 1,
        name if name.starts_with("sandgate") => 2,
        _ => 3,
    };
    // Slots are in a random order; names are not.
    found.sort_by_key(|&name| (rank(name), name));
    found
}

pub(super) fn label(contender: &str) -> String {
    match contender {
        LIMIT => "limit: plain Envoy".to_owned(),
        LIMIT_AGAIN => "the limit again: noise floor".to_owned(),
        name if name.starts_with("sandgate") => format!("**{name}**"),
        name => name.to_owned(),
    }
}

/// Everything about the base; of a run without it, about each of its cells.
fn base(summaries: &[Summary]) -> String {
    let mut cells: Vec<&str> = summaries.iter().map(|summary| &*summary.cell).collect();
    cells.dedup();
    let base = BASE.name();
    if cells.contains(&&*base) {
        cells.retain(|&cell| cell == base);
    }
    cells.into_iter().map(|cell| everything(summaries, cell)).collect()
}

fn everything(summaries: &[Summary], cell: &str) -> String {
    let names = contenders(summaries, &[cell.to_owned()]);
    let title =
        if cell == BASE.name() { "1,000 addresses, 100,000 routes, HTTP/1.1 keep-alive" } else { cell };
    let mut text = format!("\n### {title}\n\n");
    text.push_str("| | of the limit | CPU a request, µs | × limit | core busy | p50, µs | p99 | p99.9 | memory, MB | rounds |\n");
    text.push_str("|---|---|---|---|---|---|---|---|---|---|\n");
    for summary in names.iter().filter_map(|name| find(summaries, cell, name)) {
        let sign = if summary.contender == LIMIT { "" } else { "+" };
        let latency = |at: usize| summary.latency.map_or("–".to_owned(), |all| added(sign, all[at]));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            label(&summary.contender),
            share(summary),
            cpu(summary),
            figure(summary.cpu_times),
            summary.busy.map_or("–".to_owned(), |busy| format!("{:.0}%", busy.median * 100.0)),
            latency(0),
            latency(1),
            latency(2),
            summary.resident.map_or("–".to_owned(), |bytes| format!("{:.0}", bytes.median)),
            rounds(summary),
        );
    }
    text
}

/// Of the limit itself, its requests a second.
fn share(summary: &Summary) -> String {
    if summary.contender == LIMIT {
        return summary.rate.map_or("–".to_owned(), |rate| format!("{rate} req/s"));
    }
    figure(summary.share)
}

fn cpu(summary: &Summary) -> String {
    match (summary.cpu, summary.cpu_all) {
        (Some(own), Some(all)) if all.median > own.median => {
            format!("{own} + {:.1} beside it", all.median - own.median)
        }
        (own, _) => figure(own),
    }
}

fn rounds(summary: &Summary) -> String {
    match summary.failed_slots {
        0 => summary.rounds.to_string(),
        failed => format!("{} ({failed} slots failed)", summary.rounds),
    }
}

fn figure(spread: Option<Spread>) -> String {
    spread.map_or("–".to_owned(), |spread| spread.to_string())
}

/// What is added may be less than nothing, which is noise and is shown.
fn added(sign: &str, spread: Spread) -> String {
    let signed = |value: f64| if value < 0.0 { format!("{value:.0}") } else { format!("{sign}{value:.0}") };
    format!("{} ({} … {})", signed(spread.median), signed(spread.low), signed(spread.high))
}

fn throughput(summaries: &[Summary], axis: &Axis) -> String {
    axis_table(summaries, axis, "of the limit", &|summary| {
        (summary.rate.is_some()).then(|| match summary.failed_slots {
            0 => share(summary),
            failed => format!("{} ({failed} slots failed)", share(summary)),
        })
    })
}

fn latency(summaries: &[Summary], axis: &Axis) -> String {
    axis_table(summaries, axis, "p99, µs; what is added to the limit's", &|summary| {
        let sign = if summary.contender == LIMIT { "" } else { "+" };
        summary.latency.map(|all| added(sign, all[1]))
    })
}

/// Nothing where fewer than two cells of the axis have a figure: one is in the first table.
fn axis_table(
    summaries: &[Summary],
    axis: &Axis,
    what: &str,
    figure: &dyn Fn(&Summary) -> Option<String>,
) -> String {
    let with_figure =
        |cell: &String| summaries.iter().any(|summary| summary.cell == *cell && figure(summary).is_some());
    let cells: Vec<(&str, String)> = axis
        .cells
        .iter()
        .map(|(value, cell)| (*value, cell.name()))
        .filter(|(_, cell)| with_figure(cell))
        .collect();
    let names: Vec<String> = cells.iter().map(|(_, cell)| cell.clone()).collect();
    if cells.len() < 2 {
        return String::new();
    }
    let mut text = format!("\n### {} ({what})\n\n|", axis.title);
    for (value, _) in &cells {
        let _ = write!(text, " | {value}");
    }
    let _ = writeln!(text, " |\n|---{}|", "|---".repeat(cells.len()));
    for contender in contenders(summaries, &names) {
        let entries: Vec<Option<String>> =
            names.iter().map(|cell| find(summaries, cell, contender).and_then(figure)).collect();
        if entries.iter().all(Option::is_none) {
            continue;
        }
        let _ = write!(text, "| {}", label(contender));
        for entry in entries {
            let _ = write!(text, " | {}", entry.as_deref().unwrap_or("–"));
        }
        text.push_str(" |\n");
    }
    text
}
