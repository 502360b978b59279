#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the tables of docs/atomic.md, or compares them with what nearcpu-atomic-hash finds.

    document.py --update | --check NEAR_ATOMIC_HASH FILE

Exit status: 0; 1 the file is not up to date, or our hash spreads some pattern badly; 2 wrong usage;
77 objdump or readelf is missing. The number of instructions is compared where machine and compiler
are those that the file was made with, all other numbers everywhere but the measured times."""

import os
import re
import shutil
import subprocess
import sys

BEGIN, END = "<!-- document.py: begin -->\n", "<!-- document.py: end -->\n"
OVER_ALL = "arrays, "  # rows that sum up many strides


def made_with(program):
    """What decides how many instructions a hash has."""
    comment = subprocess.run(["readelf", "-p", ".comment", program], text=True, check=True,
                             stdout=subprocess.PIPE).stdout
    compiler = re.search(r"(GCC|clang)\D*([0-9.]+)", comment)
    name = f"{compiler[1].lower()} {compiler[2]}" if compiler else "another compiler"
    return f"{os.uname().machine}, {name} -O2"


def instructions(program):
    """Of each function hash_*, without its return."""
    found, name = {}, None
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", program], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    for line in text.splitlines():
        start = re.match(r"[0-9a-f]+ <(?:hash_(\w+))?", line)
        if start:
            name = start[1]
            found.setdefault(name, 0)
        elif name and "\tret" in line:
            name = None
        elif name and re.match(r"\s+[0-9a-f]+:\t", line):
            found[name] += 1
    return found


class Measured:
    """What the program printed."""

    def __init__(self, program):
        text = subprocess.run([program], text=True, check=True, stdout=subprocess.PIPE).stdout
        self.hashes, self.patterns = [], {}
        for line in text.splitlines():
            kind, *fields = line.split("\t")
            if kind == "cost":
                self.hashes.append(fields)
            else:
                pattern, name, *values = fields
                self.patterns.setdefault(pattern, {})[name] = [float(v) for v in values]
        self.program = program

    def single(self, name):
        """A hash with each pattern of its own."""
        return [cells[name] for label, cells in self.patterns.items()
                if not label.startswith(OVER_ALL)]


def number(value):
    """Three digits or so."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def summary(measured):
    counts = instructions(measured.program)
    out = row("hash", "locks", "pairs: mean", "worst pattern", "worst place", "worst stride",
              "locks used", "longest", "instructions", "ns, measured")
    out += row("---", *["--:"] * 9)
    for name, label, locks, ns in measured.hashes:
        single = measured.single(name)
        strides = [cells[name][1] for row_label, cells in measured.patterns.items()
                   if row_label.startswith(OVER_ALL)]
        out += row(label, f"{int(locks):,}",
                   number(sum(v[0] for v in single) / len(single)),
                   number(max(v[0] for v in single)), number(max(v[1] for v in single)),
                   number(max(strides)),
                   f"{sum(v[2] for v in single) / len(single):.0f}",
                   f"{max(v[3] for v in single):.0f}", str(counts.get(name, "?")), ns)
    return out


def table(measured, cell, over_all):
    names = [fields[0] for fields in measured.hashes]
    out = row("256 objects", *[fields[1] for fields in measured.hashes])
    out += row("---", *["--:"] * len(names))
    for label, cells in measured.patterns.items():
        if over_all or not label.startswith(OVER_ALL):
            out += row(label, *[cell(cells[name]) for name in names])
    return out


def tables(program):
    measured = Measured(program)
    return (f"Instructions: {made_with(program)}.\n\n" + summary(measured) +
            "\nPairs that share a lock, in multiples of chance:\n\n" +
            table(measured, lambda v: number(v[0]), True) +
            "\nLocks used, and the most objects of one lock:\n\n" +
            table(measured, lambda v: f"{v[2]:.0f}, {v[3]:.0f}", False))


def split(path):
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: no lines {BEGIN.strip()} and {END.strip()}")
    return before + begin, inside, end + after


def update(program, path):
    before, _, after = split(path)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + "\n" + tables(program) + "\n" + after)
    return 0


def without(text, columns):
    """Without the last columns of the first table: the measured time, and the instructions."""
    first, middle, rest = text.strip("\n").partition("\nPairs that")
    if columns > 1:
        first = re.sub(r"^Instructions: .*", "", first)
    return re.sub(r"( [0-9.]+ \|){%d}$" % columns, "", first, flags=re.M) + middle + rest


def check(program, path):
    spread = subprocess.run([program, "--check"], check=False)
    if spread.returncode:
        return 1
    _, inside, _ = split(path)
    columns = 1 if f"Instructions: {made_with(program)}." in inside else 2
    if without(inside, columns) != without(tables(program), columns):
        print(f"{path} is not up to date: the target near_atomic_hash_tables writes it")
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("--update", "--check"):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    if not shutil.which("objdump") or not shutil.which("readelf"):
        print("skipped: no objdump or readelf")
        sys.exit(77)
    sys.exit({"--update": update, "--check": check}[sys.argv[1]](*sys.argv[2:]))
