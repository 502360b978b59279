#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libnearcpu-alloc in programs that have another malloc, with and without the drop-in preloaded.

usage: own_test.py KIND PROGRAM LIBRARY DROPIN

PROGRAM is own.c. KIND: linked, or a sanitizer (thread, address), with the shared LIBRARY; opened:
PROGRAM opens it by dlopen. DROPIN is the shared libnearcpu-malloc.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

KIND = PROGRAM = LIBRARY = DROPIN = ""
DONE = (0, "done\n", "")


def run(*arguments, preload="", conf=""):
    environment = dict(os.environ, LD_PRELOAD=preload)
    keys = [environment.get("NEAR_CONF", ""), conf]
    environment["NEAR_CONF"] = ",".join(k for k in keys if k)
    result = subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True, text=True,
                            timeout=50)
    return result.returncode, result.stdout, result.stderr


def own(*arguments, **options):
    result = run(*([LIBRARY] if KIND == "opened" else arguments), **options)
    if KIND == "address" and "does not work under ptrace" in result[2]:
        raise unittest.SkipTest("LeakSanitizer needs ptrace, which is refused here")
    return result


class Own(unittest.TestCase):
    def stops(self, result, words):
        self.assertEqual((result[0], result[1]), (-6, ""))
        self.assertRegex(result[2], f"^nearcpu-malloc: {words}: 0x[0-9a-f]+\n$")

    def test_besides_the_system_malloc(self):
        self.assertEqual(own(), DONE)

    def test_checked(self):
        self.assertEqual(own(conf="malloc_check:1"), DONE)

    def test_besides_the_dropin(self):
        if KIND in ("thread", "address"):
            self.skipTest("the sanitizer's malloc stays")
        for conf in ("", "malloc_check:1", "malloc_background:1"):
            self.assertEqual(own(preload=DROPIN, conf=conf), DONE)

    def test_a_block_of_the_other_heap(self):
        if KIND != "linked":
            self.skipTest("one kind of linking is enough")
        self.stops(run("near_free"), "free of a pointer that is not from here")
        self.stops(run("near_free", preload=DROPIN), "free of a pointer that is not from here")
        self.stops(run("free", preload=DROPIN), "free of a pointer that is not from here")

    def test_each_heap_has_its_statistics_and_profile(self):
        if KIND != "linked":
            self.skipTest("one kind of linking is enough")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "stats")
            conf = f"malloc_stats:{path},heap_profile:{folder}/heap,heap_sample:1"
            self.assertEqual(run(preload=DROPIN, conf=conf), DONE)
            large = []
            for name in (path, f"{path}.alloc"):
                with open(name, encoding="ascii") as file:
                    large.append(json.load(file)["in_use"])
            self.assertEqual(large[1], 0)  # all that the program had of near_malloc
            self.assertGreater(large[0], 0)  # the stream's buffer, at least
            profiles = [name for name in os.listdir(folder) if re.fullmatch(r"heap\..*", name)]
            self.assertEqual(len(profiles), 2)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    KIND, PROGRAM, LIBRARY, DROPIN = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
