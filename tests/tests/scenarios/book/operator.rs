//! The page about the operator, beside the operator.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use sandgate_tests::book::Page;
use sandgate_tests::{Cli, locations};

use super::metrics::names;

/// What the names of the operator's metrics begin with.
pub(super) const PREFIX: &str = "sandgate_operator_";

fn page() -> Page {
    Page::read("envoy/docs/operator.md")
}

/// The operator's metrics without the prefix, as the list has them that its own tests compare with what it
/// serves; each with its type.
fn metrics() -> Vec<(String, String)> {
    let list = locations::repository().join("controller/operator/metrics.txt");
    let list = fs::read_to_string(list).expect("the list of metrics");
    let lines = list.lines().filter_map(|line| line.strip_prefix(PREFIX)?.split_once(' '));
    lines.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// Whether the operator serves a metric of this name, as Prometheus knows it.
pub(super) fn serves(name: &str) -> bool {
    metrics().iter().any(|(metric, kind)| match kind.as_str() {
        "counter" => name == format!("{metric}_total"),
        "histogram" => ["_bucket", "_count", "_sum"].iter().any(|end| name == format!("{metric}{end}")),
        _ => name == metric,
    })
}

#[test]
fn the_page_names_every_metric_of_the_operator_and_no_other() {
    let real: BTreeSet<String> = metrics().into_iter().map(|(name, _)| name).collect();
    assert!(real.len() > 10, "{real:?}");
    let named = names(&page().prose(), &format!("`{PREFIX}"));
    assert_eq!(named, real, "left: the page; right: the operator");
    assert!(serves("writes_total") && serves("leader") && !serves("writes") && !serves("colour"));
}

/// The long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter_map(|word| word.strip_prefix("--")).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn the_page_has_a_row_for_every_flag_of_the_operator_and_for_no_other() {
    let mut command = Command::new(locations::operator());
    command.arg("--help");
    let done = Cli::finish(command).await;
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let flags = done.stdout.lines().map(str::trim_start);
    let real = flags.filter(|line| line.starts_with('-')).flat_map(options);
    let real: BTreeSet<String> = real.filter(|flag| !["help", "version"].contains(&flag.as_str())).collect();
    let page = page();
    let rows = page.text.lines().filter(|line| line.starts_with("| `--"));
    let named: BTreeSet<String> =
        rows.flat_map(|row| options(row.split('|').nth(1).unwrap_or_default())).collect();
    assert_eq!(named, real, "left: the page; right: the operator");
}
