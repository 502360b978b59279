#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs every benchmark and writes the reports to a file that is named after the machine.

    measured.py NEARCPU FOLDER

NEARCPU is the command, FOLDER that of the file: docs/measured. It takes about half an hour. Run it
on a quiet machine: the text reports disturbances. Exit status: that of nearcpu."""

import pathlib
import re
import subprocess
import sys

# What a report is about, and the names of its benchmarks; none: the core set.
REPORTS = [
    ("The structures", []),
    ("Scheduling, locks and parking", ["sched", "locks", "park", "rwlock"]),
    ("libatomic", ["atomic"]),
    ("malloc", ["malloc"]),
]


def report(tool, names):
    print("nearcpu bench --report", *names, file=sys.stderr, flush=True)
    done = subprocess.run([tool, "bench", *names, "--report"], stdout=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout.strip("\n")


def machine(text):
    """The model of the CPU and the number of CPUs, from the head of a report."""
    model, cpus = re.search(r"^- (.+?); CPUs: (\d+) online", text, re.MULTILINE).groups()
    return re.sub(r" *(CPU|Processor)$", "", re.sub(r"\(\w+\)", "", model)), int(cpus)


def main(tool, folder):
    reports = [(title, report(tool, names)) for title, names in REPORTS]
    model, cpus = machine(reports[0][1])
    path = pathlib.Path(folder, re.sub(r"\W+", "-", f"{model} {cpus}".lower()) + ".md")
    text = f"# Measured on {model}, {cpus} CPUs\n"
    for title, body in reports:
        text += f"\n## {title}\n\n{body}\n"
    path.write_text(text, encoding="utf-8")
    print(path, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
