//! The pages about the operator and the manager, beside the programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sandgate_tests::book::Page;
use sandgate_tests::{Cli, locations};

use super::metrics::names;

/// A program that has a page.
pub(super) struct Program {
    page: &'static str,
    /// What the names of its metrics begin with.
    pub(super) prefix: &'static str,
    /// Its metrics, as its own tests compare them with what it serves.
    list: &'static str,
    command: fn() -> PathBuf,
}

pub(super) const PROGRAMS: [Program; 2] = [
    Program {
        page: "envoy/docs/operator.md",
        prefix: "sandgate_operator_",
        list: "controller/operator/metrics.txt",
        command: locations::operator,
    },
    Program {
        page: "envoy/docs/manager.md",
        prefix: "sandgate_manager_",
        list: "controller/manager/metrics.txt",
        command: locations::manager,
    },
];

impl Program {
    /// The metrics without the prefix, each with its type.
    fn metrics(&self) -> Vec<(String, String)> {
        let list = locations::repository().join(self.list);
        let list = fs::read_to_string(list).expect("the list of metrics");
        let lines = list.lines().filter_map(|line| line.strip_prefix(self.prefix)?.split_once(' '));
        lines.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
    }

    /// Whether it serves a metric of this name, as Prometheus knows it.
    pub(super) fn serves(&self, name: &str) -> bool {
        self.metrics().iter().any(|(metric, kind)| match kind.as_str() {
            "counter" => name == format!("{metric}_total"),
            "histogram" => ["_bucket", "_count", "_sum"].iter().any(|end| name == format!("{metric}{end}")),
            _ => name == metric,
        })
    }
}

#[test]
fn a_page_names_every_metric_of_its_program_and_no_other() {
    for program in PROGRAMS {
        let real: BTreeSet<String> = program.metrics().into_iter().map(|(name, _)| name).collect();
        assert!(real.len() > 10, "{real:?}");
        let named = names(&Page::read(program.page).prose(), &format!("`{}", program.prefix));
        assert_eq!(named, real, "left: {}; right: the program", program.page);
    }
    let [operator, _] = PROGRAMS;
    let serves = |name| operator.serves(name);
    assert!(serves("writes_total") && serves("leader") && !serves("writes") && !serves("colour"));
}

/// The long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter_map(|word| word.strip_prefix("--")).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_page_has_a_row_for_every_flag_of_its_program_and_for_no_other() {
    for program in PROGRAMS {
        let mut command = Command::new((program.command)());
        command.arg("--help");
        let done = Cli::finish(command).await;
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let flags = done.stdout.lines().map(str::trim_start);
        let real = flags.filter(|line| line.starts_with('-')).flat_map(options);
        let real: BTreeSet<String> =
            real.filter(|flag| !["help", "version"].contains(&flag.as_str())).collect();
        let page = Page::read(program.page);
        let rows = page.text.lines().filter(|line| line.starts_with("| `--"));
        let named: BTreeSet<String> =
            rows.flat_map(|row| options(row.split('|').nth(1).unwrap_or_default())).collect();
        assert_eq!(named, real, "left: {}; right: the program", program.page);
    }
}
