//! The running source. The slow look is off except where it is the subject, so that only the watch can pass a
//! test.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandgate_routes::{Limits, RouteReader, RouteTable};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::{FileSource, FileStatus};

const NEVER: Duration = Duration::from_secs(3600);
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    folder: TempDir,
    reader: RouteReader,
    status: watch::Receiver<Option<FileStatus>>,
    task: JoinHandle<()>,
}

/// Runs a source on a path below a folder of its own, which `prepare` fills first.
fn run_with(path: &str, poll: Duration, watching: bool, prepare: impl FnOnce(&Path)) -> Running {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let (writer, reader) = RouteTable::new(Limits::default());
    let (tell, status) = watch::channel(None);
    let mut source = FileSource::new(folder.path().join(path), writer)
        .on_status(move |status| drop(tell.send(Some(status.clone()))));
    source.poll = poll;
    source.watching = watching;
    let task = tokio::spawn(source.run());
    Running { folder, reader, status, task }
}

fn run(path: &str, prepare: impl FnOnce(&Path)) -> Running {
    run_with(path, NEVER, true, prepare)
}

fn one(name: &str) -> String {
    format!("routes: [{{ name: {name}, ip: 127.0.0.1 }}]\n")
}

impl Running {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn until(&mut self, what: &str, condition: impl Fn(&FileStatus) -> bool) -> FileStatus {
        let waited = self.status.wait_for(|status| status.as_ref().is_some_and(&condition));
        if let Ok(status) = tokio::time::timeout(PATIENCE, waited).await {
            return status.unwrap().clone().unwrap();
        }
        panic!("never {what}: {:?}", *self.status.borrow())
    }

    /// Waits until the file has one route of that name and the status knows no error.
    async fn has(&mut self, name: &str) {
        let (reader, id) = (self.reader.clone(), format!("default--{name}"));
        let status = self.until(name, |status| status.error.is_none() && reader.get(&id).is_some()).await;
        assert_eq!((status.routes, self.reader.counts().routes), (1, 1));
    }

    async fn fails(&mut self) -> String {
        self.until("an error", |status| status.error.is_some()).await.error.unwrap()
    }
}

#[tokio::test]
async fn a_file_there_at_the_start_is_loaded() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
}

#[tokio::test]
async fn an_edit_in_place_is_seen() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    for name in ["b", "c", "d"] {
        fs::write(r.path("routes.yaml"), one(name)).unwrap();
        r.has(name).await;
    }
}

#[tokio::test]
async fn a_rename_over_the_file_is_seen() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    for name in ["b", "c", "d"] {
        fs::write(r.path("next"), one(name)).unwrap();
        fs::rename(r.path("next"), r.path("routes.yaml")).unwrap();
        r.has(name).await;
    }
}

#[tokio::test]
async fn a_config_map_update_is_seen() {
    let publish = |folder: &Path, version: &str, name: &str| {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("routes.yaml"), one(name)).unwrap();
        symlink(version, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    let mut r = run("routes.yaml", |folder| {
        publish(folder, "..v1", "a");
        symlink("..data/routes.yaml", folder.join("routes.yaml")).unwrap();
    });
    r.has("a").await;
    for (old, version, name) in [("..v1", "..v2", "b"), ("..v2", "..v3", "c")] {
        publish(r.folder.path(), version, name);
        fs::remove_dir_all(r.path(old)).unwrap();
        r.has(name).await;
    }
}

#[tokio::test]
async fn a_link_to_another_folder_is_followed_when_swapped_and_when_its_target_changes() {
    let mut r = run("here/routes.yaml", |folder| {
        for (place, name) in [("one", "a"), ("two", "b")] {
            fs::create_dir(folder.join(place)).unwrap();
            fs::write(folder.join(place).join("routes.yaml"), one(name)).unwrap();
        }
        symlink("one", folder.join("here")).unwrap();
    });
    r.has("a").await;
    symlink("two", r.path("there")).unwrap();
    fs::rename(r.path("there"), r.path("here")).unwrap();
    r.has("b").await;
    fs::write(r.path("two/routes.yaml"), one("c")).unwrap();
    r.has("c").await;
}

#[tokio::test]
async fn a_file_missing_at_the_start_is_loaded_when_it_comes() {
    let mut r = run("deep/down/routes.yaml", |_| ());
    assert!(r.fails().await.starts_with("cannot be read: "));
    fs::create_dir(r.path("deep")).unwrap();
    fs::create_dir(r.path("deep/down")).unwrap();
    fs::write(r.path("deep/down/routes.yaml"), one("a")).unwrap();
    r.has("a").await;
}

#[tokio::test]
async fn a_deleted_file_leaves_its_routes_until_it_is_back() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    fs::remove_file(r.path("routes.yaml")).unwrap();
    r.fails().await;
    assert!(r.reader.get("default--a").is_some());
    fs::write(r.path("routes.yaml"), one("b")).unwrap();
    r.has("b").await;
}

#[tokio::test]
async fn a_folder_deleted_and_made_again_is_watched_again() {
    let mut r = run("sub/routes.yaml", |folder| {
        fs::create_dir(folder.join("sub")).unwrap();
        fs::write(folder.join("sub/routes.yaml"), one("a")).unwrap();
    });
    r.has("a").await;
    for name in ["b", "c"] {
        fs::remove_dir_all(r.path("sub")).unwrap();
        r.fails().await;
        fs::create_dir(r.path("sub")).unwrap();
        fs::write(r.path("sub/routes.yaml"), one(name)).unwrap();
        r.has(name).await;
    }
}

