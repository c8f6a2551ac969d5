"""The list of images and of their files (images.list), read and checked."""

from dataclasses import dataclass, field
from pathlib import Path


class Wrong(Exception):
    """Something that the person who called the build can put right."""


@dataclass
class Image:
    name: str
    layers: list
    entrypoint: list
    cmd: list
    about: str = ""
    env: list = field(default_factory=list)
    ports: list = field(default_factory=list)


@dataclass
class Package:
    """Paths of a Debian package. Its certificates go into one file, if `bundle` names it."""

    name: str
    licence: str
    paths: list
    bundle: str = ""


@dataclass
class File:
    mode: int
    target: str
    # "built", "wheel", "tree", or "" for a folder.
    kind: str
    source: str


@dataclass
class Layer:
    name: str
    packages: list = field(default_factory=list)
    files: list = field(default_factory=list)

    def crates(self):
        """The crates whose programs are in this layer."""
        return [file.source.split("/")[0] for file in self.files if file.kind == "built"]


@dataclass
class Listing:
    images: dict
    layers: dict

    def layers_of(self, image):
        return [self.layers[name] for name in image.layers]

    def crates(self):
        """What cargo has to build for all images, in the order of the list."""
        crates = [crate for image in self.images.values() for layer in self.layers_of(image) for crate in layer.crates()]
        return list(dict.fromkeys(crates))


def read(path, envoy):
    """Reads the list. `{envoy}` in it stands for Envoy's version."""
    listing = Listing({}, {})
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        words = line.replace("{envoy}", envoy).split()
        if not words or words[0].startswith("#"):
            continue
        try:
            _line(listing, words[0], words[1:])
        except (ValueError, KeyError, IndexError) as error:
            raise Wrong(f"{path}:{number}: {error.__class__.__name__}: {error} in: {line}") from error
    for image in listing.images.values():
        for name in image.layers:
            if name.startswith("built:"):
                program = name.removeprefix("built:")
                file = File(0o755, f"/usr/local/bin/{program}", "built", f"{program}/{program}")
                licence = File(0o644, "/usr/share/doc/sandgate/copyright", "tree", "LICENSE")
                listing.layers.setdefault(name, Layer(name, files=[file, licence]))
            elif name not in listing.layers:
                raise Wrong(f"{path}: the image {image.name} has a layer {name} that no line describes")
    return listing


def _line(listing, word, rest):
    def layer(name):
        return listing.layers.setdefault(name, Layer(name))

    if word == "image":
        name, layers, *command = rest
        listing.images[name] = Image(name, layers.split(","), command[:1], command[1:])
    elif word == "about":
        listing.images[rest[0]].about = " ".join(rest[1:])
    elif word == "env":
        name, value = rest
        listing.images[name].env.append(value)
    elif word == "port":
        name, port = rest
        listing.images[name].ports.append(int(port))
    elif word == "deb":
        name, package, licence, *paths = rest
        layer(name).packages.append(Package(package, licence.replace("_", " "), paths))
    elif word == "certs":
        name, package, target = rest
        next(known for known in layer(name).packages if known.name == package).bundle = target
    elif word == "dir":
        name, mode, target = rest
        layer(name).files.append(File(int(mode, 8), target, "", ""))
    elif word == "file":
        name, mode, target, source = rest
        kind, source = source.split(":", 1)
        if kind not in ("built", "wheel", "tree"):
            raise ValueError(f"no such source: {kind}")
        layer(name).files.append(File(int(mode, 8), target, kind, source))
    else:
        raise ValueError(f"no such word: {word}")
