#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the name of a static function has the object of the function.

usage: names.py < FILES

Reads the names of files from standard input. Prints the static functions of src/ and include/ that
are named by one word, and their names that more than two files have. In tools/ and bench/, a name
of one word may be in two files. Prints nothing if all is well. Names that begin with near_ are left
out: of those one definition is compiled, such as the CPU's.
"""
import re
import sys
from collections import defaultdict

MOST = 2  # files that may have a name
LIBRARY = ("src/", "include/")
PROGRAMS = ("tools/", "bench/")

# From the beginning of a line up to the body, the initial value or the end of the declaration.
STATIC = re.compile(r"^(?:(?:__attribute__\(\(.*\)\)|[A-Z_]+)\s+)*"
                    r"(?:static|(?:NO|NEAR__)?INLINE)\b([^{};=]*)", re.M)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
# What has parentheses or brackets and is no list of parameters.
OTHER = re.compile(r"(?:__attribute__|_Alignas|_Atomic|__typeof__|ElfW)\s*"
                   r"(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))|\[[^]]*\]")
FUNCTION = re.compile(r"\b(?![A-Z0-9_]+\b)(\w+)\s*\((?!\s*\*)")


def functions(text):
    """(name, line) of each static function, declared or defined at the beginning of a line."""
    text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n") or " ", text)
    for declaration in STATIC.finditer(text):
        function = FUNCTION.search(OTHER.sub(" ", declaration[1]))
        if function:
            yield function[1], text.count("\n", 0, declaration.start()) + 1


def is_word(name):
    return "_" not in name.strip("_")


def main():
    places = defaultdict(dict)  # name -> file -> line
    for file in sorted(sys.stdin.read().split()):
        if file.startswith(LIBRARY + PROGRAMS):
            with open(file, encoding="utf-8") as source:
                for name, line in functions(source.read()):
                    if not name.startswith("near_"):
                        places[name].setdefault(file, line)
    for name, lines in sorted(places.items()):
        library = [file for file in lines if file.startswith(LIBRARY)]
        if is_word(name):
            for file in library:
                print(f"{file}:{lines[file]}: {name}: one word, which lacks what it is about")
        counted = lines if is_word(name) else library
        if len(counted) > MOST:
            print(f"{name}: in more than {MOST} files:", *counted)


main()
