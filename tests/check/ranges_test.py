#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu check --ranges, and the offsets that it prints.

    ranges_test.py NEARCPU"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import seeds
from cpus import CPUS

TOOL = sys.argv.pop(1)
FORMS = {"static": ["-nostdlib", "-static"], "pie": ["-nostdlib", "-pie"], "object": ["-c"],
         "stripped": ["-nostdlib", "-static", "-s"]}


def check(*arguments):
    return subprocess.run([TOOL, "check", *arguments], stdin=subprocess.DEVNULL, timeout=100,
                          capture_output=True, universal_newlines=True)


class Ranges(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="nearcpu-ranges-")
        self.addCleanup(self.directory.cleanup)

    def build(self, cpu, name, options):
        seed = next(s for s in [seeds.SOUND, *seeds.SEEDS] if s.name == name)
        source = os.path.join(self.directory.name, "source.s")
        with open(source, "w") as file:
            file.write(seed.source(cpu))
        cpu.compile(source, source[:-1] + name, *options)
        return source[:-1] + name

    def test_offsets(self):
        """An offset leads to the signature in front of the abort handler, which is in the same
        section. A fault does not matter."""
        for cpu in (c for c in CPUS if c.compilers()):
            for form, options in FORMS.items():
                with self.subTest(cpu=cpu.name, form=form):
                    for name in (seeds.SOUND.name, "call"):
                        self.expect(cpu, self.build(cpu, name, options), form == "stripped")

    def expect(self, cpu, path, is_stripped):
        result = check("--ranges", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        sequence, = json.loads(check("--json", path).stdout)[0]["sequences"]
        start, end, offset = (sequence[key] for key in ("start", "end", "offset"))
        function = r"\?" if is_stripped else r"_start\+0x[0-9a-f]+"
        self.assertRegex(result.stdout, rf"^{start} {end} {offset} {function} {path}\n$")
        with open(path, "rb") as file:
            file.seek(int(offset, 16) + int(sequence["abort"], 16) - 4 - int(start, 16))
            self.assertEqual(file.read(4), cpu.signature.to_bytes(4, "little"))

    def test_usage(self):
        self.assertEqual(check("--ranges", "/dev/null").returncode, 1)
        for other in ("--quiet", "--verbose", "--json"):
            self.assertEqual(check("--ranges", other, TOOL).returncode, 2)


if __name__ == "__main__":
    unittest.main()
