#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The heap profile: its format, its sums, its stacks.

usage: profile_test.py PROGRAM [PRELOAD]

PROGRAM is profiled.c.
"""
import glob
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = PRELOAD = ""
RATE = 4096

HEADER = re.compile(r"heap profile: (\d+): (\d+) \[(\d+): (\d+)\] @ heapz_v2/(\d+)")
ENTRY = re.compile(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[1-9a-f][0-9a-f]*)+)")
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) [r-][w-][x-][ps] ([0-9a-f]{8,}) "
                     r"[0-9a-f]+:[0-9a-f]+ \d+ *(.*)")

# Blocks and bytes that each function asks for: all, and those in use at the signal and at the
# end. None: more than one size.
KEPT = {"site_small": (20000, 100), "site_large": (10, 1 << 20), "site_aligned": (4000, 512),
        "site_long_lived": (15000, 160), "site_thread": (16000, 200)}
FREED = {"site_short_lived": (15000, 160), "site_freed_later": (5000, 300)}
GROWN_IN_USE, GROWN_IN_ALL = 200 * 16000, 200 * 31000


class Profile:
    """A file, read strictly."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        head, entries, rest = "", [], text.split("\n")
        if rest.pop() != "":
            raise AssertionError("no end of line at the end")
        head = HEADER.fullmatch(rest.pop(0))
        while rest[0]:
            found = ENTRY.fullmatch(rest.pop(0))
            numbers = [int(n) for n in found.groups()[:4]]
            entries.append((numbers, [int(a, 16) for a in found[5].split()]))
        if rest[:2] != ["", "MAPPED_LIBRARIES:"]:
            raise AssertionError(rest[:2])
        self.rate = int(head[5])
        self.totals = [int(n) for n in head.groups()[:4]]
        self.entries = entries
        self.mappings = [MAPPING.fullmatch(line) for line in rest[2:]]
        if not all(self.mappings):
            raise AssertionError("a line that is no mapping")

    def place(self, address):
        """(file, address in it) by the mappings."""
        for m in self.mappings:
            if int(m[1], 16) <= address < int(m[2], 16):
                base = next(int(b[1], 16) for b in self.mappings if b[4] == m[4])
                return m[4], address - base
        raise AssertionError(f"{address:#x} is mapped nowhere")


def names_of(profile):
    """The functions of PROGRAM on each stack, by the symbols of the file."""
    program = os.path.realpath(PROGRAM)
    wanted = {}
    for _, stack in profile.entries:
        for address in stack:
            file, offset = profile.place(address - 1)
            if file == program:
                wanted[address] = offset
    header = subprocess.run(["readelf", "-h", program], capture_output=True, check=True, text=True)
    if "EXEC" in header.stdout:
        wanted = {a: a - 1 for a in wanted}
    lines = subprocess.run(["addr2line", "-f", "-e", program, *[hex(o) for o in wanted.values()]],
                           capture_output=True, check=True, text=True).stdout.split("\n")
    return dict(zip(wanted, lines[::2]))


def estimate(count, size, rate):
    """As pprof does it: what so many samples of this mean size stand for."""
    if count == 0:
        return 0, 0
    scale = 1 / (1 - math.exp(-size / count / rate))
    return count * scale, size * scale


def sums_by_site(profile):
    """site: estimated [blocks in use, bytes in use, blocks, bytes], by the innermost site."""
    names, sums = names_of(profile), {}
    for (used, used_bytes, all_, all_bytes), stack in profile.entries:
        site = next((names[a] for a in stack if names.get(a, "").startswith("site_")), None)
        if site:
            had = sums.setdefault(site, [0.0] * 4)
            new = estimate(used, used_bytes, RATE) + estimate(all_, all_bytes, RATE)
            sums[site] = [a + b for a, b in zip(had, new)]
    return sums


