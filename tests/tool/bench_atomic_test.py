#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench atomic: every case through every library, the figures made of them, and the
report of a library that is missing, is another one, loses updates or tears values.

usage: bench_atomic_test.py NEARCPU [TEST...]
"""
import json
import math
import os
import re
import shutil
import statistics
import subprocess

import bench_wait_test as wait
import command

ROWS = wait.ROWS["atomic"]
FEW = ["--quick", "--repeat", "1"]
# The goals of the library: part, threads, at least how many times as fast.
GOALS = {**{(f"{size}-{op}", 1): 2.2 for size in (24, 64) for op in ("load", "store", "exchange")},
         ("16-load", 1): 1.5, ("16-store", 1): 1.5,
         **{(f"{size}-{op}", 2): times for size in (24, 64)
            for op, times in (("store", 4), ("exchange", 4), ("cas", 3))},
         ("24-mostly", 2): 10,
         ("24-list", 1): 1.5, ("24-list", 2): 2.8, ("24-list", 4): 2.8}

# Takes the place of a library: right, but now and then a change is lost, or a value is torn.
FAKE = """
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static unsigned long calls;
static bool bad(void) { return ++calls % EVERY == 0; }
static void copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, TEAR && bad() ? n / 2 : n);
}
static void change(void *to, const void *from, size_t n)
{
    if (!LOSE || !bad())
        memcpy(to, from, n);
}
#define LOCKED(...) pthread_mutex_lock(&m); __VA_ARGS__; pthread_mutex_unlock(&m)
void load(size_t n, const void *p, void *out, int o) __asm__("__atomic_load");
void load(size_t n, const void *p, void *out, int o) { LOCKED(copy(out, p, n)); }
void store(size_t n, void *p, const void *v, int o) __asm__("__atomic_store");
void store(size_t n, void *p, const void *v, int o) { LOCKED(change(p, v, n)); }
void swap(size_t n, void *p, const void *v, void *out, int o) __asm__("__atomic_exchange");
void swap(size_t n, void *p, const void *v, void *out, int o)
{
    LOCKED(memcpy(out, p, n); change(p, v, n));
}
bool cas(size_t n, void *p, void *e, const void *v, int o, int f)
    __asm__("__atomic_compare_exchange");
bool cas(size_t n, void *p, void *e, const void *v, int o, int f)
{
    bool same;
    LOCKED(same = !memcmp(p, e, n); if (same) change(p, v, n); else memcpy(e, p, n));
    return same;
}
#define SIZED(n, T) \\
    T load_##n(const void *p, int o) __asm__("__atomic_load_" #n); \\
    T load_##n(const void *p, int o) { T t; load(n, p, &t, o); return t; } \\
    void store_##n(void *p, T v, int o) __asm__("__atomic_store_" #n); \\
    void store_##n(void *p, T v, int o) { store(n, p, &v, o); } \\
    T swap_##n(void *p, T v, int o) __asm__("__atomic_exchange_" #n); \\
    T swap_##n(void *p, T v, int o) { T t; swap(n, p, &v, &t, o); return t; } \\
    bool cas_##n(void *p, void *e, T v, int o, int f) __asm__("__atomic_compare_exchange_" #n); \\
    bool cas_##n(void *p, void *e, T v, int o, int f) { return cas(n, p, e, &v, o, f); } \\
    T add_##n(void *p, T v, int o) __asm__("__atomic_fetch_add_" #n); \\
    T add_##n(void *p, T v, int o) \\
    { \\
        T t, sum; \\
        LOCKED(memcpy(&t, p, n); sum = t + v; change(p, &sum, n)); \\
        return t; \\
    }
