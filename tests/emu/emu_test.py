#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Stops every operation at every instruction of its sequences, in an emulator, with another
operation in between, and compares what comes out with the two orders in which they could have run.

    emu_test.py DIRECTORY CPU COMPILER...           fails if anything is wrong with the library
    emu_test.py --faults=PART DIRECTORY CPU COMPILER...
                                                    fails if a fault that is put in is not found

PART, 0 to 5, is one of six parts of the faults.

DIRECTORY is for the programs that it compiles; CPU is x86_64, aarch64 or riscv64, each followed by
a compiler for it. Exit status: 0 as it should be, 1 not so, 2 wrong usage, 77 something is
missing."""

import os
import shutil
import sys
import time

PACKAGES = {"x86_64": "gcc-x86-64-linux-gnu", "aarch64": "gcc-aarch64-linux-gnu",
            "riscv64": "gcc-riscv64-linux-gnu"}

PARTS = 6

# What --faults puts in: on the first CPU all of them, on the others those that depend on how the
# CPU's header spells its operations.
FAULTS = ("two_stores", "commit_not_last", "index_outside", "no_live_check",
          "no_registration_check", "no_state_check", "no_gate_check", "passes_closed_gate",
          "no_first_fence", "no_second_fence", "forgotten")
FAULTS_OF_A_HEADER = ("two_stores", "commit_not_last", "no_live_check", "passes_closed_gate")


def play(cpu, compiler, directory, fault):
    """The suite, after it has run on the program."""
    import build
    from cpu import CPUS
    from image import Image
    from suite import Suite

    directory = os.path.join(os.path.abspath(directory), cpu)
    os.makedirs(directory, exist_ok=True)
    program = build.program(compiler, directory, fault)
    names = None if fault else build.header_sequences(compiler, directory)
    image = Image(program, CPUS[cpu], build.addr2line(compiler))
    suite = Suite(image, names, max_failures=1 if fault else 4)
    suite.run()
    return suite


def check(cpu, compiler, directory):
    begun = time.monotonic()
    suite = play(cpu, compiler, directory, None)
    print(f"{suite.summary()}; {time.monotonic() - begun:.0f} s")
    for failure in suite.explorer.failures:
        print(failure)
    return not suite.explorer.failures


def check_fault(cpu, compiler, directory, fault):
    suite = play(cpu, compiler, directory, fault)
    found = suite.explorer.failures
    print(f"{cpu}: {fault}: {'found by ' + found[0] if found else 'NOT FOUND'}", flush=True)
    return bool(found)


def missing(pairs):
    """What is missing to run, or None."""
    try:
        import elftools  # noqa: F401
        import unicorn  # noqa: F401
    except ImportError as error:
        return f"{error} (Debian: python3-unicorn, python3-pyelftools)"
    for cpu, compiler in pairs:
        if not shutil.which(compiler):
            return f"no compiler for {cpu} (Debian: {PACKAGES[cpu]})"
    return None


def main(arguments):
    faults = "".join(arguments[:1]).startswith("--faults=")
    directory, *rest = arguments[faults:] or [""]
    pairs = list(zip(rest[::2], rest[1::2]))
    if not pairs or len(rest) % 2 or any(cpu not in PACKAGES for cpu, _ in pairs):
        print(__doc__, file=sys.stderr)
        return 2
    lacks = missing(pairs)
    if lacks:
        print(f"skipped: {lacks}")
        return 77
    if not faults:
        return 0 if all([check(cpu, compiler, directory) for cpu, compiler in pairs]) else 1
    part = int(arguments[0].partition("=")[2])
    cases = [(cpu, compiler, directory, fault)
             for cpu, compiler in pairs
             for fault in (FAULTS if (cpu, compiler) == pairs[0] else FAULTS_OF_A_HEADER)]
    return 0 if all([check_fault(*case) for case in cases[part::PARTS]]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