class Test(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        prefix = os.path.join(cls.directory.name, "p")
        environment = dict(os.environ)
        keys = [environment.get("NEAR_CONF", ""), f"heap_profile:{prefix}",
                f"heap_sample:{RATE}", f"heap_signal:{int(signal.SIGUSR2)}"]
        environment["NEAR_CONF"] = ",".join(k for k in keys if k)
        if PRELOAD:
            environment["LD_PRELOAD"] = PRELOAD
        result = subprocess.run([PROGRAM], env=environment, capture_output=True, timeout=120,
                                text=True)
        if result.returncode or result.stdout or result.stderr:
            raise AssertionError((result.returncode, result.stdout, result.stderr))
        cls.paths = sorted(glob.glob(prefix + ".*"))
        cls.prefix = prefix

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def said(self, conf, status=0):
        """What a program says whose profile cannot be had; it goes on to its own end."""
        environment = dict(os.environ, NEAR_CONF=conf)
        if PRELOAD:
            environment["LD_PRELOAD"] = PRELOAD
        result = subprocess.run([PROGRAM], env=environment, capture_output=True, timeout=120,
                                text=True)
        self.assertEqual((result.returncode, result.stdout), (status, ""))
        return result.stderr.splitlines()

    def test_what_fails_is_said(self):
        usr2 = f"heap_signal:{int(signal.SIGUSR2)}"
        nowhere = os.path.join(self.directory.name, "no", "directory")
        for line in self.said(f"heap_profile:{nowhere},{usr2}"):
            self.assertRegex(line, r"^nearcpu-malloc: heap profile: cannot create "
                             + re.escape(nowhere) + r"\.\d+\.\d\.heap$")

    def test_a_full_disk_is_said(self):
        usr2 = f"heap_signal:{int(signal.SIGUSR2)}"
        prefix = os.path.join(self.directory.name, "full")
        program = ("import os, sys; os.symlink('/dev/full', f'{sys.argv[1]}.{os.getpid()}.0.heap');"
                   "os.execv(sys.argv[2], sys.argv[2:])")
        environment = dict(os.environ, NEAR_CONF=f"heap_profile:{prefix},{usr2}")
        if PRELOAD:
            environment["LD_PRELOAD"] = PRELOAD
        result = subprocess.run([sys.executable, "-c", program, prefix, PROGRAM], env=environment,
                                capture_output=True, timeout=120, text=True)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^nearcpu-malloc: heap profile: not written whole: .*"
                         r"\.0\.heap\n$")

    def test_a_signal_that_cannot_be_caught_is_said(self):
        lines = self.said(f"heap_profile:{self.directory.name}/x,heap_signal:{int(signal.SIGKILL)}",
                          -signal.SIGUSR2)
        self.assertIn("nearcpu-malloc: heap profile: no handler can be had for the signal that is "
                      "set", lines)

    def near(self, value, count, size, what):
        """Five times the deviation that so many blocks have."""
        chance = 1 - math.exp(-size / RATE)
        allowed = 5 * math.sqrt(count * (1 - chance) / chance) * size + 1
        self.assertLess(abs(value - count * size), allowed, (what, value, count * size))

    def both(self):
        """At the signal, at the end, and of the child that freed all."""
        pids = [p.split(".")[-3] for p in self.paths]
        ends = [p for p, pid in zip(self.paths, pids) if pids.count(pid) == 2]
        child = [p for p in self.paths if p not in ends]
        self.assertEqual((len(ends), len(child)), (2, 1), self.paths)
        for path in self.paths:
            self.assertRegex(path, re.escape(self.prefix) + r"\.\d+\.\d\.heap$")
        return [Profile(p) for p in ends + child]

    def test_header_is_the_sum(self):
        for profile in self.both():
            self.assertEqual(profile.rate, RATE)
            self.assertEqual(profile.totals,
                             [sum(e[0][i] for e in profile.entries) for i in range(4)])
            for (used, used_bytes, all_, all_bytes), _ in profile.entries:
                self.assertTrue(used <= all_ and used_bytes <= all_bytes)

    def test_sums(self):
        at_signal, at_end, child = self.both()
        for profile, freed in ((at_signal, False), (at_end, True)):
            sums = sums_by_site(profile)
            for site, (count, size) in KEPT.items():
                self.near(sums[site][1], count, size, site)
                self.near(sums[site][3], count, size, site)
            for site, (count, size) in FREED.items():
                self.near(sums[site][3], count, size, site)
            self.assertEqual(sums["site_short_lived"][1], 0)
            if freed:
                self.assertEqual(sums["site_freed_later"][1], 0)
            else:
                self.near(sums["site_freed_later"][1], *FREED["site_freed_later"], "later")
            self.assertLess(abs(sums["site_grown"][1] / GROWN_IN_USE - 1), .2)
            self.assertLess(abs(sums["site_grown"][3] / GROWN_IN_ALL - 1), .2)
        for site, sums in sums_by_site(child).items():
            self.assertEqual(sums[:2], [0, 0], site)

    def test_stacks(self):
        """Innermost first: the site, and main above it."""
        profile = self.both()[1]
        names = names_of(profile)
        for _, stack in profile.entries:
            ours = [names[a] for a in stack if a in names]
            if not ours or not ours[0].startswith("site_"):
                continue
            self.assertIn(stack[0], names)
            if ours[0] == "site_short_lived":
                self.assertEqual(ours[1], "site_long_lived")
            if ours[0] != "site_thread":
                self.assertIn("main", ours)


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(__doc__)
    PROGRAM = sys.argv[1]
    PRELOAD = sys.argv[2] if len(sys.argv) == 3 else ""
    unittest.main(argv=sys.argv[:1])
