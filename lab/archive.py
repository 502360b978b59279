# SPDX-License-Identifier: MIT
"""A private root of apt: packages of other releases and architectures, with apt's own checks of
signatures and hashes, and nothing of the system changed."""

import os
from pathlib import Path
import re
import shutil
import subprocess

from problem import Missing, Problem, Unfetched
import sources

# Which packages of which suite the laboratory searches. {own} is this machine's release.
SUITES = {
    "bookworm": ("amd64", "arm64"),
    "trixie": ("amd64", "arm64", "riscv64"),
    "sid": ("amd64", "arm64", "riscv64"),
}
# The first release whose own QEMU serves; an older one has it in its backports.
QEMU_SUITES = {"bookworm": "bookworm-backports"}

CONFIGURATION = """\
{acquire}
Acquire::AllowInsecureRepositories "0";
Acquire::AllowWeakRepositories "0";
Acquire::AllowDowngradeToInsecureRepositories "0";
Acquire::GzipIndexes "true";
Acquire::Languages "none";
Acquire::Retries "3";
APT::Architecture "{native}";
APT::Architectures {{ "amd64"; "arm64"; "riscv64"; }};
APT::Sandbox::User "root";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "{root}/etc/empty";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{root}/etc/sources";
Dir::Etc::preferences "{root}/etc/preferences";
Dir::Etc::preferencesparts "{root}/etc/empty";
Dir::State "{root}/state";
Dir::State::status "{root}/status";
Dir::Cache "{root}/cache";
Dir::Cache::archives "{root}/debs";
Dir::Log "{root}/state";
"""

PREFERENCES = """\
Package: *
Pin: release n={suite}
Pin-Priority: -1
"""

PREFERRED = """\
Package: src:qemu src:seabios src:opensbi
Pin: release n={suite}
Pin-Priority: 900
"""


def own_release():
    """The code name of this machine's Debian."""
    fields = {}
    for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        fields[name] = value.strip('"')
    if fields.get("ID") != "debian" or not shutil.which("apt-get"):
        raise Problem("the laboratory takes kernels and QEMU from Debian's archive with apt; "
                      "run it on Debian 12 (a container does)")
    return fields.get("VERSION_CODENAME", "")


def is_older(fields, other):
    """Whether a stanza's version is older than that of the other, if there is one. An archive keeps
    sources that other packages were built with."""
    return other is not None and subprocess.run(
        ["dpkg", "--compare-versions", fields["Version"], "lt", other["Version"]],
        check=False).returncode == 0


