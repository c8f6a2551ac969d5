use sandgate_benches::stats::Spread;

use super::*;
use crate::cell::{BASE, Cell};
use crate::contender::{LIMIT, LIMIT_AGAIN};
use crate::journal::{Journal, Kind, Settings};
use crate::summary::tests::slot;

fn settings() -> Settings {
    Settings {
        slot_seconds: 1.0,
        rate: 1,
        contenders: Vec::new(),
        envoy: String::new(),
        modules: String::new(),
    }
}

/// A run of two rounds in which lua is at eight tenths with one address and at half with a thousand.
fn recorded(out: &Path) {
    let mut journal = Journal::open(&journal_path(out), &settings()).expect("a journal");
    for (cell, tenths) in [(Cell { addresses: 1, ..BASE }, 8), (BASE, 5)] {
        let cell = cell.name();
        for (round, limit) in [(0, 1_000), (1, 3_000)] {
            for kind in [Kind::Throughput, Kind::Latency] {
                for (contender, requests) in
                    [(LIMIT, limit), (LIMIT_AGAIN, limit), ("lua", limit * tenths / 10)]
                {
                    journal.add(slot(&cell, contender, kind, round, requests)).expect("written");
                }
                journal.finish(&cell, kind, round).expect("written");
            }
        }
    }
}

#[test]
fn the_tables_say_what_the_raw_data_says() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path());
    let text = write(folder.path(), None).expect("a report");
    let row = |table: &str, name: &str| {
        let table = text.split("\n### ").find(|part| part.starts_with(table)).expect("the table");
        table.lines().find(|line| line.starts_with(&format!("| {name}"))).expect("the row").to_owned()
    };
    assert_eq!(
        row("sandboxes asked for, each at an address of its own (100,000 routes) (of", "lua"),
        "| lua | 0.80 (0.80–0.80) | 0.50 (0.50–0.50) |"
    );
    assert!(
        row("sandboxes asked for, each at an address of its own (100,000 routes) (of", "the limit again")
            .contains("1.00 (1.00–1.00)")
    );
    assert!(
        row("sandboxes asked for, each at an address of its own (100,000 routes) (p99", "lua")
            .contains("+20 (+20 … +20)")
    );
    let base = row("1,000 addresses", "lua");
    assert!(base.contains("| 0.50 (0.50–0.50) |") && base.ends_with("| 50 | 2 |"), "{base}");
    assert!(!text.contains("### routes in the table"), "an axis with one cell has no table");
    assert_eq!(fs::read_to_string(folder.path().join("table.md")).expect("written"), text);
}

#[test]
fn another_figure_makes_another_report() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path());
    let before = write(folder.path(), None).expect("a report");
    let path = journal_path(folder.path());
    let raw = fs::read_to_string(&path).expect("raw data").replace("\"requests\":800", "\"requests\":100");
    fs::write(&path, raw).expect("written");
    assert_ne!(write(folder.path(), None).expect("a report"), before);
}

#[test]
fn a_plot_has_a_dot_for_every_point_where_its_value_is() {
    let folder = tempfile::tempdir().expect("a folder");
    recorded(folder.path());
    write(folder.path(), None).expect("a report");
    let plot = fs::read_to_string(folder.path().join("throughput-addresses.svg")).expect("a plot");
    // The limit again and lua, in two cells.
    assert_eq!(plot.matches("<circle").count(), 4);
    let limit = attribute(&plot, "class=\"limit\" x1=\"");
    let dots: Vec<f64> = plot.split("<circle").skip(1).map(|part| attribute(part, "cx=\"")).collect();
    assert_eq!(dots.iter().filter(|&&x| x == limit).count(), 2, "the limit again is at the limit");
    let zero = svg::Scale::new(0.0, 1.0).x(0.0);
    let mut shares: Vec<f64> = dots.iter().map(|x| (x - zero) / (limit - zero)).collect();
    shares.sort_by(f64::total_cmp);
    assert!((shares[0] - 0.5).abs() < 0.01 && (shares[1] - 0.8).abs() < 0.01, "{shares:?}");
    assert!(folder.path().join("latency.svg").exists());
}

fn attribute(text: &str, before: &str) -> f64 {
    let from = text.find(before).expect("the attribute") + before.len();
    text[from..].split('"').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_plot_may_go_below_nothing_and_escapes_what_it_says() {
    let spread = Spread { median: -3.0, low: -8.0, high: 12.0 };
    let series = svg::Series { name: "p<99>".to_owned(), points: vec![("a & b".to_owned(), spread)] };
    let plot = svg::Plot { title: "t".to_owned(), one: Some(0.0), series: vec![series] }.draw();
    assert!(plot.contains("p&lt;99&gt;") && plot.contains("a &amp; b"));
    let limit = attribute(&plot, "class=\"limit\" x1=\"");
    assert!(attribute(&plot, "cx=\"") < limit);
    assert!(plot.contains(">-10<") && plot.contains(">15<"), "{plot}");
}

#[test]
fn the_readme_is_changed_between_its_marks_only() {
    let readme = format!("# Costs\n{BEGIN}\nold\n{END}\nmore\n");
    let new = between_marks(&readme, "new\n").expect("it has marks");
    assert_eq!(new, format!("# Costs\n{BEGIN}\n\nnew\n\n{END}\nmore\n"));
    assert_eq!(between_marks(&new, "new"), Some(new.clone()), "making it again changes nothing");
    assert_eq!(between_marks("# Costs\n", "new"), None);
}

#[test]
fn the_readme_of_this_package_has_the_marks() {
    let readme = include_str!("../../../../README.md");
    assert!(between_marks(readme, "").is_some());
}

#[test]
fn a_journal_without_a_finished_round_makes_no_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::open(&journal_path(folder.path()), &settings()).expect("a journal");
    journal.add(slot(&BASE.name(), LIMIT, Kind::Throughput, 0, 10)).expect("written");
    assert!(write(folder.path(), None).is_err());
}
