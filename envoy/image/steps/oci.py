"""OCI images: layers and config put together by umoci, packed into one archive that is the same each time."""

import json
import os
import tarfile
from datetime import datetime, timezone
from pathlib import Path

from .sources import run

USER = "65532:65532"
TAG = "latest"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def architecture():
    machine = os.uname().machine
    return ARCHITECTURES.get(machine, machine)


def labels(image, version):
    texts = {"title": image.name, "description": image.about, "version": version, "licenses": "Apache-2.0"}
    return {f"org.opencontainers.image.{key}": text for key, text in texts.items() if text}


def make(image, tars, version, epoch, work, archive):
    """Writes the archive of an image, and returns its digest. `tars` are (layer, path)."""
    layout = Path(work) / image.name
    created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    reference = f"{layout}:{TAG}"
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", reference)
    for layer, path in tars:
        history = ("--history.created", created, "--history.created_by", f"layer {layer.name}")
        run("umoci", "raw", "add-layer", "--image", reference, *history, path)
    options = ["--no-history", "--created", created, "--os", "linux", "--architecture", architecture()]
    for label, text in sorted(labels(image, version).items()):
        options += ["--config.label", f"{label}={text}"]
    if image.entrypoint:
        options += ["--config.user", USER, "--config.workingdir", "/"]
    for option, values in [("entrypoint", image.entrypoint), ("cmd", image.cmd), ("env", image.env)]:
        for value in values:
            options += [f"--config.{option}", value]
    for port in image.ports:
        options += ["--config.exposedports", f"{port}/tcp"]
    run("umoci", "config", "--image", reference, *options)
    # Each step has left the manifest and config of before.
    run("umoci", "gc", "--layout", layout)
    _pack(layout, archive)
    # Asked of the archive, by the program that will copy it to where it runs.
    return json.loads(run("skopeo", "inspect", f"oci-archive:{archive}"))["Digest"]


def _pack(layout, archive):
    def plain(member):
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    scratch = Path(f"{archive}.new")
    with tarfile.open(scratch, "w", format=tarfile.GNU_FORMAT) as packed:
        for path in sorted(layout.rglob("*")):
            packed.add(path, path.relative_to(layout), recursive=False, filter=plain)
    scratch.replace(archive)
