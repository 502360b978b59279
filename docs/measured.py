#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs nearcpu bench --report and puts its text between the marks in a document.

    measured.py NEARCPU FILE

Run it on a quiet machine: the text reports disturbances. Exit status: that of nearcpu."""

import subprocess
import sys

BEGIN, END = "<!-- measured.py: begin -->\n", "<!-- measured.py: end -->\n"


def main(tool, path):
    report = subprocess.run([tool, "bench", "--report"], stdout=subprocess.PIPE, text=True,
                            check=False)
    if report.returncode:
        return report.returncode
    with open(path, encoding="utf-8") as file:
        before, begin, rest = file.read().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{path}: no lines {BEGIN.strip()} and {END.strip()}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n" + report.stdout.strip("\n") + "\n\n" + end + after)
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
