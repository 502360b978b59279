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

# The benchmarks of which there is no report, by title.
TABLES = {
    "Histograms, pools and queues": ["histogram", "pool", "queue", "memory"],
    "Scheduling": ["sched"],
    "Locks": ["locks", "barrier", "broadcast", "signal", "sem", "park", "rwlock"],
    "libatomic": ["atomic"],
    "malloc": ["malloc"],
}


def bench(tool, *args):
    print("nearcpu bench", *args, file=sys.stderr, flush=True)
    done = subprocess.run([tool, "bench", *args], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return re.sub(r" +$", "", done.stdout, flags=re.MULTILINE).strip("\n")


def machine(text):
    """The model of the CPU and the number of CPUs, from the head of a report."""
    model, cpus = re.search(r"^- (.+?); CPUs: (\d+) online", text, re.MULTILINE).groups()
    return re.sub(r" *(CPU|Processor)$", "", re.sub(r"\(\w+\)", "", model)), int(cpus)


def main(tool, folder):
    report = bench(tool, "--report")
    model, cpus = machine(report)
    path = pathlib.Path(folder, re.sub(r"\W+", "-", f"{model} {cpus}".lower()) + ".md")
    text = f"# Measured on {model}, {cpus} CPUs\n\n## The structures\n\n{report}\n"
    for title, names in TABLES.items():
        text += f"\n## {title}\n\n```\n{bench(tool, *names)}\n```\n"
    path.write_text(text, encoding="utf-8")
    print(path, file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
