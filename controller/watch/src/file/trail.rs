//! Which folders decide what a path means, and the watch on them.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// The most links that Linux follows in one path.
const MAX_LINKS: usize = 40;

/// The folders to watch, and the entries in them that decide what the path means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Trail {
    pub(super) folders: BTreeSet<PathBuf>,
    pub(super) entries: BTreeSet<PathBuf>,
}

impl Trail {
    /// Walks the path as the kernel does, up to the first entry that is missing.
    pub(super) fn of(path: &Path) -> Self {
        let mut trail = Trail::default();
        let Ok(path) = std::path::absolute(path) else { return trail };
        let mut here = PathBuf::from("/");
        let mut ahead = names(&path);
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {
                    trail.mark(&here, next.clone());
                    links += 1;
                    let Ok(target) = fs::read_link(&next) else { break };
                    if links > MAX_LINKS {
                        break;
                    }
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    for name in names(&target).into_iter().rev() {
                        ahead.push_front(name);
                    }
                }
                Ok(_) if !ahead.is_empty() => here = next,
                Ok(_) | Err(_) => {
                    trail.mark(&here, next);
                    break;
                }
            }
        }
        trail
    }

    fn mark(&mut self, folder: &Path, entry: PathBuf) {
        // The folder itself too: its watch ends when it is removed.
        self.entries.insert(folder.to_owned());
        self.entries.insert(entry);
        self.folders.insert(folder.to_owned());
    }
}

fn names(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

/// Wakes the source when an entry of the trail changes.
///
/// The watcher's own thread reads `trail` and notifies `wake`. The source replaces `trail`.
pub(super) struct Watch {
    watcher: Option<RecommendedWatcher>,
    trail: Arc<ArcSwap<Trail>>,
    /// A folder could not be watched. It is tried again at the next poll.
    incomplete: bool,
}

impl Watch {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        let trail = Arc::new(ArcSwap::from_pointee(Trail::default()));
        let seen = Arc::clone(&trail);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            let relevant = match event {
                Ok(event) if event.need_rescan() => true,
                Ok(event) => {
                    changes(event.kind) && event.paths.iter().any(|p| seen.load().entries.contains(p))
                }
                Err(_) => true,
            };
            if relevant {
                wake.notify_one();
            }
        });
        let watcher = watcher
            .inspect_err(|error| {
                tracing::warn!("cannot watch for changes, will look every two seconds: {error}");
            })
            .ok();
        Watch { watcher, trail, incomplete: false }
    }

    /// Watches the folders of the path as it is now. `anew` also replaces watches that are in place: the
    /// watch of a folder that was deleted and made again reports nothing.
    pub(super) fn follow(&mut self, path: &Path, anew: bool) {
        let trail = Trail::of(path);
        let old = self.trail.load_full();
        if !anew && !self.incomplete && *old == trail {
            return;
        }
        let Some(watcher) = &mut self.watcher else { return };
        for folder in &old.folders {
            // It fails when the folder is gone, and then its watch is gone too.
            let _ = watcher.unwatch(folder);
        }
        let trail = Arc::new(trail);
        self.trail.store(Arc::clone(&trail));
        self.incomplete = false;
        for folder in &trail.folders {
            if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
                tracing::debug!("cannot watch {}: {error}", folder.display());
                self.incomplete = true;
            }
        }
    }
}

/// Opening and reading are events too. The source must not be woken by its own reads.
fn changes(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
