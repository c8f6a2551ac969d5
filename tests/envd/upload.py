"""Files over plain HTTP: `GET /files` and `POST /files`, from and to the disk, never whole in memory."""

import os
import posixpath
import re
import stat
import zlib

from tree import refused
from wire import Refusal, too_large

FILE_LIMIT = 1 << 30  # bytes of one upload
HEAD_LIMIT = 16 << 10  # bytes of the headers of one part
PARTS = 1000
BLOCK = 256 << 10


def opened(tree, path):
    """A regular file to read, and its size."""
    real = tree.real(path)
    try:
        # A named pipe must not hold the thread.
        file = open(os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
    except FileNotFoundError:
        raise Refusal("not_found", f"path '{path}' does not exist") from None
    except OSError as error:
        raise refused(error, path) from None
    info = os.fstat(file.fileno())
    if not stat.S_ISREG(info.st_mode):
        file.close()
        what = "is a directory" if stat.S_ISDIR(info.st_mode) else "is not a file"
        raise Refusal("invalid_argument", f"path '{path}' {what}")
    return file, info.st_size


def receive(tree, headers, body, path):
    """Writes what is uploaded; the entries that the client is told."""
    coding = headers.get("content-encoding", "identity").strip().lower()
    if coding == "gzip":
        body = Inflated(body)
    elif coding != "identity":
        raise Refusal("invalid_argument", f"the content encoding {coding} is not known here")
    content = headers.get_content_type()
    if content == "application/octet-stream":
        if not path:
            raise Refusal("invalid_argument", "an upload of one file needs its path")
        return [written(tree, tree.absolute(path), body)]
    boundary = headers.get_boundary() if content == "multipart/form-data" else None
    if not boundary or len(boundary) > 200:
        raise Refusal("invalid_argument", "an upload is multipart/form-data or application/octet-stream")
    entries = []
    for name, filename, part in Multipart(body, boundary.encode("latin-1")).parts():
        if name != "file":
            continue
        whole = tree.absolute(path or filename)
        if any(entry["path"] == whole for entry in entries):
            raise Refusal("invalid_argument", f"'{whole}' is there twice; its first content was written")
        entries.append(written(tree, whole, part))
    return entries


def written(tree, path, source):
    tree.parent(path)
    real = tree.real(path)
    if os.path.lexists(real) and not os.path.isfile(real):
        raise Refusal("invalid_argument", f"path '{path}' is not a file")
    try:
        with open(real, "wb", buffering=0) as file:
            while data := source.read(BLOCK):
                view = memoryview(data)
                while view:
                    view = view[file.write(view) :]
    except ConnectionError:
        raise
    except OSError as error:
        raise refused(error, path) from None
    return {"name": posixpath.basename(path), "type": "file", "path": path}


class Inflated:
    """A body that was sent with gzip. What comes out has the same limit as what goes in."""

    def __init__(self, body):
        self.body, self.seen = body, 0
        self.inflater = zlib.decompressobj(31)

    def read(self, size):
        while not self.inflater.eof:
            packed = self.inflater.unconsumed_tail or self.body.read(size)
            if not packed:
                raise Refusal("invalid_argument", "the body ends within its gzip stream")
            try:
                data = self.inflater.decompress(packed, size)
            except zlib.error:
                raise Refusal("invalid_argument", "the body is not gzip") from None
            self.seen += len(data)
            if self.seen > FILE_LIMIT:
                raise too_large("the body", FILE_LIMIT)
            if data:
                return data
        return b""


class Multipart:
    """The parts of a form, one after the other. It is read as the part that it is at."""

    def __init__(self, source, boundary):
        self.source, self.delimiter = source, b"\r\n--" + boundary
        self.buffer, self.ended = b"\r\n", False

    def parts(self):
        """The name, the file name and the content of each part. What is not read of a part is skipped."""
        for _ in range(PARTS):
            while self.read(BLOCK):
                pass
            self.buffer, self.ended = self.buffer[len(self.delimiter) :], False
            self._until(2)
            if self.buffer.startswith(b"--"):
                while self.source.read(BLOCK):
                    pass
                return
            while (end := self.buffer.find(b"\r\n\r\n")) < 0:
                if len(self.buffer) > HEAD_LIMIT:
                    raise Refusal("invalid_argument", "the headers of a part are too long")
                self._until(len(self.buffer) + 1)
            head, self.buffer = self.buffer[:end].decode("utf-8", "replace"), self.buffer[end + 4 :]
            yield parameter(head, "name"), parameter(head, "filename"), self
        raise Refusal("invalid_argument", f"a form has more than {PARTS} parts")

    def read(self, size):
        """Up to the delimiter, which stays in the buffer."""
        if self.ended:
            return b""
        keep = len(self.delimiter) - 1
        while (at := self.buffer.find(self.delimiter)) < 0:
            if len(self.buffer) > keep:
                data, self.buffer = self.buffer[:-keep], self.buffer[-keep:]
                return data
            self._until(len(self.buffer) + 1)
        data, self.buffer = self.buffer[:at], self.buffer[at:]
        self.ended = not data
        return data

    def _until(self, size):
        while len(self.buffer) < size:
            data = self.source.read(BLOCK)
            if not data:
                raise Refusal("invalid_argument", "the form ends within a part")
            self.buffer += data


def parameter(head, name):
    found = re.search(rf'^content-disposition:[^\r\n]*;\s*{name}="((?:[^"\\\r\n]|\\.)*)"', head, re.I | re.M)
    return re.sub(r"\\(.)", r"\1", found[1]) if found else ""
