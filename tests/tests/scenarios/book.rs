//! The book in `envoy/docs` and the README files: every block is run or checked, every link leads somewhere.
//!
//! | block | how it is checked |
//! |---|---|
//! | `yaml,config` | a config of `sandgate run`: `sandgate validate` takes it, with certificates in place |
//! | `yaml,routes` | a routes file: `sandgate validate --routes` takes it |
//! | `yaml,values` | values of the chart: `helm template` takes them |
//! | `yaml,pod` | keys of a pod's spec: a real API server takes a pod with them, unknown fields refused |
//! | `yaml,object` | an object of a kind whose definition is shipped: a real API server takes it |
//! | `yaml,alerts` | rules of Prometheus: every metric that they name is one of ours |
//! | `yaml,foreign` | an object of a project that is not installed here: YAML, with a kind and a name |
//! | `json,push` | a message that a gateway takes: 204 |
//! | `sh,run` | run as it stands, with ports of this test in place of the usual ones |
//! | `sh,serve` | the same, in the background: the blocks that follow on the page run beside it |
//! | `sh,check`, `console,check` | run with stand-ins for what needs a cluster: `book/check.sh` |
//! | `text` | not checked: a diagram, a log line, DNS records |
//! | `…,test=MODULE` | run by a test of that scenario module, which names the page |
//!
//! With `file=NAME` a block is also written to that file for the blocks that follow it on its page.
//! `in=FOLDER` is the folder of the repository that a shell block is run in.

mod metrics;
mod programs;
mod shell;
mod yaml;

use std::fs;
use std::path::Path;

use sandgate_tests::book::{Block, Page, chapters, pages, reference};
use sandgate_tests::deploy::committed;
use sandgate_tests::{Gateway, locations};
use serde_json::{Value, json};

/// Each language with the marks of which a block needs exactly one.
const KINDS: [(&str, &[&str]); 7] = [
    ("yaml", &["config", "routes", "values", "pod", "object", "alerts", "foreign", "test"]),
    ("sh", &["run", "serve", "check", "test"]),
    ("console", &["check"]),
    ("json", &["push"]),
    ("python", &["test"]),
    ("js", &["test"]),
    ("text", &[]),
];

/// Pages whose links are checked though they are not part of the book.
const LINKED: [&str; 5] =
    ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benches/README.md", "envoy/deploy/README.md"];

/// The widest line of the book and the README that is not a row of a table.
const WIDTH: usize = 120;

/// The blocks of all pages that are in this language and have this mark.
fn blocks(language: &str, mark: &str) -> Vec<Block> {
    let blocks: Vec<Block> =
        pages().iter().flat_map(Page::blocks).filter(|block| block.is(language, mark)).collect();
    assert!(!blocks.is_empty(), "no page has a block {language},{mark}");
    blocks
}

/// What is wrong with the info string of a block.
fn unmarked(block: &Block) -> Option<String> {
    let Some((_, kinds)) = KINDS.iter().find(|(language, _)| *language == block.language) else {
        return Some(format!("{}: no check for the language {:?}", block.place, block.language));
    };
    let chosen = kinds.iter().filter(|kind| block.marks.contains_key(**kind)).count();
    if kinds.is_empty() || chosen == 1 {
        return None;
    }
    Some(format!("{}: expected one of {kinds:?} after {:?}", block.place, block.language))
}

