#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace on files that are something else, damaged, cut off, or anything.

usage: trace_damage_test.py NEARCPU TRACE_FILE FUZZ_TRACE [TEST...]
"""
import os
import re
import struct
import subprocess
import sys
import unittest

import command
import trace_show_test
from command import run
from trace_show_test import TraceCase

FUZZ = ""
ROUNDS = 150
PAGE = 4096


class Damage(TraceCase):
    def setUp(self):
        super().setUp()
        self.file = self.make("t", "basic")
        with open(self.file, "rb") as file:
            self.content = file.read()
        self.ring = self.find_ring()
        self.session = self.content.index(struct.pack("<IIII", 1, 0, 1, 2) + b"\2\0\0\0")

    def find_ring(self, after=0):
        """The first ring with a mask."""
        wanted = struct.pack("<Q", (256 << 10) - 1)
        return self.content.index(wanted, after) - 8 - PAGE + 128

    def change(self, at, data):
        with open(self.file, "r+b") as file:
            file.seek(at)
            file.write(data)

    def refused(self, *words, file=None):
        for sub in ("show", "list", "stat"):
            result = run("trace", sub, file or self.file)
            self.expect(result, 1, *words)
            self.assertEqual(result.stdout, "")

    def recover(self, *options):
        return self.trace("recover", *options, self.file)

    def whole(self, text):
        return int(re.match(r"(\d+) events are whole", text)[1])

    def test_other_files(self):
        os.mkfifo(self.path("pipe"))
        open(self.path("empty"), "w").close()
        self.refused("cannot open", "No such file", file=self.path("none"))
        self.refused("no trace", file=self.path("pipe"))
        self.refused("no trace", "near_trace(3)", file=self.path("empty"))
        self.refused("no trace", file="/dev/zero")
        self.refused("no trace", file="/proc/self/exe")
        os.mkdir(self.path("folder"))
        self.refused("no trace files", file=self.path("folder"))
        if os.geteuid():
            os.chmod(self.file, 0)
            self.refused("Permission denied")
            self.refused("no trace files", "may not be read", file=self.dir)

    def test_versions(self):
        self.change(self.session, b"\2")
        self.refused("another version", "of that version")
        self.change(self.session, b"\1")
        self.change(8, b"\7")
        self.refused("another version", "of that version")
        self.change(0, self.content[:8][::-1])
        self.refused("other byte order")

    def test_not_made(self):
        self.change(self.session, bytes(4))
        self.refused("not made yet")
        self.refused("no trace files", file=os.path.dirname(self.file))
        self.make("u", "basic")
        self.expect(run("trace", "show", os.path.dirname(self.file)), 0)

    def test_whole(self):
        text = self.recover()
        self.assertEqual(self.whole(text), 22)
        self.assertEqual(set(re.findall(r"^(\d+) (?!events are whole)", text, re.M)), {"0"})

    def test_truncated(self):
        os.truncate(self.file, self.ring + PAGE + 200)
        self.refused("truncated", "recover")
        text = self.recover()
        self.assertGreater(self.whole(text), 0)
        self.assertRegex(text, r"\n[1-9]\d* bytes are missing")
        self.assertIn("\n2 rings are missing", text)
        for size in (5000, 300, 256, 40, 1, 0):
            os.truncate(self.file, size)
            self.expect(run("trace", "recover", self.file), 0)

    def test_header(self):
        """Without header and directory, all events are found by their form."""
        self.change(0, bytes(2048))
        self.refused("no trace")
        text = self.recover()
        self.assertEqual(self.whole(text), 22)
        self.assertIn("the header of the file is damaged", text)
        self.change(0, self.content[:2048])
        self.change(16, b"\xff" * 8)
        self.assertEqual(self.whole(self.recover()), 22)

    def test_session(self):
        self.change(self.session, b"\xff" * 64)
        self.refused("another version")
        text = self.recover()
        self.assertEqual(self.whole(text), 22)
        self.assertIn("times are not in seconds", text)

    def test_date(self):
        """Of three moments one is damaged: the date is that of the others."""
        begin = self.content.index(struct.pack("<QQQ", 10 ** 6, 5 * 10 ** 9, 17 * 10 ** 17))
        self.assertIn("2023-11-1", self.trace("show", self.file).splitlines()[0])
        for damage in (0, (1 << 64) - 1, 8 * 10 ** 18, 1 << 62):
            if damage == 1 << 62: # a date, but the two later moments agree on another one
                self.change(begin + 64, self.content[begin + 32:begin + 64])
            self.change(begin + 16, struct.pack("<Q", damage))
            text = self.trace("show", self.file)
            self.assertIn("2023-11-1", text.splitlines()[0])
            self.assertIn("\n# the date of the session is damaged", text)
        self.change(begin + 16, struct.pack("<Q", 17 * 10 ** 17))
        self.change(begin + 48, struct.pack("<Q", 1 << 62))
        text = self.trace("show", self.file)
        self.assertIn("2023-11-1", text.splitlines()[0])
        self.assertNotIn("date", text)

    def test_points(self):
        points = self.content.index(b"app:begin") - 24
        self.change(points, b"\xff" * 8)
        self.refused("tracepoints is damaged")
        text = self.recover()
        self.assertEqual(self.whole(text), 22)
        self.assertIn("\n10 events are of tracepoints that the file does not have", text)
        self.assertIn("the list of tracepoints is damaged", text)

    def test_odd_names(self):
        """Tracepoints that no reader takes cost no other one."""
        self.file = self.make("odd", "odd")
        for sub in ("show", "list", "stat", "recover"):
            result = run("trace", sub, self.file)
            self.assertEqual(result.returncode, 0 if sub == "recover" else 1, sub)
            for name, number in (("shop:café", 1), ("shop:order", 2)):
                self.assertIn(f'tracepoint "{name}" has a name or fields that cannot be read; its '
                              f'events are of unknown:id_{number}\n', result.stderr)
            if sub == "show":
                for words in ("shop:sale kind=shop::NEW\n", "unknown:id_1 words=[0x1]\n",
                              "\n# 2 tracepoints have names or fields that cannot be read"):
                    self.assertIn(words, result.stdout)
        self.assertEqual(self.whole(result.stdout), 3)

    def test_records(self):
        """What is between a damaged head and the next record is lost, and no more."""
        data = self.ring + PAGE
        first, = struct.unpack_from("<Q", self.content, data)
        second = data + 8 * (first >> 52 & 63)
        for damage in (b"\xff" * 8, bytes(8), b"\0\0\0\0\0\0\x10\0"):
            self.change(second, damage)
            result = run("trace", "show", self.file)
            self.expect(result, 1, "damaged")
            self.assertIn("\n# 24 bytes are damaged", result.stdout)
            self.assertEqual(self.whole(self.recover()), 21)
        self.change(second, self.content[second:second + 8])
        self.change(second + 8, b"\xff" * 8)  # its time
        self.assertEqual(self.whole(self.recover()), 21)

    def test_dropped(self):
        """What a snapshot dropped, as it was overwritten, is no damage; also without a clock."""
        for clock in (1, 0):
            self.file = self.make(f"snapshot-{clock}", "many", 20, 256, 0, clock)
            with open(self.file, "rb") as file:
                self.content = file.read()
            at = self.find_ring() + PAGE
            self.change(at, struct.pack("<Q", (1 << 52) - 1))
            text = self.trace("show", self.file)
            self.assertEqual(sum(line[0] != "#" for line in text.splitlines()), 9)
            self.assertIn(f"\n# {11 * 24} bytes were overwritten while they were read", text)

    def test_payload(self):
        at = self.content.index(b"a \"b\"\\,") - 2
        self.change(at, b"\xf0\xff")
        text = self.recover()
        self.assertEqual(self.whole(text), 21)
        self.assertIn("\n1 events were dropped: their payloads are damaged", text)

    def test_times_that_step_back(self):
        data = self.ring + PAGE
        first, = struct.unpack_from("<Q", self.content, data)
        second = data + 8 * (first >> 52 & 63)
        self.change(second + 8, struct.pack("<Q", 1000000))
        result = self.trace("show", self.file)
        self.assertIn("\n# 1 times stepped back", result)
        times = [line.split()[0] for line in result.splitlines() if line[0] != "#"]
        self.assertEqual(times, sorted(times))

    def test_position(self):
        for position in (0, 8, 12345, 2**63, 2**64 - 8):
            self.change(self.ring + PAGE - 128, struct.pack("<Q", position))
            self.recover()

    def test_warnings(self):
        clock = "the kernel does not use the counter as its clock"
        for at, words in ((24, clock), (36, "on a disk")):
            self.assertNotIn("warning", self.trace("show", self.file))
            self.change(self.session + at, b"\1")
            for sub in ("show", "recover"):
                self.assertRegex(self.trace(sub, self.file), rf"\n(# )?warning: {words}")
            self.change(self.session + at, b"\0")
        self.change(self.session + 36, b"\1")
        self.assertRegex(self.trace("list", self.file), r"\nwarning +on a disk")

    def test_fuzzed(self):
        pages = len(self.content) // PAGE + 1
        seed = struct.pack("<I", pages)
        for i in range(pages):
            page = self.content[i * PAGE:(i + 1) * PAGE]
            if page.strip(b"\0"):
                seed += struct.pack("<I", i) + page.ljust(PAGE, b"\0")
        result = subprocess.run([FUZZ, str(ROUNDS), self.write("seed", seed)],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    trace_show_test.MAKER, FUZZ = sys.argv.pop(2), sys.argv.pop(2)
    command.main()
