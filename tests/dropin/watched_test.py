#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""memcheck and AddressSanitizer see the blocks of our allocator.

usage: watched_test.py asan|memcheck PROGRAM [VALGRIND]

PROGRAM is watched.c. valgrind leaves the allocator to the program.
"""
import os
import subprocess
import sys
import unittest

TOOL = PROGRAM = VALGRIND = ""

# Case: the message of each checker. None: it does not detect this.
MESSAGES = {
    "overrun": ("Invalid read of size 1", "a block of size 100 alloc'd"),
    "underrun": ("Invalid read of size 1", "3 bytes before a block of size 5,000 alloc'd"),
    "overrun_large": ("Invalid read of size 1", "a block of size 200,000 alloc'd"),
    "use_after_free": ("Invalid read of size 1", "inside a block of size 100 free'd"),
    "use_after_realloc": ("Invalid read of size 1", "inside a block of size 100 free'd"),
    "leak": ("1,234 bytes in 1 blocks are definitely lost", "allocated_here"),
    "not_set": ("Conditional jump or move depends on uninitialised", "not_set"),
}
ASAN_MESSAGES = {case: ("AddressSanitizer: use-after-poison", case) for case in MESSAGES}
ASAN_MESSAGES.update(leak=None, not_set=None)


def run(case):
    command, environment = [PROGRAM, case], dict(os.environ)
    if TOOL == "memcheck":
        command = [VALGRIND, "-q", "--leak-check=full", "--error-exitcode=99",
                   "--soname-synonyms=somalloc=nouserintercepts", *command]
    else:
        environment["ASAN_OPTIONS"] = "abort_on_error=0:exitcode=99:detect_leaks=0"
    return subprocess.run(command, env=environment, capture_output=True, timeout=300, text=True)


class Watched(unittest.TestCase):
    def test_faults_are_found(self):
        for case, said in (MESSAGES if TOOL == "memcheck" else ASAN_MESSAGES).items():
            if said is None:
                continue
            with self.subTest(case):
                result = run(case)
                self.assertEqual(result.returncode, 99, result.stderr)
                for words in said:
                    self.assertIn(words, result.stderr)

    def test_a_valid_program_is_left_alone(self):
        result = run("valid")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("asan", "memcheck"):
        sys.exit(__doc__)
    TOOL, PROGRAM = sys.argv[1:3]
    VALGRIND = sys.argv[3] if len(sys.argv) == 4 else ""
    unittest.main(argv=sys.argv[:1])
