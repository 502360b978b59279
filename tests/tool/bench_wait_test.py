#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench locks, park, queue, rwlock (and what atomic shares with them): every row, the
figures made of them, and the report of programs that are missing, crash, or do not exclude.

usage: bench_wait_test.py NEARCPU [TEST...]
"""
import json
import os
import signal
import statistics
import subprocess

import command

PARTS = [("locks", p) for p in ("empty", "1ns", "10ns", "100ns")] + \
        [("park", p) for p in ("0", "256", "1024")] + \
        [("rwlock", p) for p in ("0", "1", "10", "100")]
QUEUE_PARTS = [("queue", p) for p in ("try", "wait")]
GROUP_PARTS = [(name, p) for name in ("barrier", "broadcast") for p in ("free", "pinned")] + \
        [("signal", p) for p in ("locked", "unlocked")]
ROWS = {"locks": ["pthread", "adaptive", "recursive", "nsync", "absl", "ck", "parking_lot",
                  "rust-std", "near-mutex", "near-off", "near-recursive", "near-lock", "unlocked"],
        "sem": ["sem_t", "near-sem"],
        "barrier": ["pthread_barrier", "near-barrier"],
        "broadcast": ["pthread_cond", "near-cond"],
        "signal": ["pthread-signal", "near-signal"],
        "park": ["one-queue", "64-queues", "futex", "near-park"],
        "rwlock": ["pthread", "pthread-writer", "nsync", "near-rwlock", "near-writers", "near-zero",
                   "near-off", "unlocked"],
        "atomic": ["gcc", "compiler-rt", "near-atomic", "mutex"],
        "queue": ["ck", "boost", "moodycamel", "urcu", "near", "near-off", "near-fifo"],
        "map": ["urcu", "ck", "papaya", "mutex", "near-rwlock", "near", "near64", "near-off",
                "near64-off"]}
WAITING_QUEUES = ["pthread-wait", "moodycamel-wait", "near-wait", "near-wait-off", "near-fifo-wait"]
PROGRAMS = {"locks": "nearcpu-locks", "sem": "nearcpu-locks",
            "barrier": "nearcpu-locks", "broadcast": "nearcpu-locks", "signal": "nearcpu-locks",
            "park": "nearcpu-parking",
            "rwlock": "nearcpu-rwlock", "atomic": "nearcpu-atomics", "queue": "nearcpu-queues",
            "map": "nearcpu-maps"}
A_PART = {"locks": "empty", "sem": "1ns", "barrier": "free", "broadcast": "free",
          "signal": "locked",
          "park": "0", "rwlock": "0", "atomic": "24-load", "queue": "try", "map": "uniform-0"}
OPTIONAL = {"adaptive", "pthread-writer", "nsync", "absl", "ck", "parking_lot", "rust-std",
            "boost", "moodycamel", "urcu", "papaya", "moodycamel-wait"}
SAMPLE = {"ops", "wall_ns", "user_ns", "system_ns", "fewest", "most", "p99_ns", "p999_ns",
          "longest_ns"}
FEW = ["--quick", "--repeat", "1"]


def run(*args, **more):
    return command.run("bench", *args, **more)


def program(name):
    return os.path.join(os.path.dirname(command.TOOL), PROGRAMS[name])


class Case(command.Case):
    def report(self, *args, code=0, **more):
        result = run("--json", "-", *args, **more)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout[:2000])
        return json.loads(result.stdout)

    def tool_next_to(self, name, script):
        """A copy of the command, next to a program that is this script."""
        folder = self.folder()
        path = os.path.join(folder, PROGRAMS[name])
        if script:
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n" + script)
            os.chmod(path, 0o755)
        return command.copy_with_bench(folder)


class Tables(Case):
    def test_groups_of_threads(self):
        report = self.report("barrier", "broadcast", "signal", "--threads", "3", *FEW)
        self.assertEqual([(t["benchmark"], t["part"]) for t in report["tables"]], GROUP_PARTS)
        for table in report["tables"]:
            self.assertEqual([r["name"] for r in table["rows"]], ROWS[table["benchmark"]])
            for row in table["rows"]:
                self.assertNotIn("failed", row)
                self.check_row(row)
        self.check_waits(report)

    def test_queues(self):
        report = self.report("queue", "--threads", "4", *FEW)
        self.assertEqual([(t["benchmark"], t["part"]) for t in report["tables"]], QUEUE_PARTS)
        for table, names in zip(report["tables"], (ROWS["queue"], WAITING_QUEUES)):
            self.assertEqual([r["name"] for r in table["rows"]], names)
            for row in table["rows"]:
                with self.subTest(row=row["name"]):
                    self.assertNotIn("failed", row)
                    if "missing" in row:
                        self.assertIn(row["name"], OPTIONAL)
                    for s in row.get("samples", ()):
                        self.assertEqual(set(s), SAMPLE)
                        self.assertGreater(s["ops"], 0)
                        self.assertLessEqual(s["p999_ns"], s["longest_ns"])

    def test_maps(self):
        report = self.report("map", "--threads", "2", "--only", "uniform-0,zipf-100", *FEW)
        self.assertEqual([t["part"] for t in report["tables"]], ["uniform-0", "zipf-100"])
        for table in report["tables"]:
            self.assertEqual([r["name"] for r in table["rows"]], ROWS["map"])
            for row in table["rows"]:
                with self.subTest(row=row["name"]):
                    self.assertNotIn("failed", row)
                    if "missing" in row:
                        self.assertIn(row["name"], OPTIONAL)
                    for s in row.get("samples", ()):
                        self.assertGreater(s["ops"], 0)

    def test_every_row(self):
        report = self.report("locks", "park", "rwlock", "--threads", "3", *FEW)
        self.assertEqual([(t["benchmark"], t["part"]) for t in report["tables"]], PARTS)
        for table in report["tables"]:
            self.assertEqual([r["name"] for r in table["rows"]], ROWS[table["benchmark"]])
            for row in table["rows"]:
                with self.subTest(table=table["part"], row=row["name"]):
                    self.assertNotIn("failed", row)
                    if "missing" in row:
                        self.assertIn(row["name"], OPTIONAL)
                        continue
                    self.check_row(row)
        self.check_waits(report)

    # On a machine with other work a short window may have none.
    def check_waits(self, report):
        longest = [s["longest_ns"] for table in report["tables"] for row in table["rows"]
                   for s in row.get("samples", ())]
        self.assertGreater(max(longest), 0)

    def check_row(self, row):
        self.assertEqual(row["window_ms"], 20)
        for s in row["samples"]:
            self.assertEqual(set(s), SAMPLE)
            self.assertGreaterEqual(s["wall_ns"], 20e6)
            self.assertLessEqual(s["fewest"] * 3, s["ops"])
            self.assertLessEqual(s["ops"], s["most"] * 3)
            self.assertLessEqual(0, s["p99_ns"])
            self.assertLessEqual(s["p99_ns"], s["p999_ns"])
            self.assertLessEqual(s["p999_ns"], s["longest_ns"])

    def test_figures_are_those_of_the_samples(self):
        report = self.report("locks", "--only", "10ns", "--threads", "2", "--quick", "--repeat",
                             "3")
        rows = {row["name"]: row for row in report["tables"][0]["rows"]}
        per_op = {name: [s["wall_ns"] / s["ops"] for s in row["samples"]]
                  for name, row in rows.items() if "samples" in row}
        for name, row in rows.items():
            if "samples" not in row:
                continue
            samples = row["samples"]
            self.assertAlmostEqual(row["wall_ns_per_op"]["median"],
                                   statistics.median(per_op[name]), places=6)
            unfair = statistics.median(s["most"] / max(s["fewest"], 1) for s in samples)
            self.assertAlmostEqual(row["fairness"], 1 / unfair, places=9)
            self.assertEqual(row["p999_ns"], statistics.median(s["p999_ns"] for s in samples))
            if name != "pthread":
                ratio = statistics.median(
                    a / b for a, b in zip(per_op["pthread"], per_op[name]))
                self.assertAlmostEqual(row["throughput_ratio"]["median"], ratio, places=9)
        for figure in report["tables"][0]["figures"]:
            self.assertEqual(figure["reached"], figure["value"] <= figure["at_most"])

    def test_default_threads(self):
        result = run("--list", *PROGRAMS)
        self.assertEqual(result.returncode, 0)
        for name, part in PARTS + GROUP_PARTS + QUEUE_PARTS:
            self.assertRegex(result.stdout, rf"(?m)^{name} +{part} +\w")
        for row in sum(ROWS.values(), WAITING_QUEUES):
            self.assertRegex(result.stdout, rf"(?m)^    {row} +\w")
        report = self.report("park", "--only", "0", *FEW)
        self.assertEqual([t["threads"] for t in report["tables"]], [8])
        report = self.report("locks", "--only", "1ns", *FEW)
        self.assertEqual([t["threads"] for t in report["tables"]], [1, 2, 4, 8])

    def test_text_and_page(self):
        path = os.path.join(self.folder(), "page.html")
        result = run("locks", "park", "--only", "empty,0", "--threads", "2", *FEW, "--html", path)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        tables = [line for line in result.stdout.splitlines() if "not measured" not in line]
        self.assertLessEqual(max(map(len, tables)), 100)
        text = " ".join(result.stdout.split())  # lines break by the figures
        for words in ('throughput to that of "pthread_mutex"', "fairness", "p99.9 wait",
                      "near_park over one queue", "times as fast as the best other"):
            self.assertIn(words, text)
        with open(path, encoding="utf-8") as file:
            page = file.read()
        self.assertIn('"default":"near-mutex"', page)
        self.assertIn("near_park, near_unpark", page)

    # The first row is steady; of the others one repetition in three takes a million times as long.
    def test_huge_spreads_fit_their_columns(self):
        rest = json.dumps(dict.fromkeys(
            ("wall_ns", "user_ns", "system_ns", "least", "most", "p99_ns", "p999_ns",
             "longest_ns", "rate"), 1000000))[1:]
        script = (r'n=1000; case $1 in pthread | gcc) ;; *) echo >>"$0.$1";'
                  r' [ $(($(wc -l <"$0.$1") % 3)) = 1 ] || n=1000000000 ;; esac;'
                  f"echo '{{\"ops\":'$n', {rest}'\n")
        for name, part, head, first in (("locks", "empty", "spread", "0.0 %"),
                                        ("atomic", "24-load", "near-atomic", None)):
            result = run(name, "--only", part, "--threads", "2", "--quick", "--repeat", "3",
                         tool=self.tool_next_to(name, script))
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            lines = result.stdout.splitlines()
            self.assertLessEqual(max(map(len, lines)), 100)
            at = next(i for i, line in enumerate(lines) if f" {head} " in line + " ")
            end = lines[at].index(head) + len(head)
            rows = [line[:end] for line in lines[at + 1:lines.index("", at + 1)]
                    if "geometric" not in line and "of those" not in line]
            if first:
                self.assertTrue(rows.pop(0).endswith(" " + first), result.stdout)
                self.assertIn(" >9999 ", rows[0])  # the ratio
            for row in rows:
                self.assertTrue(row.endswith(" >9999 %"), result.stdout)


class Trouble(Case):
    def test_wrong_usage(self):
        for args, words in ((["locks", "--only", "nosuch"], "unknown part 'nosuch'"),
                            (["park", "--only", "10ns"], "unknown part '10ns'"),
                            (["--report", "locks"], "--report has nothing of locks"),
                            (["--report", "park"], "--report has nothing of park"),
                            (["--report", "rwlock"], "--report has nothing of rwlock"),
                            (["--report", "queue"], "--report has nothing of queue"),
                            (["--report", "atomic"], "--report has nothing of atomic")):
            result = run(*args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertIn(words, result.stderr)

    def test_wrong_usage_of_the_programs(self):
        for name in PROGRAMS:
            row = ROWS[name][0]
            for args in ([], ["nosuch", "1", "1"], [row, "0", "1"], [row, "1", "0"], [row, "1"],
                         [row, "1x", "1"], [row, "1", "1", "1"], [row, "99999", "1"],
                         [row, "1", "1", "--inside", "-1"], [row, "1", "1", "--rate", "0"],
                         [row, "1", "1", "--nosuch"], [row, "1", "1", "--writes", "1001"],
                         [row, "1", "1", "--case", "nosuch"]):
                result = subprocess.run([program(name), *args], capture_output=True, text=True,
                                        check=False)
                self.assertEqual((result.returncode, result.stdout), (2, ""), args)
                self.assertIn("usage:", result.stderr)

    def test_programs_notice_a_full_disk(self):
        with open("/dev/full", "wb") as full:
            for name in PROGRAMS:
                result = subprocess.run([program(name), ROWS[name][0], "2", "5"], stdout=full,
                                        check=False)
                self.assertNotEqual(result.returncode, 0)

    def test_program_that_is_not_there(self):
        for name, words in PROGRAMS.items():
            report = self.report(name, "--only", A_PART[name], *FEW, code=1,
                                 tool=self.tool_next_to(name, None))
            for row in report["tables"][0]["rows"]:
                self.assertIn(words + " was not found", row["failed"])

    def test_lock_that_excludes_nobody(self):
        tool = self.tool_next_to(
            "locks", f'[ "$1" = near-mutex ] || exec {program("locks")} "$@"\n'
            'echo \'{"error":"wrong result: two threads were in the section together"}\'\n')
        report = self.report("locks", "--only", "empty", "--threads", "2", *FEW, code=1, tool=tool)
        rows = {row["name"]: row for row in report["tables"][0]["rows"]}
        self.assertIn("together", rows["near-mutex"]["failed"])
        self.assertIn("samples", rows["pthread"])

    def test_crash_and_nonsense(self):
        for script, words in (("kill -SEGV $$", "Segmentation fault"), ("echo '{}'", "no answer"),
                              ("echo oops >&2; exit 1", "oops")):
            rows = self.report("park", "--only", "0", *FEW, code=1,
                               tool=self.tool_next_to("park", script))["tables"][0]["rows"]
            for row in rows:
                self.assertIn(words, row["failed"])

    def test_links_no_compared_library(self):
        beside = os.path.join(os.path.dirname(command.TOOL), "nearcpu-bench")
        for path in (command.TOOL, beside, *map(program, PROGRAMS)):
            dynamic = subprocess.run(["readelf", "-d", path], capture_output=True, text=True,
                                     check=True).stdout
            self.assertNotRegex(dynamic, r"NEEDED.*(nsync|absl|ck|urcu|stdc|jemalloc|capstone|elf)")

    def test_missing_library_names_its_package(self):
        tool = self.tool_next_to("locks", f'{program("locks")} "$1" 2 5\n')
        rows = self.report("locks", "--only", "empty", *FEW, tool=tool)["tables"][0]["rows"]
        for row in rows:
            if "missing" in row and row["name"] != "adaptive":
                self.assertRegex(row["missing"], r"package (lib\w+-dev|cargo)")

    def test_interrupted(self):
        with subprocess.Popen([command.TOOL, "bench", "locks", "--only", "empty", "--threads", "2",
                               "--repeat", "1000"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as tool:
            children = f"/proc/{tool.pid}/task/{tool.pid}/children"
            child = ""
            while not child:
                with open(children, encoding="ascii") as file:
                    child = file.read()
            tool.send_signal(signal.SIGINT)
            _, err = tool.communicate(timeout=60)
            self.assertEqual(tool.returncode, 128 + signal.SIGINT)
            self.assertIn("interrupted", err)
            self.assertFalse(os.path.exists(f"/proc/{child.split()[0]}/comm"))

    def test_reader_that_goes_away(self):
        with subprocess.Popen([command.TOOL, "bench", "park", "--only", "0", *FEW],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tool:
            tool.stdout.close()
            err = tool.stderr.read()
            self.assertEqual(tool.wait(timeout=60), 1)
            self.assertEqual(len(err.splitlines()), 1, err)


if __name__ == "__main__":
    command.main()