SIZED(1, uint8_t) SIZED(4, uint32_t) SIZED(8, uint64_t) SIZED(16, unsigned __int128)
"""


def measure(row, case, threads="2", ms="2", **env):
    result = subprocess.run([wait.program("atomic"), row, threads, ms, "--case", case, "--rate",
                             "1"], capture_output=True, text=True, check=False, timeout=60,
                            env={**os.environ, **env})
    return result.returncode, json.loads(result.stdout) if result.stdout else result.stderr


def parts():
    listed = wait.run("--list", "atomic").stdout
    return re.findall(r"(?m)^atomic +(\S+) +\w", listed)


class Cases(wait.Case):
    def test_every_case_of_every_library(self):
        self.assertEqual(len(parts()), 84)
        self.assertEqual(len(set(parts())), 84)
        # GCC's gives torn values where a compare-exchange of 12 bytes fails.
        alone = {"12-cas", *(part for part in parts() if part.endswith("-alone"))}
        for part in parts():
            for row in ROWS:
                with self.subTest(part=part, row=row):
                    code, answer = measure(row, part, "1" if part in alone else "2")
                    self.assertEqual(code, 0)
                    self.assertNotIn("error", answer)
                    self.assertIn("ops", answer)

    def test_tables(self):
        report = self.report("atomic", "--only", "24-load,24-cas-apart,16-list,24-cas-alone", *FEW)
        self.assertEqual([(t["part"], t["threads"]) for t in report["tables"]],
                         [("24-load", 1), ("24-load", 2), ("24-cas-apart", 2), ("16-list", 1),
                          ("16-list", 2), ("16-list", 4), ("24-cas-alone", 1)])
        for table in report["tables"]:
            self.assertEqual([r["name"] for r in table["rows"]], ROWS)
            self.assertEqual(table["operation"], "an operation")
            for row in table["rows"]:
                self.assertEqual(set(row["samples"][0]), wait.SAMPLE)
                self.assertEqual(row["window_ms"], 20)

    def test_ratios_and_means_are_those_of_the_samples(self):
        report = self.report("atomic", "--only", "24-store,3-load", "--threads", "2", "--quick",
                             "--repeat", "3")
        ratios = {name: [] for name in ROWS}
        for table in report["tables"]:
            per_op = {row["name"]: [s["wall_ns"] / s["ops"] for s in row["samples"]]
                      for row in table["rows"]}
            for row in table["rows"]:
                ratio = statistics.median(a / b for a, b in
                                          zip(per_op[row["name"]], per_op["gcc"]))
                self.assertAlmostEqual(row["ratio_to_first"]["wall"]["median"], ratio, places=9)
                ratios[row["name"]].append(ratio)
                if row["name"] == "near-atomic":
                    for figure in table["figures"]:
                        self.assertAlmostEqual(figure["value"], ratio, places=9)
                        self.assertEqual(figure["reached"], ratio <= figure["at_most"])
        for name, means in report["atomics"].items():
            self.assertEqual(means[0]["lines"], 2)
            self.assertAlmostEqual(means[0]["wall"], math.prod(ratios[name]) ** .5, places=9)

    def test_bounds_are_those_of_the_issue(self):
        some = ["16-load", "24-load", "64-exchange", "24-cas", "24-mostly", "24-list", "8-add"]
        found = {}
        for table in self.report("atomic", "--only", ",".join(some), *FEW)["tables"]:
            for figure in table["figures"]:
                found[table["part"], table["threads"]] = 1 / figure["at_most"]
        self.assertEqual({part for part, _ in found}, set(some))
        for key, times in found.items():
            self.assertAlmostEqual(times, GOALS.get(key, .95), msg=key)

    def test_text_and_page(self):
        path = os.path.join(self.folder(), "page.html")
        result = wait.run("atomic", "--only", "24-list,65536-exchange", *FEW, "--html", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)
        for words in ("gcc  compiler-rt  near-atomic        mutex        at most",
                      r"24-list +2 +[\d.]+ +[\d.]+ +\d+ % .* 0\.36 (reached|missed)",
                      r"65536-exchange +1 +\d+ .* 1\.05 (reached|missed)", "geometric mean",
                      "Single operations, 999 of 1,000", "Most served thread"):
            self.assertRegex(result.stdout, words)
        self.assertEqual(len(re.findall("reached|missed", result.stdout)), 4)
        with open(path, encoding="utf-8") as file:
            self.assertIn('"part":"24-list"', file.read())


class Trouble(wait.Case):
    def test_wrong_cases(self):
        for case in ("", "24", "24-", "-load", "24-load-", "24-load-nosuch", "24-nosuch", "0-load",
                     "2-load", "5-load", "26-load", "x24-load", "24x-load", "24-add", "3-add",
                     "4096-cas", "8-list", "4000000-load", "24-load-split-split", "24-LOAD"):
            code, text = measure("gcc", case)
            self.assertEqual(code, 2, case)
            self.assertIn("usage:", text)
        result = wait.run("atomic", "--only", "24-loads")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("unknown part '24-loads'", result.stderr)
        self.assertIn("one thread", measure("gcc", "24-load-alone")[1]["error"])

    def test_library_that_is_not_there(self):
        copy = shutil.copy(wait.program("atomic"), self.folder())
        answer = json.loads(subprocess.run([copy, "near-atomic", "1", "1"], check=True,
                                           capture_output=True).stdout)
        self.assertIn("was not found where this command is", answer["missing"])
        self.assertIn("NEAR_BENCH_ATOMIC",
                      measure("near-atomic", "24-load", NEAR_BENCH_ATOMIC="/nosuch")[1]["missing"])

    def test_missing_row(self):
        atomic = wait.program("atomic")
        tool = self.tool_next_to("atomic", f'exec env NEAR_BENCH_ATOMIC=/no {atomic} "$@"\n')
        report = self.report("atomic", "--only", "24-load", *FEW, tool=tool)
        rows = {row["name"]: row for row in report["tables"][0]["rows"]}
        self.assertIn("cannot be loaded", rows["near-atomic"]["missing"])
        self.assertIn("samples", rows["gcc"])
        self.assertEqual(report["tables"][0]["figures"], [])
        text = wait.run("atomic", "--only", "24-load", *FEW, tool=tool).stdout
        self.assertEqual(len(re.findall("near-atomic not measured: the file", text)), 1)

    def test_ours_in_the_place_of_gcc(self):
        ours = os.path.join(os.path.dirname(command.TOOL), "../libatomic")
        self.assertIn("is this library here, not GCC's",
                      measure("gcc", "24-load", LD_LIBRARY_PATH=ours)[1]["missing"])

    def fake(self, **macros):
        path = os.path.join(self.folder(), "libfake.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared", "-pthread", "-w",
                        "-x", "c", "-", "-o", path, *(f"-D{k}={v}" for k, v in macros.items())],
                       input=FAKE, text=True, check=True)
        return path

    def expect_error(self, fake, words, *cases, may_crash=False):
        for case in cases:
            for threads in "1", "2":
                code, error = self.first_error(fake, case, threads)
                if may_crash and code < 0: # two threads freed one element
                    continue
                self.assertEqual(code, 0, case)
                self.assertIn(words, error, (case, threads))

    def first_error(self, fake, case, threads):
        """A thread that did not run in the time that it had made no mistake in it."""
        for milliseconds in "10", "100", "1000":
            code, answer = measure("near-atomic", case, threads, milliseconds,
                                   NEAR_BENCH_ATOMIC=fake)
            if code or "error" in answer:
                break
        return code, answer.get("error", "none")

    def test_library_that_is_right(self):
        fake = self.fake(LOSE=0, TEAR=0, EVERY=1)
        for case in ("24-load", "16-exchange", "8-add", "24-list", "65536-store"):
            self.assertIn("ops", measure("near-atomic", case, NEAR_BENCH_ATOMIC=fake)[1])

    def test_library_that_loses_updates(self):
        fake = self.fake(LOSE=1, TEAR=0, EVERY=777)
        self.expect_error(fake, "an update was lost", "24-exchange", "24-cas", "24-cas-apart",
                          "16-cas", "8-add", "1-add", "3-exchange", "64-cas-split",
                          "4096-exchange")
        fake = self.fake(LOSE=1, TEAR=0, EVERY=1)
        self.expect_error(fake, "an update was lost", "24-store", "8-store", "24-mostly")

    def test_library_that_tears_values(self):
        fake = self.fake(LOSE=0, TEAR=1, EVERY=777)
        self.expect_error(fake, "a value was read that nobody wrote", "24-cas", "16-cas",
                          "64-cas-malloc", "12-cas")

    def test_list_that_loses_an_element(self):
        self.expect_error(self.fake(LOSE=1, TEAR=0, EVERY=101), "the list lost an element",
                          "24-list", "16-list", may_crash=True)

    def test_failure_is_reported(self):
        fake = self.fake(LOSE=1, TEAR=0, EVERY=9)
        tool = self.tool_next_to(
            "atomic", f'NEAR_BENCH_ATOMIC={fake} exec {wait.program("atomic")} "$@"\n')
        result = wait.run("atomic", "--only", "24-exchange", *FEW, tool=tool)
        self.assertEqual(result.returncode, 1)
        self.assertIn("24-exchange, 2, near-atomic failed: wrong result: an update was lost",
                      result.stdout)

    def test_counts_of_the_lock(self):
        env = {**os.environ, "NEAR_CONF": "atomic_stats:1"}
        result = wait.run("atomic", "--only", "24-cas", *FEW, env=env)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for threads in 1, 2:
            self.assertRegex(result.stdout, rf"(?m)^24-cas, {threads}, near-atomic: .*sections")
            self.assertRegex(result.stdout, rf"(?m)^24-cas, {threads}, near-atomic: .*spun")
        self.assertNotRegex(result.stdout, "(?m)^24-cas, 1, gcc:")
        rows = self.report("atomic", "--only", "24-cas", *FEW, env=env)["tables"][0]["rows"]
        self.assertEqual([row["name"] for row in rows if "said" in row], ["near-atomic"])
        self.assertNotIn("sections", wait.run("atomic", "--only", "24-cas", *FEW).stdout)


if __name__ == "__main__":
    command.main()
