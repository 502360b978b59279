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
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = PRELOAD = ""
RATE = 4096

HEADER = re.compile(r"heap profile: (\d+): (\d+) \[0(\d+): (\d+)\] @ heapz_v2/(\d+)")
ENTRY = re.compile(r"(\d+): (\d+) \[(\d+): (\d+)\] @((?: 0x[1-9a-f][0-9a-f]*)+)")
MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) [r-][w-][x-][ps] ([0-9a-f]{8,}) "
                     r"[0-9a-f]+:[0-9a-f]+ \d+ *(.*)")

# Blocks and bytes that each function allocates: all, and those in use at the signal and at the
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
    """As pprof does it: what `count` samples of this mean size stand for."""
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


def find_pprof():
    """Google's, as a program of its own or Go's; the one in Perl has no such option. Go compiles
    its at the first use on a machine, which takes minutes where other tests run."""
    for command in (["pprof"], ["go", "tool", "pprof"]):
        if shutil.which(command[0]):
            result = subprocess.run([*command, "-help"], capture_output=True, timeout=300,
                                    text=True, check=False)
            if "-sample_index" in result.stdout + result.stderr:
                return command
    return None


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

    def run_program(self, conf, *arguments, before=None, limit=None):
        """The program with these settings. `before`: called in its process, with its number."""
        conf = ",".join(k for k in [os.environ.get("NEAR_CONF", ""), conf] if k)
        environment = dict(os.environ, NEAR_CONF=conf)
        if PRELOAD:
            environment["LD_PRELOAD"] = PRELOAD

        def prepare():
            if before:
                before(os.getpid())
            if limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run([PROGRAM, *arguments], env=environment, capture_output=True,
                              timeout=120, text=True, preexec_fn=prepare)

    def message(self, conf, status=0):
        """The message of a program whose profile cannot be written; the program continues."""
        result = self.run_program(conf)
        self.assertEqual((result.returncode, result.stdout), (status, ""))
        return result.stderr.splitlines()

    def test_what_fails_is_said(self):
        usr2 = f"heap_signal:{int(signal.SIGUSR2)}"
        nowhere = os.path.join(self.directory.name, "no", "directory")
        for line in self.message(f"heap_profile:{nowhere},{usr2}"):
            self.assertRegex(line, r"^nearcpu-malloc: heap profile: cannot create "
                             + re.escape(nowhere) + r"\.\d+\.\d\.heap: no such directory$")

    def test_a_full_disk_is_said(self):
        prefix = os.path.join(self.directory.name, "full")
        result = self.run_program(f"heap_profile:{prefix}", "keep", limit=100)
        self.assertEqual(result.returncode, 0)
        self.assertRegex(result.stderr, r"^nearcpu-malloc: heap profile: not written whole, and "
                         r"removed: .*"
                         r"\.0\.heap: no space\n$")
        self.assertEqual(glob.glob(prefix + "*"), [])

    def test_a_name_that_is_taken_is_left_alone(self):
        """By a link to a file of the user's, one to nowhere, and a file: the fourth is free."""
        prefix = os.path.join(self.directory.name, "taken")
        victim = os.path.join(self.directory.name, "victim")
        nowhere = os.path.join(self.directory.name, "nowhere")
        with open(victim, "w", encoding="utf-8") as file:
            file.write("precious")

        def plant(pid):
            os.symlink(victim, f"{prefix}.{pid}.0.heap")
            os.symlink(nowhere, f"{prefix}.{pid}.1.heap")
            os.link(victim, f"{prefix}.{pid}.2.heap")
            os.umask(0)

        result = self.run_program(f"heap_profile:{prefix}", "keep", before=plant)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        with open(victim, encoding="utf-8") as file:
            self.assertEqual(file.read(), "precious")
        self.assertFalse(os.path.exists(nowhere))
        found = glob.glob(prefix + ".*.3.heap")
        self.assertEqual(len(found), 1)
        self.assertGreater(len(Profile(found[0]).mappings), 1)
        self.assertEqual(os.stat(found[0]).st_mode & 0o7777, 0o600)

    def test_runs_sample_different_blocks(self):
        """Hundreds of samples at each of ten sites: that all sums of three runs are the same does
        not happen by chance."""
        found = []
        for n in range(3):
            prefix = os.path.join(self.directory.name, f"run{n}")
            self.run_program(f"heap_profile:{prefix},heap_sample:{RATE},"
                             f"heap_signal:{int(signal.SIGUSR2)}")
            profiles = [Profile(p) for p in glob.glob(prefix + ".*")]
            self.assertEqual(len(profiles), 3)
            found.append(sorted(p.totals for p in profiles))
        self.assertFalse(found[0] == found[1] == found[2], found[0])

    def test_a_child_samples_other_blocks_than_its_parent(self):
        prefix = os.path.join(self.directory.name, "fork")
        result = self.run_program(f"heap_profile:{prefix},heap_sample:{RATE}", "fork")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_a_sampled_block_is_as_large_as_it_says(self):
        for rate in (1, 64):
            prefix = os.path.join(self.directory.name, "fill")
            result = self.run_program(f"heap_profile:{prefix},heap_sample:{rate}", "fill")
            self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_pprof_offers_all_columns(self):
        """Also where nothing was freed, so that the sums are the same."""
        pprof = find_pprof()
        if not pprof:
            self.skipTest("no pprof that runs")
        prefix = os.path.join(self.directory.name, "columns")
        self.run_program(f"heap_profile:{prefix},heap_sample:{RATE}", "keep")
        path, = glob.glob(prefix + ".*")
        totals = Profile(path).totals
        self.assertEqual(totals[:2], totals[2:])
        sums = {}
        for column in ("alloc_space", "alloc_objects", "inuse_space", "inuse_objects"):
            result = subprocess.run([*pprof, f"-sample_index={column}", "-unit=B", "-top", PROGRAM,
                                     path], capture_output=True, timeout=120, text=True)
            self.assertEqual(result.returncode, 0, result.stderr)
            line = next(l for l in result.stdout.splitlines() if "site_small" in l)
            sums[column] = float(re.match(r" *([\d.]+)", line)[1])
        self.near(sums["alloc_space"], 20000, 100, "alloc_space")
        self.near(sums["alloc_objects"] * 100, 20000, 100, "alloc_objects")
        self.assertEqual(sums["alloc_space"], sums["inuse_space"])
        self.assertEqual(sums["alloc_objects"], sums["inuse_objects"])

    def test_a_signal_that_cannot_be_caught_is_said(self):
        conf = f"heap_profile:{self.directory.name}/x,heap_signal:{int(signal.SIGKILL)}"
        lines = self.message(conf, -signal.SIGUSR2)
        self.assertIn("nearcpu-malloc: heap profile: no handler can be had for the signal that is "
                      "set", lines)

    def near(self, value, count, size, what):
        """Five times the deviation of `count` blocks."""
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