#[tokio::test]
async fn a_file_caught_half_written_is_loaded_when_it_is_whole() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    let mut file = File::create(r.path("routes.yaml")).unwrap();
    assert_eq!(r.fails().await, "1:1: the file: expected a mapping with the key `routes`");
    file.write_all(b"routes:\n  - name: b\n    ip: 127.").unwrap();
    r.until("the half file", |status| status.error.as_deref().is_some_and(|e| e.contains("routes[0].ip")))
        .await;
    assert!(r.reader.get("default--a").is_some() && r.reader.get("default--b").is_none());
    file.write_all(b"0.0.1\n").unwrap();
    r.has("b").await;
}

#[tokio::test]
async fn where_nothing_is_reported_a_look_finds_the_change() {
    let mut r = run_with("routes.yaml", Duration::from_millis(5), false, |folder| {
        fs::write(folder.join("routes.yaml"), one("a")).unwrap();
    });
    r.has("a").await;
    fs::write(r.path("routes.yaml"), one("b")).unwrap();
    r.has("b").await;
    fs::remove_file(r.path("routes.yaml")).unwrap();
    r.fails().await;
}

#[tokio::test]
async fn many_writers_at_once_end_in_the_last_write() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (next, path) = (r.path(&format!("next-{writer}")), r.path("routes.yaml"));
            std::thread::spawn(move || {
                for round in 1..=100 {
                    // Each file says in the names how many it has.
                    let list: Vec<_> = (0..round)
                        .map(|n| format!("{{ name: w{writer}-{round}-{n}, state: paused }}"))
                        .collect();
                    fs::write(&next, format!("routes: [{}]", list.join(", "))).unwrap();
                    fs::rename(&next, &path).unwrap();
                }
            })
        })
        .collect();
    tokio::task::spawn_blocking(|| writers.into_iter().for_each(|writer| writer.join().unwrap()))
        .await
        .unwrap();
    fs::write(r.path("next"), one("last")).unwrap();
    fs::rename(r.path("next"), r.path("routes.yaml")).unwrap();
    r.has("last").await;
    let status = r.status.borrow().clone().unwrap();
    assert_eq!(status.loads_failed, 0, "a rename never shows half a file");
}

#[tokio::test]
async fn a_source_ends_with_its_task() {
    let mut r = run("routes.yaml", |folder| fs::write(folder.join("routes.yaml"), one("a")).unwrap());
    r.has("a").await;
    r.task.abort();
    assert!((&mut r.task).await.unwrap_err().is_cancelled());
    // The hook went with the source, which is how its end can be seen from here.
    let ended = async { while r.status.changed().await.is_ok() {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the source to be dropped");
}

#[tokio::test]
async fn the_status_is_shared_with_other_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(&path, one("a")).unwrap();
    let (writer, reader) = RouteTable::new(Limits::default());
    let ready = Arc::new(tokio::sync::Notify::new());
    let (bell, table) = (Arc::clone(&ready), writer.clone());
    let source = FileSource::new(&path, writer).on_first_load(move || {
        table.set_ready();
        bell.notify_one();
    });
    assert_eq!(source.path(), path);
    let status = source.status();
    assert_eq!((status.load().generation, reader.is_ready()), (0, false));
    tokio::spawn(source.run());
    tokio::time::timeout(PATIENCE, ready.notified()).await.unwrap();
    assert_eq!((status.load().generation, status.load().routes, reader.is_ready()), (1, 1, true));
}

#[tokio::test]
async fn a_source_reads_at_the_next_poll_what_it_could_not_read_when_it_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(&path, one("a")).unwrap();
    let (writer, reader) = RouteTable::new(Limits::default());
    let (tell, mut status) = watch::channel(None);
    let mut source =
        FileSource::new(&path, writer).on_status(move |status| drop(tell.send(Some(status.clone()))));
    // No event helps: what is read is read because it is looked for again.
    (source.poll, source.watching) = (Duration::from_millis(5), false);
    {
        let mut loader = source.loader.lock();
        let mut read =
            std::mem::replace(&mut loader.read, Box::new(|_| unreachable!("replaced in the next line")));
        let mut failures = 3;
        loader.read = Box::new(move |path| {
            failures -= 1;
            if failures >= 0 {
                return Err(std::io::Error::from_raw_os_error(24).into());
            }
            read(path)
        });
    }
    let task = tokio::spawn(source.run());
    let loaded = status.wait_for(|status| status.as_ref().is_some_and(|status| status.generation == 1));
    tokio::time::timeout(PATIENCE, loaded).await.expect("it is loaded").unwrap();
    assert!(reader.get("default--a").is_some());
    task.abort();
}

#[tokio::test]
async fn a_source_that_is_run_again_goes_on_with_the_table_and_the_numbers_of_the_run_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes.yaml");
    fs::write(&path, one("a")).unwrap();
    let (writer, reader) = RouteTable::new(Limits::default());
    let (tell, mut status) = watch::channel(None);
    let source =
        FileSource::new(&path, writer).on_status(move |status| drop(tell.send(Some(status.clone()))));
    let mut identity = None;
    for (generation, name) in [(1, "b"), (2, "c"), (3, "d")] {
        let text = format!("routes: [{{ name: a, ip: 127.0.0.1 }}, {{ name: {name}, ip: 127.0.0.2 }}]");
        fs::write(&path, text).unwrap();
        let task = tokio::spawn(source.clone().run());
        let loaded =
            status.wait_for(|status| status.as_ref().is_some_and(|status| status.generation == generation));
        tokio::time::timeout(PATIENCE, loaded).await.expect("it is loaded").unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        let kept = reader.get("default--a").expect("the table is kept").identity();
        assert_eq!(*identity.get_or_insert(kept), kept, "nothing of it was begun anew");
        assert!(reader.get(&format!("default--{name}")).is_some());
        assert_eq!(reader.counts().routes, 2);
    }
}
