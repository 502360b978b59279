# SPDX-License-Identifier: MIT
"""Kernels that are in no package: built from Debian's source package, as small as the tests allow,
with tools that the machine need not have."""

from dataclasses import dataclass
import os
from pathlib import Path
import re
import shutil
import subprocess
import tarfile

from boot import end_group
from cache import Making, unpack
from problem import Problem

HERE = Path(__file__).resolve().parent
CONFIGS = {"6.12-64k": HERE / "kernel-64k.config"}
MINUTES = 3  # on two CPUs
FILES = 630  # that are compiled, about; for the display of progress

TOOLS = ("make", "bc", "bison", "flex", "m4")
ARCH = {"aarch64": ("arm64", "aarch64-linux-gnu-")}
# Two thirds of the source, which no such configuration compiles.
UNUSED = re.compile(
    r"[^/]+/(?:Documentation/.*\.(?:rst|txt|yaml|svg)|arch/(?!arm|x86/).*\.(?:[chS]|dtsi?)|"
    r"arch/arm(?:64)?/boot/dts/.*\.dtsi?|"
    r"(?:sound|drivers/(?:gpu|net/[^/]+|media|infiniband|scsi|staging|usb))/.*\.[ch])$")


@dataclass(frozen=True)
class Source:
    """The packages of a kernel that is to be built, its source and the tools, in `directory`."""
    version: str
    directory: Path


def configuration(name):
    """What the kernel is configured with; None: it is not built, but in a package."""
    return CONFIGS[name].read_text(encoding="utf-8") if name in CONFIGS else None


def fetched(directory):
    """The source that an interrupted build left, or None."""
    for deb in directory.glob("linux-source-*.deb"):
        return Source(deb.name.split("_")[1], directory)
    return None


def unpack_tools(debs, root):
    """Unpacks them. Returns the environment in which they work."""
    for deb in debs:
        unpack(deb, root, lambda path: path.startswith(("usr/", "bin/", "lib/")))
    paths = [str(root / "usr/bin"), os.environ["PATH"]]
    libraries = [str(path) for place in ("usr/lib", "lib") for path in (root / place).glob("*-gnu")]
    return dict(os.environ, PATH=":".join(paths), LD_LIBRARY_PATH=":".join(libraries),
                BISON_PKGDATADIR=str(root / "usr/share/bison"), M4=str(root / "usr/bin/m4"),
                LC_ALL="C.UTF-8")


def unpack_source(deb, root):
    """Returns the directory of the source."""
    unpack(deb, root, lambda path: path.endswith(".tar.xz"))
    archive, = root.rglob("*.tar.xz")
    with tarfile.open(archive, mode="r|xz") as members:
        for member in members:
            if not UNUSED.match(member.name):
                members.extract(member, root)
    archive.unlink()
    return next(path for path in root.iterdir() if (path / "Kconfig").is_file())


class Build:
    """A build in `root`; `progress` is called with what it does."""

    def __init__(self, root, log, progress):
        self.root = root
        self.root.mkdir()
        self.log = log
        self.progress = progress
        self.files = 0

    def make(self, environment, source, *arguments):
        """Runs make in the source."""
        command = ["make", "-C", str(source), f"O={self.root / 'made'}",
                   "-j", str(os.cpu_count() or 2), *arguments]
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              start_new_session=True) as process:
            try:
                for line in process.stdout:
                    self.log.write(line)
                    self._note(line)
                process.wait()
            finally:
                end_group(process)
        if process.returncode != 0:
            self.log.flush()
            tail = Path(self.log.name).read_text(encoding="utf-8").splitlines()[-20:]
            raise Problem("\n".join(["the kernel does not build:", *tail,
                                     f"all of it is in {self.log.name}"]))

    def _note(self, line):
        what, _, path = line.strip().partition(" ")
        if what in ("CC", "AS"):
            self.files += 1
            self.progress(f"{self.files} of some {FILES} files, {path.strip()}")

    def run(self, arch, debs, config):
        """Returns the image."""
        kernel_arch, prefix = ARCH[arch]
        sources = [deb for deb in debs if deb.name.startswith("linux-source-")]
        self.progress("unpacking the source")
        environment = unpack_tools(set(debs) - set(sources), self.root / "tools")
        source = unpack_source(sources[0], self.root / "source")
        (self.root / "config").write_text(config, encoding="utf-8")
        words = f"ARCH={kernel_arch}", f"CROSS_COMPILE={prefix}"
        self.make(environment, source, *words, f"KCONFIG_ALLCONFIG={self.root / 'config'}",
                   "allnoconfig")
        self.check(config)
        self.make(environment, source, *words, "Image")
        return self.root / "made/arch" / kernel_arch / "boot/Image"

    def check(self, config):
        """Whether all of it was accepted: kconfig drops what depends on what is missing."""
        made = set((self.root / "made/.config").read_text(encoding="utf-8").splitlines())
        lost = [line for line in config.splitlines()
                if line and not line.startswith("#") and line not in made]
        if lost:
            raise Problem("the kernel cannot be configured with: " + " ".join(lost))


def build(arch, source, config, target, log_path, progress):
    """Builds it into the directory `target`, beside the configuration that it was built with."""
    with Making(target) as directory, open(log_path, "w", 1, encoding="utf-8") as log:
        work, kept = directory / "work", directory / source.version
        image = Build(work, log, progress).run(arch, sorted(source.directory.glob("*.deb")), config)
        kept.mkdir()
        image.rename(kept / "vmlinuz")
        (kept / "config").write_text(config, encoding="utf-8")
        shutil.rmtree(work)
