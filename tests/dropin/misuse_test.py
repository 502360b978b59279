#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What no program may do to a block stops it with one line that names the block.

usage: misuse_test.py PROGRAM [PRELOAD]

PROGRAM is misuse.c. Runs in the mode of this process's NEAR_CONF, and in the check mode.
"""
import os
import re
import signal
import subprocess
import sys
import unittest

PROGRAM = PRELOAD = ""

# Case: the message without the check mode (None: nothing need be found), and with it.
CASES = {
    "double_free": ("double free", "double free"),
    "double_free_cycle": ("freed twice", "double free"),
    "double_free_in_span": ("freed twice", "double free"),
    "double_free_large": ("not allocated", "double free"),
    "wild": ("not from here", "not from here"),
    "on_stack": ("not from here", "not from here"),
    "beyond": ("not from here", "not from here"),
    "interior": ("into a block", "into a block"),
    "interior_medium": ("into a block", "into a block"),
    "interior_aligned": ("into a block", "into a block"),
    "size_inside": ("use of a pointer into a block", "use of a pointer into a block"),
    "interior_large": ("into a block", "into a block"),
    "interior_far": ("into a block", "into a block"),
    "link_written": ("write to a freed block", None),
    "double_free_later": (None, "double free"),
    "underrun": (None, "write before a block"),
    "overrun": (None, "write behind a block"),
    "overrun_large": (None, "write behind a block"),
    "overrun_aligned": (None, "write behind a block"),
    "underrun_aligned": (None, "write before a block"),
    "overrun_realloc": (None, "write behind a block"),
    "header": (None, "write before its block"),
    "use_after_free": (None, "write to a freed block"),
    "use_after_free_late": (None, "write to a freed block"),
    "realloc_after_free": (None, "use of a freed block"),
    "size_after_free": (None, "use of a freed block"),
    "inside": (None, "into a block"),
    "wrong_size": (None, "another size"),
    "wrong_sdallocx": (None, "another size"),
    "free_of_new": (None, "free of a block from new"),
    "free_of_new_array": (None, "free of a block from new[]"),
    "delete_of_malloc": (None, "delete of a block from malloc"),
    "delete_of_new_array": (None, "delete of a block from new[]"),
    "delete_array_of_new": (None, "delete[] of a block from new"),
    "realloc_of_new": (None, "realloc of a block from new"),
    "wrong_delete_size": (None, "another size"),
}
# The size in the line, and whether it names another pointer, which is this much larger.
SIZES = {"double_free": 40, "double_free_cycle": 40, "double_free_large": 100000,
         "double_free_later": 40, "overrun_large": 200001, "overrun_aligned": 10,
         "underrun_aligned": 10}
SHIFTED = {"inside": 16}
# No mistake where functions are not distinguished.
MISMATCHES = [case for case in CASES if case.endswith("_of_new") or "delete_of" in case or
              case == "free_of_new_array"]
NEAR = 200  # bytes of code between a function's beginning and its call of malloc


def run(case, check, more=""):
    environment = dict(os.environ)
    keys = [environment.get("NEAR_CONF", ""), "malloc_check:1" if check else "", more]
    environment["NEAR_CONF"] = ",".join(k for k in keys if k)
    if PRELOAD:
        environment["LD_PRELOAD"] = PRELOAD
    return subprocess.run([PROGRAM, case], env=environment, capture_output=True, timeout=120,
                          universal_newlines=True)


class Misuse(unittest.TestCase):
    def stops(self, case, words, check):
        result = run(case, check)
        said = re.fullmatch(r"nearcpu-malloc: (.*): 0x([0-9a-f]+)(?: \((\d+) bytes, "
                            r"allocated by 0x([0-9a-f]+)(?:, freed by 0x([0-9a-f]+))?\))?\n",
                            result.stderr)
        about = re.fullmatch(r"0x([0-9a-f]+)(?: by 0x([0-9a-f]+) in 0x([0-9a-f]+))?\n",
                             result.stdout)
        self.assertTrue(said and about, (result.stdout, result.stderr, result.returncode))
        self.assertEqual(result.returncode, -signal.SIGABRT)
        self.assertIn(words, said[1])
        self.assertEqual(int(said[2], 16), int(about[1], 16) + SHIFTED.get(case, 0))
        if check and about[2] and case != "header":
            self.assertEqual(int(said[3]), SIZES.get(case, 100))
            self.assertIn(int(said[4], 16) - int(about[2], 16), range(1, NEAR))
            self.assertEqual(bool(said[5]), case != "inside")
            if said[5]:
                self.assertIn(int(said[5], 16) - int(about[3], 16), range(1, NEAR))

    def test_common_paths(self):
        for case, (words, _) in CASES.items():
            if words:
                with self.subTest(case):
                    self.stops(case, words, False)

    def test_check_mode(self):
        for case, (_, words) in CASES.items():
            if words:
                with self.subTest(case):
                    self.stops(case, words, True)

    def test_mismatches_can_be_let_go(self):
        for case in MISMATCHES:
            with self.subTest(case):
                result = run(case, True, "malloc_mismatch:0")
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_valid_program_is_left_alone(self):
        for check in (False, True):
            with self.subTest(check=check):
                result = run("valid", check)
                self.assertEqual((result.returncode, result.stdout, result.stderr),
                                 (0, "done\n", ""))


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    PROGRAM = sys.argv[1]
    PRELOAD = sys.argv[2] if len(sys.argv) == 3 else ""
    unittest.main(argv=sys.argv[:1])
