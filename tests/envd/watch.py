"""Watches of folders, by looking at them ten times a second and when the client asks.

What comes and goes between two looks is not seen, and several writes may be one event. A renamed file is known by its
inode.
"""

import os
import secrets
import stat
import threading
import time

from tree import text
from wire import Refusal, field

LOOK_SECONDS = 0.1
WATCHERS = 64
ENTRIES = 10_000  # of one watched folder
EVENTS = 10_000  # kept for a client that does not fetch them


class Watcher:
    def __init__(self, folder, recursive):
        self.folder, self.recursive = folder, recursive
        self.lock, self.closed = threading.Lock(), threading.Event()
        self.events, self.seen = [], self._scan()

    def look(self):
        """Notes what has changed."""
        with self.lock:
            now = self._scan()
            self.events += changes(self.seen, now)
            self.seen = now
            if len(self.events) > EVENTS:
                raise Refusal("out_of_range", f"more than {EVENTS} events were not fetched")

    def look_on(self):
        while not self.closed.wait(LOOK_SECONDS):
            try:
                self.look()
            except Refusal:
                return  # Whoever asks next looks too, and is told.

    def take(self):
        """Looks, and hands out what was noted since the last call."""
        self.look()
        with self.lock:
            events, self.events = self.events, []
        return events

    def _scan(self):
        found, folders = {}, [""]
        while folders:
            above = folders.pop()
            try:
                with os.scandir(os.path.join(self.folder, above)) as entries:
                    for entry in entries:
                        self._note(found, folders, os.path.join(above, entry.name), entry)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError:
                continue
            if len(found) > ENTRIES:
                raise Refusal("out_of_range", f"more than {ENTRIES} files are not watched")
        return found

    def _note(self, found, folders, name, entry):
        try:
            info = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(info.st_mode):
            # Its time changes with its content, which is no event of its own.
            found[name] = (info.st_ino, info.st_mode, None, None)
            if self.recursive:
                folders.append(name)
        else:
            found[name] = (info.st_ino, info.st_mode, info.st_mtime_ns, info.st_size)


def changes(before, now):
    """The events that lead from one look to the next."""
    gone = {before[name]: name for name in before if name not in now}
    born = [name for name in sorted(now) if name not in before]
    renamed = {gone[now[name]] for name in born if now[name] in gone}
    events = [(name, "RENAME" if name in renamed else "REMOVE") for name in sorted(gone.values())]
    for name in sorted(now):
        inode, mode, written, size = now[name]
        if name not in before:
            events.append((name, "CREATE"))
            if size and now[name] not in gone:
                events.append((name, "WRITE"))
            continue
        was_inode, was_mode, was_written, was_size = before[name]
        if inode != was_inode:
            events.append((name, "CREATE"))
        if mode != was_mode:
            events.append((name, "CHMOD"))
        if (written, size) != (was_written, was_size):
            events.append((name, "WRITE"))
    return [{"name": text(name), "type": f"EVENT_TYPE_{change}"} for name, change in events]


class Watchers:
    def __init__(self, tree):
        self.tree, self.lock, self.watchers = tree, threading.Lock(), {}

    def _watcher(self, message):
        path = self.tree.absolute(field(message, "path", str, ""))
        return Watcher(self.tree.folder(path), field(message, "recursive", bool, False))

    def create(self, message):
        watcher, name = self._watcher(message), "w" + secrets.token_hex(8)
        with self.lock:
            if len(self.watchers) >= WATCHERS:
                raise Refusal("resource_exhausted", f"there are {WATCHERS} watchers already")
            self.watchers[name] = watcher
        threading.Thread(target=watcher.look_on, daemon=True).start()
        return {"watcherId": name}

    def events(self, message):
        name = field(message, "watcherId", str, "")
        watcher = self.watchers.get(name)
        if watcher is None:
            raise Refusal("not_found", f"watcher with id {name} not found")
        return {"events": watcher.take()}

    def remove(self, message):
        name = field(message, "watcherId", str, "")
        with self.lock:
            watcher = self.watchers.pop(name, None)
        if watcher is None:
            raise Refusal("not_found", f"watcher with id {name} not found")
        watcher.closed.set()
        return {}

    def stream(self, message, stream):
        watcher, waiting = self._watcher(message), []
        stream.send({"start": {}})

        def take(seconds):
            until = time.monotonic() + seconds
            while not waiting:
                waiting.extend(watcher.take())
                left = until - time.monotonic()
                if waiting or left <= 0:
                    break
                time.sleep(min(left, LOOK_SECONDS))
            return {"filesystem": waiting.pop(0)} if waiting else None

        stream.pump(take)
