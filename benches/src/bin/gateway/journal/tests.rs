use tempfile::TempDir;

use super::*;

fn settings() -> Settings {
    Settings {
        slot_seconds: 1.0,
        rate: 2_000,
        contenders: vec!["limit".to_owned(), "lua".to_owned()],
        envoy: "1.40.0".to_owned(),
        modules: "00".to_owned(),
    }
}

fn slot(round: usize, contender: &str) -> Slot {
    let answers = Answers { requests: 1_000, seconds: 1.0, failed: 0, latency: None };
    Slot {
        cell: "cell".to_owned(),
        kind: Kind::Throughput,
        round,
        contender: contender.to_owned(),
        answers,
        cpu_nanos: 5,
        side_cpu_nanos: 0,
        resident: 7,
        changes: 0,
    }
}

fn journal() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("raw.jsonl");
    (folder, path)
}

fn fill(path: &Path) -> Journal {
    let mut journal = Journal::open(path, &settings()).expect("a new journal");
    for contender in ["limit", "lua"] {
        journal.add(slot(0, contender)).expect("written");
    }
    journal.finish("cell", Kind::Throughput, 0).expect("written");
    journal.add(slot(1, "limit")).expect("written");
    journal
}

#[test]
fn a_cut_run_keeps_its_finished_rounds_and_measures_the_other_anew() {
    let (_folder, path) = journal();
    drop(fill(&path));
    let mut again = Journal::open(&path, &settings()).expect("the same journal");
    assert_eq!(again.slots(), [slot(0, "limit"), slot(0, "lua")]);
    assert!(again.is_done("cell", Kind::Throughput, 0));
    assert!(!again.is_done("cell", Kind::Throughput, 1));
    assert!(!again.is_done("cell", Kind::Latency, 0) && !again.is_done("other", Kind::Throughput, 0));
    for contender in ["lua", "limit"] {
        again.add(slot(1, contender)).expect("written");
    }
    again.finish("cell", Kind::Throughput, 1).expect("written");
    drop(again);
    let (_, slots, done) = read(&path).expect("readable");
    assert_eq!(slots.len(), 4, "the half round is not in it twice");
    assert_eq!(done.len(), 2);
}

#[test]
fn a_line_that_was_being_written_is_dropped() {
    let (_folder, path) = journal();
    drop(fill(&path));
    let text = fs::read_to_string(&path).expect("readable");
    for cut in 0..text.len() {
        fs::write(&path, &text[..cut]).expect("written");
        let (_, slots, done) = read(&path).expect("a cut journal is readable");
        assert_eq!(slots.len(), if done.is_empty() { 0 } else { 2 });
    }
}

#[test]
fn a_line_that_is_no_row_is_an_error_with_its_number() {
    let (_folder, path) = journal();
    drop(fill(&path));
    let text = fs::read_to_string(&path).expect("readable");
    fs::write(&path, text.replacen("requests", "request", 1)).expect("written");
    let error = read(&path).expect_err("a row with an unknown shape").to_string();
    assert!(error.contains("line 2"), "{error}");
}

#[test]
fn another_build_is_not_mixed_in() {
    let (_folder, path) = journal();
    drop(fill(&path));
    let other = Settings { modules: "01".to_owned(), ..settings() };
    let error = Journal::open(&path, &other).expect_err("refused").to_string();
    assert!(error.contains("--fresh"), "{error}");
    assert_eq!(read(&path).expect("untouched").1.len(), 2);
}
