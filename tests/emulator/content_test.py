#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Whether the keys of units change with what their runs can depend on, and with nothing else.

    content_test.py DIRECTORY CPU COMPILER

DIRECTORY is for the programs. Exit status: 0 as it should be, 1 not so, 77 something is missing."""

import os
import re
import subprocess
import sys

from emu_test import missing

CHANGES_BOTH = ("by_libc", "of_each_thread", "constructor", "every", "allocator")
CHANGES_B = ("entry_of_b",)
CHANGES_NONE = ("nothing", "weak", "unused", "moved")


def keys(cpu, compiler, directory, change):
    """Of the operations, in the program with this change."""
    import build
    from content import Content
    from cpu import CPUS
    from image import Image
    from trace import Knowledge
    from units import Units

    flags = (*build.flags(compiler), f"-DCHANGE={change}")
    objects = tuple(os.path.join(directory, name) for name in ("first.o", "second.o"))
    for path, more in zip(objects, ((), ("-DSECOND",))):
        subprocess.run([compiler, *flags, *more, "-c", "tests/emulator/content.c", "-o", path],
                       cwd=build.ROOT, check=True)
    program = build.link(compiler, os.path.join(directory, "program"), objects)
    image = Image(program.path, CPUS[cpu], build.addr2line(compiler))
    units = Units(image, Content(program), program.library, "")
    return {op.name: units.played(op, op, Knowledge()) for op in units.ops}


def changes():
    """Those that the program has."""
    with open(os.path.join(os.path.dirname(__file__), "content.c"), encoding="utf-8") as file:
        names = re.search(r"enum changes \{(.*?)\};", file.read(), re.DOTALL)[1]
    return re.findall(r"^\t(\w+),", names, re.MULTILINE)


def check(cpu, compiler, directory):
    directory = os.path.abspath(directory)
    os.makedirs(directory, exist_ok=True)
    sound, good = keys(cpu, compiler, directory, "nothing"), True
    for change in changes():
        now = keys(cpu, compiler, directory, change)
        changed = "".join(name for name in now if now[name] != sound[name])
        expected = ("ab" if change in CHANGES_BOTH else "b" if change in CHANGES_B else
                    "" if change in CHANGES_NONE else "a")
        if changed != expected:
            print(f"{change}: the keys of '{changed}' change, not those of '{expected}'")
            good = False
    return good


def main(directory, cpu, compiler):
    lacks = missing([(cpu, compiler)])
    if lacks:
        print(f"skipped: {lacks}")
        return 77
    return 0 if check(cpu, compiler, directory) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
