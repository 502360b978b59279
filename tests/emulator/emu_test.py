#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Stops every operation at every instruction of its sequences, in an emulator, with another
operation in between, and compares what comes out with the two orders in which they could have run.

    emu_test.py DIRECTORY CPU COMPILER...           fails if anything is wrong with the library
    emu_test.py --faults=PART DIRECTORY CPU COMPILER...
                                                    fails if a fault that is put in is not found

PART, 0 to 5, is one of six parts of the faults.

What tests/emulator/explored has of the same code is not run again, and what was run is written
there (record.py). With NEAR_TEST_TURN=N, an eighth of it runs all the same, with NEAR_TEST_TURN=all
everything; it must give what the record has. With other compilers or libraries than those of the
record, each operation runs with itself only, but in a turn everything. The same for faults.

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


def the_turn():
    value = os.environ.get("NEAR_TEST_TURN", "")
    return int(value) if value.isdigit() else value or None


def folder(directory, cpu):
    directory = os.path.join(os.path.abspath(directory), cpu)
    os.makedirs(directory, exist_ok=True)
    return directory


def check(cpu, compiler, directory):
    import build
    from cpu import CPUS
    from image import Image
    from record import Record
    from session import Session

    begun = time.monotonic()
    directory = folder(directory, cpu)
    program = build.program(compiler, directory)
    image = Image(program.path, CPUS[cpu], build.addr2line(compiler))
    record = Record(cpu, compiler)
    session = Session(image, program, record, build.header_sequences(compiler, directory))
    good = session.run(the_turn())
    print(f"{session.suite.summary()}; {session.again} units of the record again; "
          f"{time.monotonic() - begun:.0f} s")
    for failure in session.explorer.failures:
        print(failure)
    if good and session.explored:
        record.write()
    return good


def cases_of(part, pairs, faults):
    """Those of one CPU are together, since each part needs the program without a fault too."""
    cases = [(cpu, compiler, name) for cpu, compiler in pairs
             for name in (faults.ALL if (cpu, compiler) == pairs[0] else faults.OF_A_HEADER)]
    return list(enumerate(cases))[len(cases) * part // PARTS:len(cases) * (part + 1) // PARTS]


def check_faults(pairs, directory, part):
    import faults
    from record import Record
    from session import is_turn

    record = Record(f"faults_{part}", *(compiler for _, compiler in pairs))
    some = the_turn() is None and not record.has_these_tools()
    sound, good, explored = {}, True, False
    for number, (cpu, compiler, name) in cases_of(part, pairs, faults):
        here = folder(directory, f"{cpu}.{part}")
        fault = faults.Fault(cpu, compiler, here, name, record)
        if cpu not in sound:
            sound[cpu] = faults.sound(cpu, compiler, here)
        found = fault.explore(is_turn(number, the_turn()), some)
        text = f"found by {found}" if found else "not found" if some else "NOT FOUND"
        if found and fault.is_hidden(sound[cpu]):
            text, good = f"{text}; IT DOES NOT CHANGE THE KEY", False
        if not fault.is_as_recorded():
            text, good = f"{text}; THIS IS NOT WHAT THE RECORD HAS", False
        print(f"{cpu}: {name}: {text}", flush=True)
        good = good and bool(found or some)
        explored = explored or fault.explored
    if some:
        print("with the pairs that found them before, and each operation with itself only: "
              f"{record.other_tools()}")
    elif good and explored:
        record.write()
    return good


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
    return 0 if check_faults(pairs, directory, part) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