#[test]
fn every_block_says_how_it_is_checked() {
    let wrong: Vec<String> =
        pages().iter().flat_map(Page::blocks).filter_map(|block| unmarked(&block)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // And a block without a mark is found.
    let page = |text: &str| Page { path: "page.md".to_owned(), text: text.to_owned() };
    for (fence, is_wrong) in [("yaml", true), ("sh", true), ("", true), ("ruby,run", true), ("sh,run", false)]
    {
        let blocks = page(&format!("```{fence}\nx\n```\n")).blocks();
        assert_eq!(unmarked(&blocks[0]).is_some(), is_wrong, "{fence}");
    }
}

#[test]
fn a_block_that_another_test_runs_is_named_there() {
    let pages = pages();
    let marked = pages.iter().flat_map(Page::blocks).filter(|block| block.marks.contains_key("test"));
    for block in marked {
        let module = block.marks["test"].replace("::", "/");
        let file = locations::repository().join(format!("tests/tests/scenarios/{module}.rs"));
        let source = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {module}: {e}", block.place));
        assert!(source.contains(&block.page), "{}: {module} does not read {}", block.place, block.page);
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let outside = LINKED.iter().map(|path| Page::read(path));
    for page in outside.chain(chapters()).chain([Page::read("envoy/docs/SUMMARY.md")]) {
        for (line, target) in page.links() {
            if let Some(why) = broken_link(&page, &target) {
                broken.push(format!("{}:{line}: {target}: {why}", page.path));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Why a link leads nowhere. Links to other sites are not followed.
fn broken_link(page: &Page, target: &str) -> Option<&'static str> {
    if target.starts_with("https://") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file =
        if path.is_empty() { locations::repository().join(&page.path) } else { page.folder().join(path) };
    let Ok(file) = file.canonicalize() else {
        return Some("no such file");
    };
    let Ok(inside) = file.strip_prefix(locations::repository()) else {
        return Some("outside the repository");
    };
    let anchor = anchor?;
    let anchors = Page::read(&inside.display().to_string()).anchors();
    (!anchors.iter().any(|there| there == anchor)).then_some("no such heading")
}

#[test]
fn the_link_check_can_fail() {
    let page = Page::read("README.md");
    assert!(broken_link(&page, "envoy/docs/no-such-page.md").is_some());
    assert!(broken_link(&page, "envoy/docs/tls.md#no-such-heading").is_some());
    assert!(broken_link(&page, "envoy/docs/tls.md#files-that-change").is_none());
}

#[test]
fn every_page_of_the_folder_is_a_chapter() {
    let chapters: Vec<String> = chapters().into_iter().map(|page| page.path).collect();
    for entry in fs::read_dir(locations::repository().join("envoy/docs")).expect("the book").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_page = Path::new(&name).extension().is_some_and(|extension| extension == "md");
        if is_page && name != "SUMMARY.md" {
            let path = format!("envoy/docs/{name}");
            assert!(chapters.contains(&path), "{path} is not in SUMMARY.md");
        }
    }
}

#[test]
fn lines_fit_into_a_window() {
    let mut wide = Vec::new();
    for page in pages() {
        for (number, line) in page.text.lines().enumerate() {
            if line.chars().count() > WIDTH && !line.starts_with("| ") {
                wide.push(format!("{}:{}", page.path, number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "over {WIDTH} columns: {}", wide.join(" "));
    let readme = Page::read("README.md").text.lines().count();
    assert!(readme <= 150, "the README has {readme} lines; what is longer belongs in the book");
}

/// The version of an image or a tag of Sandgate's, wherever a page names one.
#[test]
fn the_book_names_the_version_of_the_program() {
    let mut named = 0;
    for page in pages() {
        for before in ["sandgate-gateway:", "sandgate/module:", "sandgate/gateway:", "newTag: "] {
            for (at, _) in page.text.match_indices(before) {
                let rest = &page.text[at + before.len()..];
                let version: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
                if version.contains('.') {
                    assert_eq!(version, env!("CARGO_PKG_VERSION"), "{}: after {before:?}", page.path);
                    named += 1;
                }
            }
        }
    }
    assert!(named > 1, "no page names a version");
}

/// `make docs-reference` writes the page anew.
#[test]
fn the_configuration_reference_is_made_from_the_schemas() {
    let file = locations::repository().join("envoy/docs/reference.md");
    committed(&file, &reference());
}

#[tokio::test]
async fn the_messages_of_the_book_are_taken() {
    let gateway = Gateway::builder()
        .refresh(json!({ "insecure": true }))
        .setting("pod-ranges", json!(["10.244.0.0/16"]))
        .start()
        .await;
    for block in blocks("json", "push") {
        let message: Value =
            serde_json::from_str(&block.text).unwrap_or_else(|e| panic!("{}: {e}", block.place));
        let reply = gateway.push(&message).await;
        assert_eq!(reply.status, 204, "{}: {}", block.place, reply.text());
        let id = message["id"].as_str().expect("an ID");
        let route = gateway.admin(&format!("/sandgate/routes?id={id}")).await.json();
        assert_eq!(route["state"], message["state"], "{}", block.place);
    }
}
