# SPDX-License-Identifier: MIT
"""QEMU 10 in the cache, with the shared libraries that this machine lacks. The 7.2 of Debian 12
crashes the 6.12 kernel on x86_64 and stops itself on riscv64 with 4 nodes."""

import os
import subprocess

from cache import Making, unpack
from problem import Problem

PACKAGES = ("qemu-system-x86", "qemu-system-arm", "qemu-system-riscv")
PROGRAMS = tuple(f"usr/bin/qemu-system-{arch}" for arch in ("x86_64", "aarch64", "riscv64"))
FIRMWARE = ("usr/share/qemu", "usr/share/seabios")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu",
             "lib/aarch64-linux-gnu", "usr/lib", "lib")


def _is_needed(path):
    """Whether a file of a package is of use here."""
    if path.startswith("usr/bin/"):
        return path in PROGRAMS
    return path.startswith(("usr/lib/", "lib/", *(place + "/" for place in FIRMWARE)))


class Emulator:
    """QEMU under `root`."""

    def __init__(self, root, archive, refresh):
        self.root = root
        self.version = None
        if refresh or not self._works():
            self._fetch(archive())
            if not self._works():
                raise Problem(f"QEMU in {root} does not run on this machine: {self.complaint}")

    def _fetch(self, archive):
        debs = archive.download_for_here(PACKAGES)
        with Making(self.root) as directory:
            for deb in debs:
                unpack(deb, directory, _is_needed)
        for deb in debs:
            deb.unlink()

    def program(self, arch):
        """The emulator of one architecture."""
        return self.root / "usr/bin" / f"qemu-system-{arch}"

    def environment(self):
        """What it runs with."""
        libraries = [str(self.root / path) for path in LIBRARIES if (self.root / path).is_dir()]
        return dict(os.environ, LD_LIBRARY_PATH=":".join(libraries), QEMU_MODULE_DIR="/nowhere")

    def firmware(self):
        """The arguments that name its firmware."""
        found = []
        for path in FIRMWARE:
            found += ["-L", str(self.root / path)]
        return found

    def _works(self):
        self.complaint = "it is not there"
        for arch in ("x86_64", "aarch64", "riscv64"):
            if not self.program(arch).exists():
                return False
            result = subprocess.run([self.program(arch), "--version"], capture_output=True,
                                    text=True, env=self.environment(), check=False)
            if result.returncode != 0:
                self.complaint = result.stderr.strip()
                return False
            self.version = result.stdout.split("version ", 1)[-1].split(" ", 1)[0].strip()
        return True
