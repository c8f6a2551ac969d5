//! The OpenAPI document that the manager serves, held against what it does.

use std::process::Command;
use std::time::Duration;

use sandgate_tests::{Cli, locations};

use super::{BASE, Site, everywhere};

/// How long the tool may take; some seconds alone.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test]
async fn the_manager_answers_as_its_document_says_whatever_it_is_asked() {
    let site = Site::start().await;
    site.template(BASE, "hollow", 4).await;
    let runtime = everywhere().await;
    let manager = site.cluster.manager().flag("--rate=100000").flag("--burst=100000");
    // Nobody executes checkpoints here. That is said at once, and not found out by waiting.
    let manager = manager.flag("--snapshots=false").flag(&format!("--runtime-port={}", runtime.port()));
    let mut manager = manager.start().await;
    let key = site.cluster.api_key_with("document", &["--team", "admin"]).await;
    let mut run = Command::new(locations::repository().join("tests/schemathesis/run"));
    run.args([&manager.url(), &key]).args(["--max-examples", "15", "--seed", "17"]);
    let done = Cli::finish_within(PATIENCE, run).await;
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    manager.assert_alive();
    let log = manager.log();
    assert!(!log.contains("panicked"), "{log}");
    assert!(!log.contains(&key), "a key is in the log");
}
