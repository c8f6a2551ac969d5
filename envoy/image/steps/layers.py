"""Layers: what the list names, put together in memory and written as tar archives that are the same each time."""

import io
import os
import posixpath
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .listing import Wrong
from .sources import run


@dataclass
class Entry:
    """One path of a layer. A folder has neither data nor a link."""

    mode: int
    data: bytes = None
    link: str = None


def assemble(layer, debs, wheel, built, tree):
    """The entries of a layer by their paths, without the leading slash."""
    entries = {}
    for package in layer.packages:
        _package(entries, package, debs[package.name])
    for file in layer.files:
        data = None
        if file.kind == "built":
            data = _stripped(Path(built) / file.source.split("/", 1)[1])
        elif file.kind == "wheel":
            data = wheel.read(file.source)
        elif file.kind == "tree":
            data = (Path(tree) / file.source).read_bytes()
        entries[file.target.lstrip("/")] = Entry(file.mode, data)
    for path in list(entries):
        while path := posixpath.dirname(path):
            entries.setdefault(path, Entry(0o755))
    return dict(sorted(entries.items()))


def _package(entries, package, deb):
    wanted = [path.lstrip("/") for path in package.paths]
    copyright_file = f"usr/share/doc/{package.name}/copyright"
    certificates = {}
    with tarfile.open(fileobj=io.BytesIO(deb.contents())) as contents:
        for member in contents:
            path = posixpath.normpath(member.name)
            if package.bundle and path.startswith("usr/share/ca-certificates/") and path.endswith(".crt"):
                certificates[path] = contents.extractfile(member).read()
            if path != copyright_file and not any(path == one or path.startswith(f"{one}/") for one in wanted):
                continue
            if member.isdir():
                entries[path] = Entry(member.mode)
            elif member.issym():
                entries[path] = Entry(0o777, link=member.linkname)
            elif member.isfile():
                entries[path] = Entry(member.mode, contents.extractfile(member).read())
            else:
                raise Wrong(f"{package.name} has something at {path} that is no file, folder or symbolic link")
    for path in wanted:
        if path not in entries:
            raise Wrong(f"{package.name} {deb.version} has no /{path}")
    if package.bundle:
        if not certificates:
            raise Wrong(f"{package.name} {deb.version} has no certificates")
        entries[package.bundle.lstrip("/")] = Entry(0o644, b"".join(data for _, data in sorted(certificates.items())))
    # Where scanners look for the packages of an image that has no package manager.
    entries[f"var/lib/dpkg/status.d/{package.name}"] = Entry(0o644, deb.control())


def _stripped(path):
    """A program or library without its line tables; names of functions stay, for backtraces."""
    if not path.is_file():
        raise Wrong(f"{path} is not there; `make image` builds it")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        run("strip", "--strip-debug", "-o", copy, path)
        return copy.read_bytes()


def write_tar(entries, path, epoch):
    """Writes the entries with one owner, one time and in the order of their names."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, entry in entries.items():
            member = tarfile.TarInfo(name)
            member.mode, member.mtime = entry.mode, epoch
            if entry.link is not None:
                member.type, member.linkname = tarfile.SYMTYPE, entry.link
            elif entry.data is None:
                member.type = tarfile.DIRTYPE
            else:
                member.size = len(entry.data)
            archive.addfile(member, io.BytesIO(entry.data) if entry.data is not None else None)


def unpack_tar(path, folder):
    """Writes the files of a layer as files, for the Dockerfile."""
    os.makedirs(folder)
    subprocess.run(["tar", "--extract", "--same-permissions", "--file", path, "--directory", folder], check=True)
