//! One look at a time, with no watch: what a load does to the table and the status.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use sandgate_routes::{Limits, RouteReader, RouteTable, State};
use tempfile::TempDir;

use super::super::load::{Loader, Trigger};
use super::super::{MAX_BYTES, read_routes};

struct Setup {
    folder: TempDir,
    path: PathBuf,
    reader: RouteReader,
    loader: Loader,
    announced: Arc<Mutex<Vec<(u64, bool)>>>,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    let (writer, reader) = RouteTable::new(Limits::default());
    let mut loader = Loader::new(path.clone(), writer);
    let announced = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&announced);
    loader.on_status =
        Box::new(move |status| notes.lock().unwrap().push((status.generation, status.error.is_some())));
    Setup { folder, path, reader, loader, announced }
}

impl Setup {
    fn write(&mut self, content: &str) -> &mut Self {
        fs::write(&self.path, content).unwrap();
        self.loader.check(Trigger::Event);
        self
    }

    fn ip(&self, id: &str) -> Option<String> {
        self.reader.get(id).and_then(|route| route.ip()).map(|ip| ip.to_string())
    }

    fn error(&self) -> String {
        self.loader.status.load().error.clone().unwrap_or_default()
    }
}

const A: &str = "routes: [{ name: a, ip: 10.0.0.1 }]";
const B: &str = "routes: [{ name: b, ip: 10.0.0.2 }]";

#[test]
fn what_left_the_file_leaves_the_table() {
    let mut s = setup();
    s.write(A);
    assert_eq!(s.ip("default--a").as_deref(), Some("10.0.0.1"));
    s.write(B);
    assert_eq!((s.ip("default--a"), s.ip("default--b").as_deref()), (None, Some("10.0.0.2")));
    s.write(A);
    assert_eq!((s.ip("default--a").as_deref(), s.ip("default--b")), (Some("10.0.0.1"), None));
    s.write("routes: []");
    assert_eq!(s.reader.counts().routes, 0);
    assert_eq!(s.loader.status.load().generation, 4);
}

#[test]
fn the_version_of_a_route_is_the_number_of_its_load() {
    let mut s = setup();
    s.write(A).write("nonsense").write("routes: [{ name: a, ip: 10.0.0.9 }]");
    let route = s.reader.get("default--a").unwrap();
    assert_eq!(route.version().to_string(), "2");
    assert_eq!(route.ip().unwrap().to_string(), "10.0.0.9");
}

#[test]
fn two_objects_can_swap_their_ids() {
    let mut s = setup();
    s.write("routes: [{ name: a, id: x, ip: 10.0.0.1 }, { name: b, id: y, ip: 10.0.0.2 }]");
    s.write("routes: [{ name: a, id: y, ip: 10.0.0.1 }, { name: b, id: x, ip: 10.0.0.2 }]");
    assert_eq!((s.ip("x").as_deref(), s.ip("y").as_deref()), (Some("10.0.0.2"), Some("10.0.0.1")));
}

#[test]
fn an_id_can_move_to_another_object() {
    let mut s = setup();
    s.write("routes: [{ name: a, id: x, ip: 10.0.0.1 }]");
    s.write("routes: [{ name: b, id: x, ip: 10.0.0.2 }]");
    assert_eq!(s.ip("x").as_deref(), Some("10.0.0.2"));
    assert_eq!(s.reader.counts().routes, 1);
}

#[test]
fn a_dead_sandbox_has_no_route() {
    let mut s = setup();
    s.write("routes: [{ name: a, state: dead }, { name: b, state: paused }, { name: c, ip: '::1' }]");
    assert!(s.reader.get("default--a").is_none());
    assert_eq!(s.reader.get("default--b").unwrap().state(), State::Paused);
    assert_eq!((s.reader.counts().routes, s.loader.status.load().routes), (2, 2));
}

