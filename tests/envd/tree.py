"""The sandbox's files: a folder of the machine that a client sees as `/`, with the home `/home/user` in it.

No path leads out of that folder: `..` ends at its top, and a link whose target is outside is refused. This keeps
clients to the folder, not commands: those are processes of the machine.
"""

import datetime
import errno
import grp
import os
import posixpath
import pwd
import shutil
import stat

from wire import Refusal, field

HOME = "/home/user"
LIST_LIMIT = 10_000  # entries of one listing

CODES = {
    errno.ENOENT: "not_found",
    errno.ENOTDIR: "invalid_argument",
    errno.EISDIR: "invalid_argument",
    errno.EINVAL: "invalid_argument",
    errno.ENAMETOOLONG: "invalid_argument",
    errno.EEXIST: "already_exists",
    errno.ENOTEMPTY: "already_exists",
    errno.ELOOP: "failed_precondition",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
}


def refused(error, path):
    """What a client is told of an error of the machine: with its own name of the file."""
    status = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
    return Refusal(CODES.get(error.errno, "internal"), f"'{path}': {error.strerror}", status)


def text(name):
    """A name as JSON can carry it."""
    return os.fsencode(name).decode("utf-8", "replace")


class Tree:
    def __init__(self, root):
        self.root = os.path.realpath(root)
        for folder in (HOME, "/tmp"):
            os.makedirs(self.root + folder, exist_ok=True)
        self.home = self.root + HOME

    def absolute(self, path):
        """The path as the client sees it: `~` and what is relative begin at the home."""
        try:
            path.encode()
        except UnicodeEncodeError:
            raise Refusal("invalid_argument", "the path is not text") from None
        if "\0" in path:
            raise Refusal("invalid_argument", "the path has a null byte")
        if path == "~" or path.startswith("~/"):
            path = HOME + path[1:]
        elif path.startswith("~"):
            raise Refusal("invalid_argument", "there is no home of another user")
        return "/" + posixpath.normpath(posixpath.join(HOME, path)).lstrip("/")

    def real(self, path, follow=True):
        """Where a path (see `absolute`) is on the machine. Without `follow` a link at its end is meant itself."""
        whole = self.root + path.rstrip("/")
        try:
            if follow or path == "/":
                real = os.path.realpath(whole)
            else:
                real = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
        except OSError as error:
            raise refused(error, path) from None
        if real != self.root and not real.startswith(self.root + "/"):
            raise Refusal("permission_denied", f"'{path}' leads out of the sandbox")
        return real

    def folder(self, path):
        """A folder that is there: where it is on the machine."""
        real = self.real(path)
        if not os.path.exists(real):
            raise Refusal("not_found", f"'{path}' does not exist")
        if not os.path.isdir(real):
            raise Refusal("invalid_argument", f"'{path}' is not a directory")
        return real

    def parent(self, path):
        """Makes the folders above a path."""
        above = posixpath.dirname(path)
        try:
            os.makedirs(self.real(above), exist_ok=True)
        except OSError as error:
            raise Refusal("invalid_argument", f"'{above}': {error.strerror}") from None

    def entry(self, path):
        """What is known of a file; of a link with the type of its target."""
        real = self.real(path, follow=False)
        try:
            info = os.lstat(real)
        except OSError as error:
            raise refused(error, path) from None
        mode, target = info.st_mode, None
        if stat.S_ISLNK(mode):
            whole = os.path.realpath(real)
            target = whole.removeprefix(self.root) if whole.startswith(self.root + "/") else os.readlink(real)
            try:
                mode = os.stat(self.real(path)).st_mode
            except (OSError, Refusal):
                pass  # Broken, or out of the sandbox: then it is a link and nothing else.
        seconds, nanos = divmod(info.st_mtime_ns, 1_000_000_000)
        moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
        entry = {
            "name": text(posixpath.basename(path) or "/"),
            "type": kind(mode),
            "path": text(path),
            "size": str(info.st_size),
            "mode": stat.S_IMODE(info.st_mode),
            "permissions": stat.filemode(info.st_mode),
            "owner": named(pwd.getpwuid, info.st_uid),
            "group": named(grp.getgrgid, info.st_gid),
            "modifiedTime": f"{moment:%Y-%m-%dT%H:%M:%S}.{nanos:09}Z",
        }
        return entry | {"symlinkTarget": text(target)} if target is not None else entry

    def stat(self, message):
        return {"entry": self.entry(self.absolute(field(message, "path", str, "")))}

    def list_dir(self, message):
        path = self.absolute(field(message, "path", str, ""))
        depth = field(message, "depth", int, 0) or 1
        real, entries = self.folder(path), []
        for below, folders, files in os.walk(real):
            folders.sort()
            steps = os.path.relpath(below, real).split("/") if below != real else []
            for name in folders + files:
                try:
                    entries.append(self.entry(posixpath.join(path, *steps, name)))
                except Refusal as refusal:
                    if refusal.code != "not_found":  # Gone since it was seen.
                        raise
            if len(entries) > LIST_LIMIT:
                raise Refusal("out_of_range", f"there are more than {LIST_LIMIT} entries")
            if len(steps) + 1 >= depth:
                folders.clear()
        return {"entries": sorted(entries, key=lambda entry: entry["path"].split("/"))}

    def make_dir(self, message):
        path = self.absolute(field(message, "path", str, ""))
        real = self.real(path)
        if os.path.isdir(real):
            raise Refusal("already_exists", f"'{path}' is there already")
        if os.path.lexists(real):
            raise Refusal("invalid_argument", f"'{path}' is there already, but is not a directory")
        try:
            os.makedirs(real, exist_ok=True)
        except OSError as error:
            raise refused(error, path) from None
        return {"entry": self.entry(path)}

    def move(self, message):
        source = self.absolute(field(message, "source", str, ""))
        destination = self.absolute(field(message, "destination", str, ""))
        if "/" in (source, destination):
            raise Refusal("invalid_argument", "the root stays where it is")
        real = self.real(source, follow=False)
        if not os.path.lexists(real):
            raise Refusal("not_found", f"'{source}' does not exist")
        self.parent(destination)
        try:
            os.rename(real, self.real(destination, follow=False))
        except OSError as error:
            raise refused(error, destination) from None
        return {"entry": self.entry(destination)}

    def remove(self, message):
        """What is not there counts as removed."""
        path = self.absolute(field(message, "path", str, ""))
        if path == "/":
            raise Refusal("invalid_argument", "the root is not removed")
        real = self.real(path, follow=False)
        try:
            if os.path.isdir(real) and not os.path.islink(real):
                shutil.rmtree(real)
            elif os.path.lexists(real):
                os.unlink(real)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise refused(error, path) from None
        return {}


def kind(mode):
    if stat.S_ISDIR(mode):
        return "FILE_TYPE_DIRECTORY"
    return "FILE_TYPE_SYMLINK" if stat.S_ISLNK(mode) else "FILE_TYPE_FILE"


def named(lookup, number):
    try:
        return lookup(number)[0]
    except KeyError:
        return str(number)
