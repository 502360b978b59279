# SPDX-License-Identifier: MIT
"""What was fetched, kept outside of the repository. A directory is made under a temporary name and
renamed when it is whole, so that one that exists is whole."""

from contextlib import contextmanager
import fcntl
import os
from pathlib import Path
import shutil
import subprocess
import tarfile

from problem import Problem


def cache_directory():
    """$NEAR_LAB_CACHE, else where programs keep such things."""
    named = os.environ.get("NEAR_LAB_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nearcpu-lab"


@contextmanager
def alone(name):
    """While another run has that lock, this one waits."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with open(cache_directory() / name, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def unpack(deb, target, wanted):
    """Unpacks the files of a package for whose paths `wanted` holds."""
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as source:
        try:
            with tarfile.open(fileobj=source.stdout, mode="r|") as archive:
                for member in archive:
                    if wanted(member.name.removeprefix("./")):
                        archive.extract(member, target, set_attrs=member.isfile())
        except tarfile.TarError as error:
            source.kill()
            raise Problem(f"cannot unpack {deb.name}: {error}") from None
        source.stdout.close()
        complaint = source.stderr.read().decode(errors="replace").strip()
    if source.returncode != 0:
        raise Problem(f"cannot unpack {deb.name}: {complaint or 'dpkg-deb failed'}")


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