#[test]
fn a_bad_file_changes_nothing_and_says_where() {
    let mut s = setup();
    s.write(A);
    for (bad, error) in [
        ("", "1:1: the file: expected a mapping with the key `routes`"),
        (
            "routes:\n- name: a\n  ip: here\n",
            "3:7: routes[0].ip: expected an IPv4 or IPv6 address without a port",
        ),
        ("routes: [", "1:9: not YAML: "),
    ] {
        s.write(bad);
        assert!(s.error().starts_with(error), "{}", s.error());
        assert_eq!(s.ip("default--a").as_deref(), Some("10.0.0.1"));
    }
    let status = s.loader.status.load();
    assert_eq!((status.generation, status.routes, status.loads_ok, status.loads_failed), (1, 1, 1, 3));
    assert!(status.loaded_at.is_some());
    s.write(A);
    assert_eq!((s.error().as_str(), s.loader.status.load().generation), ("", 2));
    assert_eq!(*s.announced.lock().unwrap(), [(1, false), (1, true), (1, true), (1, true), (2, false)]);
}

#[test]
fn the_same_content_is_loaded_once_good_or_bad() {
    let mut s = setup();
    s.write(A).write(A).write("bad").write("bad").write(B).write(B);
    let status = s.loader.status.load();
    assert_eq!((status.loads_ok, status.loads_failed, status.generation), (2, 1, 2));
}

#[test]
fn a_brief_look_reads_only_what_changed() {
    let mut s = setup();
    s.loader.check(Trigger::Poll);
    assert!(s.error().starts_with("cannot be read: "), "{}", s.error());
    s.loader.check(Trigger::Poll);
    assert_eq!(s.loader.status.load().loads_failed, 1);
    fs::write(&s.path, A).unwrap();
    s.loader.check(Trigger::Poll);
    assert_eq!(s.ip("default--a").as_deref(), Some("10.0.0.1"));
    fs::write(&s.path, B).unwrap();
    s.loader.check(Trigger::Poll);
    assert_eq!(s.ip("default--b").as_deref(), Some("10.0.0.2"));
}

#[test]
fn the_first_good_load_is_told_once() {
    let mut s = setup();
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    s.loader.on_first_load = Some(Box::new(move || *count.lock().unwrap() += 1));
    s.write("bad");
    assert_eq!(*told.lock().unwrap(), 0);
    s.write(A).write(B);
    assert_eq!(*told.lock().unwrap(), 1);
}

#[test]
fn a_file_that_goes_away_leaves_its_routes() {
    let mut s = setup();
    s.write(A);
    fs::remove_file(&s.path).unwrap();
    s.loader.check(Trigger::Event);
    assert!(s.error().starts_with("cannot be read: "), "{}", s.error());
    assert_eq!(s.ip("default--a").as_deref(), Some("10.0.0.1"));
    s.write(A);
    assert_eq!(s.error(), "");
}

#[test]
fn what_is_no_file_or_too_large_is_refused() {
    let mut s = setup();
    fs::create_dir(&s.path).unwrap();
    s.loader.check(Trigger::Event);
    assert_eq!(s.error(), "is not a regular file");
    fs::remove_dir(&s.path).unwrap();
    fs::File::create(&s.path).unwrap().set_len(MAX_BYTES as u64 + 1).unwrap();
    s.loader.check(Trigger::Event);
    assert_eq!(s.error(), "is larger than 67108864 bytes, the most a routes file may have");
}

#[test]
fn a_token_is_in_no_status() {
    let mut s = setup();
    s.write("routes: [{ name: a, ip: 10.0.0.1, access-token: hunter2 }]");
    assert!(s.reader.get("default--a").unwrap().token().unwrap().matches(b"hunter2"));
    assert!(!format!("{:?}", s.loader.status.load()).contains("hunter2"));
    s.write("routes: [{ name: a, ip: 10.0.0.1, access-token: [hunter2] }]");
    assert!(!s.error().is_empty() && !format!("{:?}", s.loader.status.load()).contains("hunter2"));
}

