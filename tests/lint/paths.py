#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints each path that a file mentions and that does not exist, from the root of the repository,
from the file's folder or from one above it.

usage: paths.py < FILES

Reads the names of files from standard input."""
import re
import sys
from pathlib import Path

PATH = re.compile(r"(?<![\w/.$}-])"
                  r"((?:src|tests|tools|bench|models|docs|lab|include|examples|man|cmake)"
                  r"/(?:[\w./-]*\.(?:cc|[ch]|py|sh|md|pml|scd|cmake|txt)(?!\w)|(?:[\w-]+/)*(?=`)))")


def exists(path, mentioned):
    return any((parent / mentioned).exists() for parent in path.parents)


def main():
    for name in sys.stdin.read().split():
        path = Path(name)
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for mentioned in PATH.findall(line):
                if not exists(path, mentioned):
                    print(f"{name}:{number}: {mentioned} does not exist")


main()
