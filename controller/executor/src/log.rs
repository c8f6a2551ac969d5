//! The log in a file: a full one is renamed, and old ones are removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tracing_subscriber::fmt::MakeWriter;

use crate::clock;

const NAME: &str = "task-executor.log";

/// Where the log is, and how much of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The folder.
    pub folder: PathBuf,
    /// When a file is full, in bytes.
    pub most_bytes: u64,
    /// How many full ones are kept.
    pub backups: usize,
    /// For how many days. 0: for ever.
    pub days: u32,
}

/// The log's file.
#[derive(Clone)]
pub struct LogFile(Arc<Mutex<Open>>);

struct Open {
    settings: LogSettings,
    file: File,
    size: u64,
}

impl LogFile {
    /// Opens it, and makes its folder.
    ///
    /// # Errors
    /// If either cannot be done.
    pub fn open(settings: LogSettings) -> io::Result<Self> {
        fs::create_dir_all(&settings.folder)?;
        let file = OpenOptions::new().create(true).append(true).open(settings.folder.join(NAME))?;
        let size = file.metadata()?.len();
        Ok(Self(Arc::new(Mutex::new(Open { settings, file, size }))))
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let length = line.len() as u64;
        if open.size > 0 && open.size + length > open.settings.most_bytes {
            open.turn(clock::now())?;
        }
        open.file.write_all(line)?;
        open.size += length;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).file.flush()
    }
}

impl Open {
    fn turn(&mut self, now: Timestamp) -> io::Result<()> {
        let folder = &self.settings.folder;
        let full = format!("task-executor-{}.log", now.strftime("%Y-%m-%dT%H-%M-%S.%6f"));
        fs::rename(folder.join(NAME), folder.join(full))?;
        self.file = OpenOptions::new().create(true).append(true).open(folder.join(NAME))?;
        self.size = 0;
        self.tidy(now)
    }

    fn tidy(&self, now: Timestamp) -> io::Result<()> {
        let mut full = Vec::new();
        for entry in fs::read_dir(&self.settings.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(|name| name.starts_with("task-executor-") && name.ends_with(".log"))
            {
                full.push((name, entry.metadata()?.modified()?));
            }
        }
        // The names are times: the newest first.
        full.sort_by(|a, b| b.0.cmp(&a.0));
        let age = SignedDuration::from_hours(24 * i64::from(self.settings.days));
        let oldest = (self.settings.days > 0).then(|| now.saturating_sub(age).ok()).flatten();
        for (position, (name, modified)) in full.into_iter().enumerate() {
            let old = Timestamp::try_from(modified).is_ok_and(|at| oldest.is_some_and(|oldest| at < oldest));
            if position >= self.settings.backups || old {
                fs::remove_file(self.settings.folder.join(name))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::{LogFile, LogSettings};

    fn files(folder: &std::path::Path) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn a_full_file_is_renamed_and_only_so_many_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let settings =
            LogSettings { folder: folder.path().join("logs"), most_bytes: 10, backups: 2, days: 7 };
        let mut log = LogFile::open(settings).unwrap();
        for line in 0..5 {
            log.write_all(format!("line {line}\n").as_bytes()).unwrap();
        }
        let names = files(&folder.path().join("logs"));
        assert_eq!(names.len(), 3, "{names:?}");
        let read = |name: &str| fs::read_to_string(folder.path().join("logs").join(name)).unwrap();
        assert_eq!(read("task-executor.log"), "line 4\n");
        assert_eq!(names.iter().map(|name| read(name)).collect::<String>(), "line 2\nline 3\nline 4\n");
    }

    #[test]
    fn a_file_that_is_there_is_continued() {
        let folder = tempfile::tempdir().unwrap();
        let settings = LogSettings { folder: folder.path().to_owned(), most_bytes: 100, backups: 2, days: 7 };
        for text in ["one\n", "two\n"] {
            LogFile::open(settings.clone()).unwrap().write_all(text.as_bytes()).unwrap();
        }
        assert_eq!(fs::read_to_string(folder.path().join("task-executor.log")).unwrap(), "one\ntwo\n");
    }
}
