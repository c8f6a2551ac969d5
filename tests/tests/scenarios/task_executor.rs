//! The page about the task executor, beside the program: `envoy/docs/task-executor.md`.

use std::collections::BTreeSet;
use std::process::Command;

use sandgate_tests::book::Page;
use sandgate_tests::{Cli, LoopbackPort, locations};
use tempfile::TempDir;

const PAGE: &str = "envoy/docs/task-executor.md";

/// The first long option of each of these lines.
fn options<'a>(lines: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let first = |line: &'a str| {
        line.split_once("--")?.1.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next()
    };
    lines.filter_map(first).map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn the_page_has_a_row_for_every_flag_and_for_no_other() {
    let mut command = Command::new(locations::task_executor());
    command.arg("--help");
    let help = Cli::finish(command).await.stdout;
    let mut real = options(help.lines().map(str::trim_start).filter(|line| line.starts_with('-')));
    for flag in ["help", "version"] {
        assert!(real.remove(flag), "{flag} is not in\n{help}");
    }
    let page = Page::read(PAGE);
    let named = options(page.text.lines().filter(|line| line.starts_with("| `--")));
    assert_eq!(named, real, "left: {PAGE}; right: the program");
}

#[tokio::test]
async fn what_the_page_lets_you_try_works() {
    let page = Page::read(PAGE);
    let blocks: Vec<_> = page.blocks().into_iter().filter(|block| block.is("sh", "test")).collect();
    assert_eq!(blocks.len(), 1);
    let (folder, port) = (TempDir::new().expect("a folder"), LoopbackPort::reserve());
    let program = locations::task_executor();
    let text = blocks[0].text.replace("5758", &port.number().to_string());
    let prelude =
        "set -emuo pipefail\ncurl() { command curl --silent --show-error --fail-with-body \"$@\"; }\n";
    let tool = format!("task-executor() {{ exec {} \"$@\"; }}\n", program.display());
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &format!("{prelude}{tool}{text}")]).current_dir(folder.path());
    let done = Cli::finish(command).await;
    assert_eq!(done.code, Some(0), "{}\n{}", done.stdout, done.stderr);
    assert!(done.stdout.lines().any(|line| line == "hello"), "{}", done.stdout);
}