class Archive:
    """`root` is a directory of our own; made when it is first updated."""

    def __init__(self, root, say):
        self.root = root
        self.say = say
        self.release = own_release()
        self.qemu_suite = QEMU_SUITES.get(self.release, self.release)
        self.indices = None
        self.unfetched = set()  # (suite, architecture) whose list the mirror has only in part

    def _run(self, *command, capture=False, cwd=None):
        environment = dict(os.environ, APT_CONFIG=str(self.root / "apt.conf"), LC_ALL="C.UTF-8",
                           DEBIAN_FRONTEND="noninteractive")
        result = subprocess.run(command, env=environment, cwd=cwd, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True, errors="replace",
                                stderr=subprocess.PIPE, check=False)
        if result.returncode != 0:
            lines = (result.stderr + result.stdout).strip().splitlines()
            raise Problem(f"{command[0]} {command[1]} failed: {self._reason(lines)}")
        return result.stdout if capture else None

    def _reason(self, lines):
        """The first error of apt, and what to do about it."""
        error = next((line for line in lines if line.startswith("E:")),
                     lines[-1] if lines else "it does not say why")
        if any("No space left" in line for line in lines):
            return f"{error}\nThe disk with {self.root.parent} is full: make room there, or set " \
                   "NEAR_LAB_CACHE to another place."
        if "fetch" not in error:
            return error
        return f"{error}\nWithout the network only what is in {self.root.parent} already can be " \
               "run (without --update)."

    def _machine_entries(self):
        """This machine's sources of its own release, and those of the other suites."""
        ours = {self.release, self.release + "-updates", self.release + "-security",
                self.qemu_suite}
        native = self.native
        entries, mirror = [], None
        for source in sources.read_machine():
            suites = [suite for suite in source.suites if suite in ours]
            if "main" in source.components and suites:
                entries.append((source, suites, [native]))
                if self.release in suites and mirror is None:
                    mirror = source
        if mirror is None:
            raise Problem(f"/etc/apt has no source for {self.release} main; "
                          "add one (sources.list(5)), then try again")
        known = {suite for _, suites, _ in entries for suite in suites}
        if self.qemu_suite not in known:
            entries.append((mirror, [self.qemu_suite], [native]))
        for suite, architectures in SUITES.items():
            wanted = [a for a in architectures if (suite != self.release or a != native) and
                      (suite, a) not in self.unfetched]
            if wanted:
                entries.append((mirror, [suite], wanted))
        return entries

    def _write_configuration(self):
        acquire = subprocess.run(["apt-config", "dump", "Acquire"], capture_output=True,
                                 text=True, check=True).stdout
        acquire = "\n".join(line for line in acquire.splitlines()
                            if re.match(r"Acquire::(https?|ftp|tor|Check-)\b", line))
        for name in ("etc/empty", "etc/sources", "state/lists/partial", "cache",
                     "debs/partial"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        others = [suite for suite in SUITES if suite != self.release]
        preferences = [PREFERENCES.format(suite=suite) for suite in others]
        preferences.append(PREFERRED.format(suite=self.qemu_suite))
        (self.root / "etc/preferences").write_text("\n".join(preferences), encoding="utf-8")
        (self.root / "etc/sources/lab.sources").write_text(
            sources.write_deb822(self._machine_entries()), encoding="utf-8")
        (self.root / "apt.conf").write_text(
            CONFIGURATION.format(acquire=acquire, native=self.native, root=self.root),
            encoding="utf-8")
        shutil.copyfile("/var/lib/dpkg/status", self.root / "status")

    @property
    def native(self):
        """Debian's name of this machine's architecture."""
        return subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True,
                              check=True).stdout.strip()

    def update(self):
        """Fetches the lists of packages, once in a run."""
        if self.indices is not None:
            return
        self.say("fetching the lists of packages")
        while not self._update():
            pass
        self.indices = self._run("apt-get", "indextargets", "--format",
                                 "$(CODENAME) $(ARCHITECTURE) $(FILENAME)",
                                 "Created-By: Packages", capture=True).splitlines()

    def _update(self):
        """False: the mirror is being updated and has another list than its index names. It is left
        out: apt would refuse those of the whole suite."""
        self._write_configuration()
        try:
            self._run("apt-get", "update", "--error-on=any")
        except Problem as problem:
            found = re.search(r"/dists/([\w-]+)/main/binary-(\w+)/.*Mirror sync in progress",
                              str(problem))
            if not found or found.groups() in self.unfetched or found[2] == self.native:
                raise
            self.unfetched.add(found.groups())
            self.say(f"the mirror is being updated: no list of {found[1]} for {found[2]}")
            return False
        return True

    def packages(self, suite, architecture, prefix):
        """The stanzas of the packages whose names begin with `prefix`, by their names."""
        found = {}
        if (suite, architecture) in self.unfetched:
            raise Unfetched(f"the mirror is being updated: no list of {suite} for {architecture}")
        for line in self.indices:
            codename, arch, path = line.split(" ", 2)
            if codename != suite or arch != architecture:
                continue
            text = self._run("/usr/lib/apt/apt-helper", "cat-file", path, capture=True)
            for stanza in re.findall(rf"^Package: {re.escape(prefix)}.*?(?:\n\n|\Z)", text,
                                     re.DOTALL | re.MULTILINE):
                fields = dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE))
                if not is_older(fields, found.get(fields["Package"])):
                    found[fields["Package"]] = fields
        if not found:
            raise Missing(f"Debian's {suite} has no {prefix}* for {architecture}")
        return found

    def download(self, fields):
        """Downloads one package; returns the file. apt goes on where it was interrupted."""
        name = "{Package}:{Architecture}={Version}".format(**fields)
        target = self.root / "downloads" / fields["SHA256"]
        target.mkdir(parents=True, exist_ok=True)
        self.say(f"fetching {fields['Package']} {fields['Version']}, "
                 f"{int(fields['Size']) >> 20} MiB")
        self._run("apt-get", "download", name, cwd=target)
        made = list(target.glob("*.deb"))
        if len(made) != 1:
            raise Problem(f"apt-get downloaded {len(made)} files for {name}; "
                          f"remove {target} and try again")
        return made[0]

    def download_for_here(self, packages):
        """Downloads packages and what of their dependencies this machine has not installed."""
        self.say("fetching " + ", ".join(packages))
        self._run("apt-get", "autoclean")  # an interrupted run may have left older versions
        self._run("apt-get", "install", "-y", "--download-only", "--reinstall",
                  "--no-install-recommends", *packages)
        return sorted((self.root / "debs").glob("*.deb"))

    def tidy(self):
        """Removes what is not needed any more, and what apt makes again from the lists."""
        for path in (self.root / "cache").glob("*.bin"):
            path.unlink()
        shutil.rmtree(self.root / "downloads", ignore_errors=True)
