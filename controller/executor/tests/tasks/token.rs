//! The bearer token.

use std::fs;

use serde_json::json;

use crate::harness::{Executor, Site, shell};

fn with_token(site: &Site) -> Executor {
    fs::write(site.path("token"), "first\n").unwrap();
    site.start_with(|command| {
        command.arg("--token-file").arg(site.path("token"));
    })
}

#[test]
fn without_its_token_nothing_is_done() {
    let site = Site::new();
    let mut executor = with_token(&site);
    let list = json!([shell("a", "true")]).to_string();
    for token in [None, Some("second"), Some("")] {
        executor.token = token.map(str::to_owned);
        for (method, path) in [
            ("GET", "/getTasks"),
            ("POST", "/setTasks"),
            ("POST", "/tasks"),
            ("GET", "/tasks/a"),
            ("DELETE", "/tasks/a"),
            ("GET", "/nowhere"),
        ] {
            let answer = executor.request(method, path, &list);
            answer.error(401, "Unauthorized");
            assert!(
                answer.head.contains("www-authenticate: bearer realm=\"task-executor\""),
                "{}",
                answer.head
            );
        }
    }
    executor.token = Some("first".to_owned());
    assert!(executor.tasks().is_empty());
    assert_eq!(executor.request("POST", "/setTasks", &list).status, 200);
}

#[test]
fn health_needs_no_token() {
    let site = Site::new();
    assert_eq!(with_token(&site).request("GET", "/health", "").status, 200);
}

#[test]
fn a_file_that_changes_counts_at_once() {
    let site = Site::new();
    let mut executor = with_token(&site);
    executor.token = Some("second".to_owned());
    assert_eq!(executor.request("GET", "/getTasks", "").status, 401);
    // As the kubelet changes a Secret: another file under the same name.
    fs::write(site.path("next"), "first\nsecond\n").unwrap();
    fs::rename(site.path("next"), site.path("token")).unwrap();
    for token in ["first", "second"] {
        executor.token = Some(token.to_owned());
        assert_eq!(executor.request("GET", "/getTasks", "").status, 200, "{token}");
    }
}

#[test]
fn the_variable_says_the_same_and_the_token_is_not_logged() {
    let site = Site::new();
    fs::write(site.path("token"), "a-very-secret-token").unwrap();
    let mut executor = site.start_with(|command| {
        command.env("TOKEN_FILE", site.path("token"));
    });
    assert_eq!(executor.request("GET", "/getTasks", "").status, 401);
    executor.token = Some("a-very-secret-token".to_owned());
    executor.create(&shell("a", "env"));
    executor.terminated("a");
    assert!(!executor.log().contains("a-very-secret-token"));
    assert!(!site.file("a", "stdout.log").unwrap().contains("a-very-secret-token"));
}

#[test]
fn a_file_without_a_token_is_an_error_at_the_start() {
    let site = Site::new();
    fs::write(site.path("token"), "\n").unwrap();
    let started = site.try_start(|command| {
        command.arg("--token-file").arg(site.path("token"));
    });
    assert!(started.is_none());
}
