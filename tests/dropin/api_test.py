#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ours answers as the C library's allocator does.

usage: api_test.py PROGRAM PRELOAD

PROGRAM is api.c. It runs without and with PRELOAD, in the mode of this process's NEAR_CONF,
and in others.
"""
import os
import resource
import subprocess
import sys
import tempfile
import unittest

PROGRAM = PRELOAD = ""
LIMIT = 1 << 27


def run(*arguments, conf=None, limit=0):
    """conf: None is without ours."""
    environment = dict(os.environ)
    if conf is not None:
        keys = [environment.get("NEAR_CONF", ""), conf]
        environment["NEAR_CONF"] = ",".join(k for k in keys if k)
        environment["LD_PRELOAD"] = PRELOAD

    def before():
        if limit:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    result = subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True,
                            timeout=300, universal_newlines=True, preexec_fn=before)
    if result.returncode or result.stderr:
        raise AssertionError(f"{conf}: {result.returncode} {result.stderr}")
    return result.stdout.splitlines()


class Api(unittest.TestCase):
    maxDiff = None

    def each_mode(self, *arguments, limit=0):
        theirs = run(*arguments, limit=limit)
        with tempfile.TemporaryDirectory() as directory:
            for conf in ("", "malloc_check:1", f"heap_profile:{directory}/p,heap_sample:64k"):
                with self.subTest(conf):
                    self.assertEqual(theirs, run(*arguments, conf=conf, limit=limit))
        return theirs

    def test_each_call(self):
        theirs = self.each_mode()
        self.assertGreater(len(theirs), 800)
        self.assertFalse([line for line in theirs if "lost" in line or "not zero" in line or
                          "not aligned" in line or "too small" in line])

    def test_memory_that_is_gone_comes_back(self):
        sizes = ["1048576", "100000", "2000", "64"]
        for first in (0, 3):
            theirs = self.each_mode(*sizes[first:], *sizes[:first], limit=LIMIT)
            self.assertEqual(len(theirs), 3 * len(sizes))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    PROGRAM, PRELOAD = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
