# SPDX-License-Identifier: MIT
"""What was fetched, kept outside of the repository. A directory is made under a temporary name and
renamed when it is whole, so that one that exists is whole."""

import os
from pathlib import Path
import shutil
import subprocess

from problem import Problem


def cache_directory():
    """$NEAR_LAB_CACHE, else where programs keep such things."""
    named = os.environ.get("NEAR_LAB_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nearcpu-lab"


def unpack(deb, target, *members):
    """Unpacks the files of a package, or those of its members that match the patterns."""
    patterns = ["--wildcards", *members] if members else []
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as source:
        result = subprocess.run(["tar", "-x", "--no-same-owner", "-C", str(target), *patterns],
                                stdin=source.stdout, capture_output=True, text=True,
                                errors="replace", check=False)
        source.stdout.close()
        complaint = source.stderr.read().decode(errors="replace")
    if result.returncode != 0 or source.returncode != 0:
        text = (result.stderr + complaint).strip().splitlines() or ["no message"]
        raise Problem(f"cannot unpack {deb.name}: {text[0]}")


class Making:
    """with Making(target) as directory: fills it; it becomes `target` if nothing went wrong."""

    def __init__(self, target):
        self.target = target
        self.temporary = target.with_name(f".{target.name}.{os.getpid()}")

    def __enter__(self):
        for left in self.target.parent.glob(f".{self.target.name}.*"):
            shutil.rmtree(left, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        return self.temporary

    def __exit__(self, kind, value, trace):
        if kind is None:
            shutil.rmtree(self.target, ignore_errors=True)
            self.temporary.rename(self.target)
        else:
            shutil.rmtree(self.temporary, ignore_errors=True)
