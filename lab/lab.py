#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The laboratory: the tests on other architectures, other kernels, many CPUs and NUMA nodes.
Started by ./dev lab."""

import argparse
import errno
import os
from pathlib import Path
import signal
import sys
import time

from archive import Archive
import build
from cache import alone, cache_directory
from emulator import Emulator
import kernel_build
from kernels import ARCHITECTURES, KERNELS, Kernels, known_gap
from machines import MACHINES
import plan
from problem import Missing, Problem
from report import Report, not_available
from runner import Runner
from screen import Screen
import table

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def options(arguments):
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="./dev lab", description="Runs the tests in virtual machines: other architectures, "
        "other kernels, many CPUs, NUMA. Also: ./dev lab cost, ./dev lab models, ./dev lab "
        "proof, ./dev lab stress.",
        epilog="Kernels and QEMU come from Debian's archive and stay in $NEAR_LAB_CACHE "
        "(~/.cache/nearcpu-lab). That of the machine pages64k is built the first time, in about "
        f"{kernel_build.MINUTES} minutes on two CPUs. Exit status: 0 all green, 1 not, "
        "2 wrong usage, "
        "3 all green that ran, but the archive is being updated and lacks a kernel.")
    parser.add_argument("what", nargs="?", choices=("list", "quick", "fetch"),
                        help="list: like --list; quick: like --quick; fetch: kernels and QEMU, "
                        "for a run without network")
    parser.add_argument("--only", action="append", default=[], metavar="WORD",
                        help="an architecture, kernel, machine or test; may be repeated")
    parser.add_argument("--quick", action="store_true",
                        help="six machines and the tests that find most")
    parser.add_argument("--list", action="store_true", help="say what there is, and end")
    parser.add_argument("--update", action="store_true",
                        help="search for newer kernels and a newer QEMU")
    parser.add_argument("--jobs", type=int, metavar="N",
                        help="machines at a time (by default half the processors, at least 2)")
    parser.add_argument("--output", type=Path, default=SOURCE / "build/lab", metavar="DIRECTORY",
                        help="for logs and the report (build/lab)")
    selected = parser.parse_args(arguments)
    if selected.jobs is not None and selected.jobs < 1:
        parser.error("--jobs takes a number from 1 on")
    selected.quick = selected.quick or selected.what == "quick"
    selected.list = selected.list or selected.what == "list"
    selected.jobs = selected.jobs or max(2, (os.cpu_count() or 2) // 2)
    return selected


def print_list(tests):
    """Everything that --only takes, and what it selects."""
    print("architectures:", *ARCHITECTURES)
    print("\nkernels:")
    for name, (_, suite, _, _) in KERNELS.items():
        gaps = [f"not for {arch}: {known_gap(arch, name)}" for arch in ARCHITECTURES
                if known_gap(arch, name)]
        built = ["built from source"] if kernel_build.configuration(name) is not None else []
        print("  " + "; ".join([f"{name:12}from Debian's {suite}", *built, *gaps]))
    print("\nmachines:")
    for machine in MACHINES.values():
        print(f"  {machine.name:12}{machine.text} ({', '.join(machine.architectures)}; "
              f"kernels {', '.join(machine.kernels)})")
    print("\ntests:")
    for test in tests:
        machines = [machine + " (quick)" * (machine in test.quick) for machine in test.machines]
        print(f"  {test.name:18}{' '.join(test.settings + test.command)}; "
              f"on {', '.join(machines)}")
    print("\nbesides: ./dev lab cost, ./dev lab models, ./dev lab proof, "
          "./dev lab stress [--minutes N]")


class Laboratory:
    """One run."""

    def __init__(self, selected, tests):
        self.selected = selected
        self.boots = plan.make(tests, selected.only, selected.quick)
        self.tests = tests
        self.screen = Screen()
        self.cache = cache_directory()
        self.output = selected.output.resolve()
        self.kernels = {}
        self.missing = {}
        self.interrupted = False
        self._archive = None

    def _open_archive(self):
        """The archive, when something must be fetched from it."""
        if self._archive is None:
            archive = Archive(self.cache / "apt", self.screen.say)
            archive.update()
            self._archive = archive
        return self._archive

    def fetch(self):
        """Fills the cache."""
        sources = {}
        with alone("lock"):
            emulator = Emulator(self.cache / "qemu", self._open_archive, self.selected.update)
            kernels = Kernels(self.cache / "kernels", self._open_archive, self.selected.update)
            for key in dict.fromkeys((boot.arch, boot.kernel) for boot in self.boots):
                try:
                    found = kernels.get(*key)
                except Missing as problem:
                    self.missing[key] = problem
                    self.screen.say(f"{' '.join(key)} is not available: {problem}")
                else:
                    is_source = isinstance(found, kernel_build.Source)
                    (sources if is_source else self.kernels)[key] = found
            if self._archive:
                self._archive.tidy()
        for key, source in sources.items():
            self._build_kernel(kernels, key, source)
        return emulator

    def _build_kernel(self, kernels, key, source):
        """Other runs that need no such kernel go on."""
        name = f"the kernel {key[1]}"
        self.screen.say(f"building {name} {source.version}: about {kernel_build.MINUTES} minutes "
                        "on two CPUs")
        with alone("lock-build"):
            self.kernels[key] = kernels.build(
                *key, source, self.output / f"build-kernel-{key[1]}.log",
                lambda text: self.screen.note(name, text))
        self.screen.note(name, None)

    def build(self):
        """The programs, by architecture."""
        programs = {}
        for arch in ARCHITECTURES:
            tests = [test for boot in self.boots if boot.arch == arch for test in boot.tests]
            if tests:
                self.screen.say(f"building for {arch}")
                programs[arch] = build.compile_for(arch, tests, SOURCE, self.output,
                                                   os.cpu_count() or 2)
        return programs

    def run(self):
        """Everything; returns the report."""
        began = time.monotonic()
        logs = self.output / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        emulator = self.fetch()
        programs = self.build()
        runner = Runner(emulator, self.kernels, programs, logs, self.screen)
        able = [boot for boot in self.boots if (boot.arch, boot.kernel) in self.kernels]
        for boot in self.boots:
            if boot not in able:
                not_available(runner.results, boot, self.missing[boot.arch, boot.kernel])
        self.screen.say(f"{len(able)} machines, {self.selected.jobs} at a time; logs in {logs}")
        try:
            runner.run(able, self.selected.jobs)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.screen.end()
        versions = {key: kernel.version for key, kernel in self.kernels.items()}
        return Report(runner.results, versions, self.tests, emulator.version,
                      time.monotonic() - began, len(able) if self.interrupted else 0)


def interrupt(_number, _frame):
    """A signal that ends the run as Ctrl-C does. What follows ends the machines: a second signal
    must not end that."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def work(selected):
    """Does what the options request; returns the exit status."""
    tests = table.parse((HERE / "list").read_text(encoding="utf-8"), MACHINES)
    if selected.list:
        print_list(tests)
        return 0
    try:
        laboratory = Laboratory(selected, tests)
    except plan.Unknown as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 2
    if selected.what == "fetch":
        laboratory.fetch()
        return 3 if laboratory.missing else 0
    report = laboratory.run()
    page = laboratory.output / "report.md"
    page.write_text(report.markdown(), encoding="utf-8")
    print(report.text(), end="", flush=True)
    laboratory.screen.say(f"the report is {page}")
    if laboratory.interrupted:
        raise KeyboardInterrupt
    return 1 if report.failed() else 3 if report.incomplete() else 0


def main():
    """Turns what can go wrong into a message and an exit status."""
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        return work(options(sys.argv[1:]))
    except Problem as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        sys.stdout = None
        return 1
    except OSError as error:
        hint = "; make room there, then try again" if error.errno == errno.ENOSPC else ""
        print(f"lab: {error.filename or 'writing'}: {error.strerror}{hint}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
