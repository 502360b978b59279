# SPDX-License-Identifier: MIT
"""The programs for the machines: built by the CMake presets of the same names, packed with init and
the plan into an initramfs."""

import subprocess

import cpio
from machines import MACHINES
from problem import Problem

ROOT_DIRECTORIES = ("bin", "dev", "proc", "sys", "tmp")
# What every machine has, besides the programs of its tests, and where.
PLACES = {"lab_init": "init", "lab_true": "bin/true", "lab_sh": "bin/sh"}


def programs_of(tests):
    """All programs that the tests need."""
    return sorted({name for test in tests for name in test.programs()} | set(PLACES))


def compile_for(arch, tests, source, output, jobs):
    """Configures and builds in the preset's own directory, where ./dev test may have done it; quiet
    unless it fails. Returns the directory of the programs."""
    log = output / f"build-{arch}.log"
    directory = source / "build" / arch
    commands = (["cmake", "--preset", arch],
                ["cmake", "--build", str(directory), "--parallel", str(jobs),
                 "--target", *programs_of(tests)])
    with open(log, "w", encoding="utf-8") as out:
        for command in commands:
            result = subprocess.run(command, cwd=source, stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT, check=False)
            if result.returncode != 0:
                out.flush()
                tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]
                raise Problem("\n".join([f"the programs for {arch} do not build:", *tail,
                                         f"all of it is in {log}"]))
    return directory / "bin"


def pack(boot, tests, programs):
    """The initramfs of a boot that runs these of its tests; `programs` is the directory of the
    build's programs."""
    archive = cpio.Writer()
    for name in ROOT_DIRECTORIES:
        archive.directory(name)
    archive.console()
    for name in programs_of(tests):
        data = (programs / name).read_bytes()
        archive.file(PLACES.get(name, name), data)
    lines = MACHINES[boot.machine].on(boot.arch).plan() + [test.plan(boot.kernel) for test in tests]
    archive.file("plan", "".join(line + "\n" for line in lines).encode(), 0o644)
    return archive.data()
