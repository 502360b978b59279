#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fetches what the table of costs has beside ours: liburcu for three architectures, and librseq's
headers, which are in the kernel's source. Started by ./dev lab cost.

    others.py          prints the folder in the cache, and fills it if it is not there
    others.py --update fetches it again"""

import json
from pathlib import Path
import shutil
import sys
import tarfile

from archive import Archive
from cache import Making, alone, cache_directory, unpack
from kernels import ARCHITECTURES
from problem import Problem
from screen import Screen

SUITE = "trixie"  # the first with all three
KERNEL = "linux-source-6.12"
HEADERS = "/tools/testing/selftests/rseq/"


def fetch_liburcu(archive, folder):
    """Returns the version."""
    for arch, debian in ARCHITECTURES.items():
        package = archive.packages(SUITE, debian, "liburcu-dev")["liburcu-dev"]
        deb = archive.download(package)
        unpack(deb, folder / arch,
               lambda path: path.startswith("usr/include/") or
               path.endswith(("/liburcu-memb.a", "/liburcu-common.a")))
        deb.unlink()
    return package["Version"].partition("-")[0]


def fetch_librseq(archive, folder):
    """Returns the version of the kernel that it is of."""
    package = archive.packages(SUITE, "amd64", KERNEL)[KERNEL]
    deb = archive.download(package)
    work = folder / "work"
    unpack(deb, work, lambda path: path.endswith(".tar.xz"))
    (folder / "rseq").mkdir()
    with tarfile.open(next(work.rglob("*.tar.xz")), mode="r|xz") as members:
        for member in members:
            if HEADERS in member.name and member.name.endswith(".h"):
                text = members.extractfile(member).read()
                (folder / "rseq" / Path(member.name).name).write_bytes(text)
    shutil.rmtree(work)
    deb.unlink()
    return package["Version"].partition("-")[0]


def main(arguments):
    if arguments not in ([], ["--update"]):
        print(__doc__, file=sys.stderr)
        return 2
    screen = Screen()
    folder = cache_directory() / "others"
    with alone("lock"):
        if arguments or not (folder / "versions").exists():
            archive = Archive(cache_directory() / "apt", screen.say)
            archive.update()
            with Making(folder) as directory:
                versions = {"liburcu": fetch_liburcu(archive, directory),
                            "librseq": fetch_librseq(archive, directory)}
                (directory / "versions").write_text(json.dumps(versions), encoding="utf-8")
            archive.tidy()
    print(folder)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Problem, OSError) as problem:
        sys.exit(f"lab: {problem}")
    except KeyboardInterrupt:
        sys.exit(130)
