#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The drop-in malloc in programs with a sanitizer, which has a malloc of its own.

usage: sanitized_test.py PROGRAM LIBRARY

PROGRAM is sanitized.c with a sanitizer, LIBRARY the drop-in malloc. A sanitizer in the program
(clang) comes before a preloaded library, and its malloc serves the program. One in a shared library
(gcc) must be preloaded first; what happens otherwise is a sentence, not a crash.
"""
import os
import re
import subprocess
import sys
import unittest

PROGRAM = LIBRARY = ""
GOOD = (0, "done\n", "")


def run(*preloaded):
    environment = dict(os.environ, LD_PRELOAD=" ".join(preloaded))
    result = subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, timeout=50)
    return result.returncode, result.stdout, result.stderr


def find_runtime():
    listed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, timeout=50)
    found = re.search(r"=> (\S*/lib[at]san\.so\S*)", listed.stdout)
    return found[1] if found else None


class Sanitized(unittest.TestCase):
    def setUp(self):
        if run() != GOOD:
            self.skipTest("the sanitizer itself does not work here")
        self.runtime = find_runtime()

    def test_a_sanitizer_before_the_library(self):
        self.assertEqual(run(*filter(None, (self.runtime, LIBRARY))), GOOD)

    def test_a_sanitizer_after_the_library(self):
        if not self.runtime:
            self.skipTest("the sanitizer is in the program")
        status, output, errors = run(LIBRARY)
        self.assertEqual((status, output), (1, ""))
        self.assertRegex(errors, "Sanitizer; .*preload|ASan runtime does not come first")
        self.assertEqual(len(errors.splitlines()), 1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    PROGRAM, LIBRARY = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