#[test]
fn the_extension_decides_the_format_of_a_file() {
    let s = setup();
    let path = s.folder.path().join("routes.json");
    fs::write(&path, A).unwrap();
    assert!(read_routes(&path).unwrap_err().to_string().contains("not JSON"));
    fs::write(&path, r#"{"routes": [{"name": "a", "ip": "10.0.0.1"}]}"#).unwrap();
    assert_eq!(read_routes(&path).unwrap().len(), 1);
}

#[test]
fn a_state_that_is_none_takes_the_route_out_of_service_and_leaves_a_warning_until_it_is_mended() {
    let mut s = setup();
    s.write(A);
    s.write("routes:\n- { name: a, ip: 10.0.0.1, state: asleep }\n- { name: b, ip: 10.0.0.2, state: odd }\n");
    let state = |s: &Setup, id: &str| s.reader.get(id).unwrap().state();
    assert_eq!((state(&s, "default--a"), state(&s, "default--b")), (State::Unknown, State::Unknown));
    let status = s.loader.status.load();
    assert_eq!((status.routes, status.error.as_deref()), (2, None));
    let warning = status.warning.clone().unwrap();
    assert!(warning.starts_with("2:35: routes[0].state: `asleep` is no state"), "{warning}");
    assert!(warning.ends_with(", and 1 more"), "{warning}");
    // A bad file after it changes nothing, the warning neither.
    s.write("nonsense");
    assert_eq!(s.loader.status.load().warning.as_ref(), Some(&warning));
    s.write(A);
    assert_eq!((state(&s, "default--a"), s.loader.status.load().warning.clone()), (State::Running, None));
}

/// Lets the next reads fail so, one after the other, and then reads as ever.
fn fail_reads(s: &mut Setup, failures: impl IntoIterator<Item = i32>) {
    let mut failures: Vec<i32> = failures.into_iter().collect();
    failures.reverse();
    let mut read = std::mem::replace(&mut s.loader.read, Box::new(|_| unreachable!("replaced below")));
    s.loader.read = Box::new(move |path| match failures.pop() {
        Some(errno) => Err(std::io::Error::from_raw_os_error(errno).into()),
        None => read(path),
    });
}

const EMFILE: i32 = 24;
const EIO: i32 = 5;
const EACCES: i32 = 13;
const ENOENT: i32 = 2;

#[test]
fn a_change_that_could_not_be_read_once_is_read_at_the_next_poll_though_nothing_changed_since() {
    for errno in [EMFILE, EIO, EACCES, ENOENT] {
        let mut s = setup();
        s.write(A);
        fail_reads(&mut s, [errno]);
        s.write(B);
        assert!(s.error().starts_with("cannot be read: "), "{}", s.error());
        assert_eq!(s.ip("default--a").as_deref(), Some("10.0.0.1"), "the last good table serves");
        s.loader.check(Trigger::Poll);
        assert_eq!((s.ip("default--a"), s.ip("default--b").as_deref()), (None, Some("10.0.0.2")));
        assert_eq!(s.error(), "");
    }
}

#[test]
fn a_trouble_that_lasts_is_told_once_and_another_one_again() {
    let mut s = setup();
    s.write(A);
    fail_reads(&mut s, [EIO, EIO, EIO, EACCES, EACCES]);
    s.write(B);
    for _ in 0..4 {
        s.loader.check(Trigger::Poll);
    }
    assert_eq!((s.loader.status.load().loads_failed, s.loader.status.load().generation), (2, 1));
    s.loader.check(Trigger::Poll);
    assert_eq!((s.error().as_str(), s.ip("default--b").as_deref()), ("", Some("10.0.0.2")));
}

#[test]
fn a_file_that_was_read_is_not_read_again_until_its_metadata_changes() {
    let mut s = setup();
    s.write(A).write("nonsense");
    s.loader.read = Box::new(|_| panic!("read without need"));
    s.loader.check(Trigger::Poll);
}
