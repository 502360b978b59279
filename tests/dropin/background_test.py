#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The thread that gives memory back, in programs with several threads.

usage: background_test.py PROGRAM LIBRARY

PROGRAM is background.c, LIBRARY the drop-in malloc.
"""
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAM = LIBRARY = ""


class Background(unittest.TestCase):
    def check(self, case, setting="", **more):
        conf = ",".join(filter(None, (os.environ.get("NEAR_CONF", ""), setting)))
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, NEAR_CONF=conf, **more)
        result = subprocess.run([PROGRAM, *case.split()], env=environment, capture_output=True,
                                text=True, timeout=50)
        if result.returncode == 77:
            self.skipTest("the system makes no pid namespace")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_idle_memory_is_given_back(self):
        self.check("idle")

    def test_a_single_thread_stays_alone(self):
        self.check("single")

    def test_it_can_be_switched_off(self):
        self.check("none", "malloc_background:0")

    def test_a_child_of_fork_has_none(self):
        self.check("child")

    def test_a_child_of_fork_with_threads_gives_most_back(self):
        self.check("daemon")

    def test_a_copy_of_the_process_has_none(self):
        self.check("copy")

    def test_nor_has_a_copy_with_the_same_number(self):
        self.check("first copy", "malloc_background:1")

    def test_a_copy_writes_no_statistics(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "statistics")
            for case in ("copy_exits", "first copy_exits"):
                with self.subTest(case):
                    self.check(case, "malloc_stats:" + file, STATISTICS=file)
                    os.unlink(file)

    def test_it_takes_no_signals(self):
        self.check("signals", "malloc_background:auto")

    def test_it_ends_for_what_requires_one_thread(self):
        self.check("single_again")

    def test_the_process_ends_with_its_last_thread(self):
        self.check("without_main")

    def test_the_process_ends_without_the_one_it_always_has(self):
        self.check("without_main", "malloc_background:1")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    PROGRAM, LIBRARY = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
