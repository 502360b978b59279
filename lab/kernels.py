# SPDX-License-Identifier: MIT
"""The kernels: which there are, and how one comes into the cache."""

from dataclasses import dataclass
from pathlib import Path
import re
import shutil

from cache import Making, unpack
import kernel_build
from problem import Missing, Problem

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "riscv64": "riscv64"}
# The small kernels for virtual machines, where there are such.
META = {"x86_64": "linux-image-cloud-amd64", "aarch64": "linux-image-cloud-arm64",
        "riscv64": "linux-image-riscv64"}
META_16K = {"aarch64": "linux-image-arm64-16k"}
# No suite has a kernel with pages of 64 KiB: this one is built.
SOURCE_64K = {"aarch64": "linux-source-6.12"}
# Name, packages, suite, what its version begins with, and what is known to be missing, with the
# reason.
KERNELS = {
    "6.1": (META, "bookworm", "6.1.", {"riscv64": "Debian 12 has no riscv64"}),
    "6.12": (META, "trixie", "6.12.", {}),
    "6.12-16k": (META_16K, "trixie", "6.12.", {}),
    "6.12-64k": (SOURCE_64K, "trixie", "6.12.", {}),
    "newest": (META, "sid", "", {}),
}


@dataclass(frozen=True)
class Kernel:
    """A kernel in the cache."""
    arch: str
    name: str
    version: str
    image: Path


def known_gap(arch, name):
    """Why there is no such kernel, or None."""
    return KERNELS[name][3].get(arch)


def _needs(fields, prefixes):
    names = re.split(r"\s*[,|]\s*", fields.get("Depends", ""))
    names = [name.split(" ", 1)[0] for name in names]
    return [name for name in names if name.startswith(prefixes)]


def find_package(packages, meta):
    """The package that holds the image: at the end of the chain that begins at the meta package.
    Since 7.0 the image is in linux-binary-*, on which linux-image-* depends."""
    name = meta
    for _ in range(4):
        if name not in packages:
            raise Missing(f"the archive has no {name}")
        needed = _needs(packages[name], ("linux-image-", "linux-binary-"))
        if not needed:
            return packages[name]
        name = needed[0]
    raise Problem(f"the dependencies of {meta} have no end")


class Kernels:
    """The kernels under `root`; `archive` is used only for what is missing there."""

    def __init__(self, root, archive, refresh):
        self.root = root
        self.archive = archive
        self.refresh = refresh

    def _cached(self, arch, name):
        """One that was built counts only if its configuration is what it would be now."""
        config = kernel_build.configuration(name)
        for image in sorted((self.root / f"{name}-{arch}").glob("*/vmlinu*")):
            made = image.parent / "config"
            if config is None or made.is_file() and made.read_text(encoding="utf-8") == config:
                return Kernel(arch, name, image.parent.name, image)
        return None

    def get(self, arch, name):
        """The kernel, fetched if it is not there or, with `refresh`, if there is a newer one. If it
        must be built: its source, for build()."""
        source = self.root / f"packages-{name}-{arch}"
        cached = self._cached(arch, name) or kernel_build.fetched(source)
        if cached and not self.refresh:
            return cached
        meta, suite, begins, _ = KERNELS[name]
        archive = self.archive()
        debian = ARCHITECTURES[arch]
        package = find_package(archive.packages(suite, debian, "linux-"), meta[arch])
        version = package["Version"]
        if not version.startswith(begins):
            raise Missing(f"Debian's {suite} has {version} instead of {begins}x")
        if cached and cached.version == version:
            return cached
        if kernel_build.configuration(name) is not None:
            return self._fetch_source(package, source)
        deb = archive.download(package)
        with Making(self.root / f"{name}-{arch}") as directory:
            self._extract(deb, directory, version)
        deb.unlink()
        return self._cached(arch, name)

    def _fetch_source(self, package, target):
        archive = self.archive()
        debs = [archive.download(package), *archive.download_for_here(kernel_build.TOOLS)]
        with Making(target) as directory:
            for deb in debs:
                shutil.move(deb, directory / deb.name)
        return kernel_build.Source(package["Version"], target)

    def build(self, arch, name, source, log, progress):
        """The kernel of a source that get() fetched; another run may have built it since."""
        cached = self._cached(arch, name)
        if not cached or cached.version != source.version:
            kernel_build.build(arch, source, kernel_build.configuration(name),
                               self.root / f"{name}-{arch}", log, progress)
        shutil.rmtree(source.directory, ignore_errors=True)
        return self._cached(arch, name)

    @staticmethod
    def _extract(deb, directory, version):
        unpack(deb, directory, lambda path: path.rsplit("/", 1)[-1].startswith("vmlinu"))
        images = [path for path in directory.rglob("vmlinu*") if path.is_file()]
        if not images:
            raise Problem(f"{deb.name} has no image of a kernel in it")
        (directory / version).mkdir()
        images[0].rename(directory / version / images[0].name)
