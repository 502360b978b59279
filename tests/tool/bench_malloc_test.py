#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench malloc: every pattern under every allocator, the figures made of them, and the
report of an allocator that is missing, crashes or returns memory twice.

usage: bench_malloc_test.py NEARCPU PATTERNS [TEST...]
"""
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys

import command
import terminal

PATTERNS = ""
SUITE = ["loop", "exchange", "larson", "small", "far", "mixed", "grow", "zeroed", "large",
         "fragment", "burst", "churn", "idle", "compiler", "interpreter", "cache", "flood",
         "flood-many", "flood-16", "flood-64", "stay", "usable"]
AT_REST = ["startup", "freed", "freed-threads", "waiting", "ended"]
OTHERS = {"jemalloc", "tcmalloc", "mimalloc"}
ALLOCATORS = ["glibc", "near", "near-off", "jemalloc", "tcmalloc", "mimalloc"]
MEASURES = {"cpu": lambda s: s["user_ns"] + s["system_ns"], "memory": lambda s: s["peak_bytes"],
            "p99": lambda s: max(s["p99_ns"], 1), "p999": lambda s: max(s["p999_ns"], 1)}

# Replaces an allocator: crashes, or returns each thousandth block twice.
FAKE = """
#include <stddef.h>
#include <string.h>
static char heap[64 << 20] __attribute__((aligned(64)));
static size_t used, calls;
void *malloc(size_t n)
{
    static char *last;
    if (CRASH)
        *(volatile int *)8 = 0;
    if (++calls % 1000 == 0 && last)
        return last;
    used += (n + 63) & ~(size_t)63;
    return last = heap + used - ((n + 63) & ~(size_t)63);
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return memset(malloc(n * size), 0, n * size); }
void *realloc(void *p, size_t n) { return p ? p : malloc(n); }
"""


def run(*args, **more):
    return command.run("bench", *args, **more)


class Case(command.Case):
    def report(self, *args, code=0, **more):
        result = run("malloc", "--json", "-", *args, **more)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout[:2000])
        return json.loads(result.stdout)

    def rows(self, report):
        return {row["name"]: row for table in report["tables"] for row in table["rows"]}


class Patterns(Case):
    # One run for both: it takes 12 seconds, of which those at rest take 8.
    def test_every_pattern_under_every_allocator_with_the_same_work(self):
        report = self.report("--threads", "1,3", "--iterations", "10", "--repeat", "1")
        seen = []
        for table in report["tables"]:
            seen.append((table["part"], table["threads"]))
            for row in table["rows"]:
                with self.subTest(table=seen[-1], row=row["name"]):
                    self.assertNotIn("failed", row)
                    if "missing" in row:
                        self.assertIn(row["name"], OTHERS)
            if table["part"] in SUITE:
                with self.subTest(table=seen[-1]):
                    self.assert_same_work(table)
        alone = {"idle": [1000], "compiler": [1], "interpreter": [1], "stay": [1], "usable": [1],
                 "startup": [1], "freed": [1], "freed-threads": [2], "waiting": [1000],
                 "ended": [1000]}
        self.assertEqual(seen, [(p, n) for p in ["tutorial", *AT_REST, *SUITE]
                                for n in alone.get(p, [1, 3])])

    def assert_same_work(self, table):
        calls = {s["ops"] for row in table["rows"] for s in row.get("samples", [])}
        self.assertEqual(len(calls), 1)
        # The loop's rounds are two calls each, and it does nothing else.
        if table["part"] == "loop":
            self.assertEqual(calls, {20})

    def test_the_tutorials_table(self):
        report = self.report("--only", "tutorial", "--threads", "2", "--iterations", "5000",
                             "--repeat", "2")
        rows = self.rows(report)
        self.assertEqual(set(rows), {*ALLOCATORS, "sharded", "thread", "null"})
        for row in rows.values():
            self.assertEqual({s["ops"] for s in row.get("samples", [{"ops": 10000}])}, {10000})

    def test_memory_at_rest(self):
        rows = self.rows(self.report("--only", "freed", "--iterations", "30", "--repeat", "1"))
        self.assertGreater(rows["near"]["samples"][0]["bytes"], 1000000)
        self.assertIn("near-thread", rows)

    def test_wrong_usage_of_the_program(self):
        for args in ([], ["nosuch", "1", "1"], ["loop", "0", "1"], ["loop", "1", "x"],
                     ["loop", "1", "1", "--heap", "nosuch"], ["loop", "1", "1", "--nosuch"]):
            result = subprocess.run([PATTERNS, *args], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn("usage:", result.stderr)


class Figures(Case):
    def test_ratios_and_means_are_those_of_the_samples(self):
        report = self.report("--only", "small,larson", "--threads", "1,2", "--iterations", "20000",
                             "--repeat", "3")
        ratios = {}
        for table in report["tables"]:
            rows = {row["name"]: row for row in table["rows"]}
            for name, row in rows.items():
                self.assertEqual("missing" in row, "samples" not in row)
                for key, of in MEASURES.items() if "samples" in row else ():
                    ratio = statistics.median(
                        of(a) / of(b) for a, b in zip(row["samples"], rows["glibc"]["samples"]))
                    self.assertAlmostEqual(row["ratio_to_first"][key]["median"], ratio, places=9)
                    for threads in (None, table["threads"]):
                        ratios.setdefault((name, threads, key), []).append(ratio)
        means = {(name, mean["threads"], key): mean[key]
                 for name, list_ in report["allocators"].items() for mean in list_
                 for key in MEASURES if mean["lines"]}
        self.assertEqual(set(means), set(ratios))
        for which, values in ratios.items():
            expected = math.exp(sum(map(math.log, values)) / len(values))
            self.assertAlmostEqual(means[which], expected, places=9)

    def test_all_fields_are_there(self):
        report = self.report("--only", "mixed", "--threads", "1", "--iterations", "500",
                             "--repeat", "2")
        row = self.rows(report)["near"]
        for key in ("cpu_ns_per_op", "wall_ns_per_op", "peak_bytes", "p99_ns", "p999_ns",
                    "ratio_to_first"):
            self.assertIn(key, row)
        self.assertEqual(len(row["samples"]), 2)
        for sample in row["samples"]:
            self.assertEqual(set(sample), {"ops", "wall_ns", "user_ns", "system_ns", "peak_bytes",
                                           "p99_ns", "p999_ns"})
            self.assertGreater(sample["peak_bytes"], 500000)
            self.assertGreaterEqual(sample["p999_ns"], sample["p99_ns"])

    def test_text_and_page(self):
        path = os.path.join(self.folder(), "page.html")
        result = run("malloc", "--only", "small,burst", "--threads", "1,2", "--iterations", "2000",
                     "--repeat", "2", "--html", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)
        text = " ".join(result.stdout.split())  # lines break by the figures
        for words in ("CPU time, user", "Memory at the peak", "99 of 100", "999 of 1,000"):
            self.assertIn(words, text)
        self.assertEqual(len([line for line in result.stdout.splitlines()
                              if line.startswith("burst  ")]), 8)
        self.assertEqual(result.stdout.count("geometric mean "), 4)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read().count('"part":"burst"'), 2)


class Trouble(Case):
    FEW = ["--only", "small", "--threads", "2", "--iterations", "2000", "--repeat", "2"]

    def fake(self, crash):
        folder = self.folder()
        with open(os.path.join(folder, "fake.c"), "w", encoding="ascii") as file:
            file.write(FAKE)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-fno-builtin", "-w",
                        f"-DCRASH={crash}", "-o", os.path.join(folder, "libmimalloc.so.2"),
                        os.path.join(folder, "fake.c")], check=True)
        return {"LD_LIBRARY_PATH": folder}

    def test_wrong_usage(self):
        for args, words in ((["malloc", "--only", "nosuch"], "unknown part 'nosuch'"),
                            (["malloc", "--only", "small,"], "unknown part ''"),
                            (["malloc", "--only"], "needs a value"),
                            (["list", "--only", "small"], "unknown part 'small'"),
                            (["--report", "malloc"], "--report has nothing of malloc")):
            result = run(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertIn(words, result.stderr)

    def test_list(self):
        result = run("--list", "malloc")
        for name in ["tutorial", *AT_REST, *SUITE]:
            self.assertRegex(result.stdout, rf"(?m)^malloc +{name} +\w")
        self.assertIn("near-off", result.stdout)

    def test_missing(self):
        folder = self.folder()
        for name in ("libjemalloc.so.2", "libmimalloc.so.2"):
            with open(os.path.join(folder, name), "wb"):
                pass
        rows = self.rows(self.report(*self.FEW, env={"LD_LIBRARY_PATH": folder}))
        self.assertEqual(rows["jemalloc"]["missing"],
                         "libjemalloc.so.2 cannot be loaded (package libjemalloc2)")
        self.assertIn("samples", rows["near"])
        result = run("malloc", *self.FEW, env={"LD_LIBRARY_PATH": folder})
        self.assertEqual(result.returncode, 0)
        self.assertIn("\njemalloc not measured: libjemalloc.so.2 cannot be loaded", result.stdout)

    def test_crash(self):
        env = self.fake(1)
        report = self.report(*self.FEW, code=1, env=env)
        rows = self.rows(report)
        self.assertIn("Segmentation fault", rows["mimalloc"]["failed"])
        self.assertEqual(len(rows["glibc"]["samples"]), 2)
        self.assertEqual(report["allocators"]["mimalloc"][0]["lines"], 0)
        result = run("malloc", *self.FEW, env=env)
        self.assertEqual(result.returncode, 1)
        self.assertIn("small, 2, mimalloc failed: Segmentation fault", result.stdout)
        self.assertIn("some rows failed", result.stderr)

    def test_memory_that_is_given_out_twice(self):
        rows = self.rows(self.report("--only", "small", "--threads", "1", "--iterations", "9000",
                                     "--repeat", "1", code=1, env=self.fake(0)))
        self.assertIn("content has changed", rows["mimalloc"]["failed"])
        self.assertIn("samples", rows["near"])

    def test_parts_that_are_not_there(self):
        folder = self.folder()
        os.mkdir(os.path.join(folder, "bin"))
        tool = shutil.copy(command.TOOL, os.path.join(folder, "bin"))
        os.makedirs(os.path.join(folder, "libexec/nearcpu"))
        shutil.copy(os.path.join(os.path.dirname(command.TOOL), "nearcpu-bench"),
                    os.path.join(folder, "libexec/nearcpu"))
        rows = self.rows(self.report(*self.FEW, code=1, tool=tool))
        self.assertIn("nearcpu-malloc-patterns was not found", rows["glibc"]["failed"])
        shutil.copy(PATTERNS, os.path.join(folder, "libexec/nearcpu"))
        rows = self.rows(self.report(*self.FEW, tool=tool))
        self.assertIn("samples", rows["glibc"])
        self.assertIn("libnearcpu-malloc.so was not found", rows["near"]["missing"])

    def test_interrupted(self):
        master, slave = terminal.open_terminal(self)
        tool = subprocess.Popen([command.TOOL, "bench", "malloc", "--only", "small,larson",
                                 "--threads", "1", "--iterations", "2000", "--repeat", "1000"],
                                stdout=subprocess.PIPE, stderr=slave, text=True)
        self.addCleanup(tool.kill)
        os.close(slave)
        seen = b""
        while b" 3/1000" not in seen:
            seen += os.read(master, 4096)
        tool.send_signal(signal.SIGINT)
        out, _ = tool.communicate(timeout=60)
        os.close(master)
        self.assertEqual(tool.returncode, 128 + signal.SIGINT)
        self.assertEqual(len([line for line in out.splitlines() if line.startswith("larson  ")]),
                         4, out)
        self.assertNotIn("\nsmall ", out)
        self.assertIn("geometric mean", out)


if __name__ == "__main__":
    PATTERNS = os.path.abspath(sys.argv.pop(2))
    command.main()
