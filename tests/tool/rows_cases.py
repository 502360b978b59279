# SPDX-License-Identifier: MIT
"""nearcpu bench: rows, their modes and figures, and the text."""
import json
import os
import resource
import tempfile

import command
import terminal
from command import FAST, FEW, Case, run, why_off


class Rows(Case):
    def bench(self, *args, **more):
        result = run("bench", *args, "--json", "-", **more)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout[:2000])
        return json.loads(result.stdout)

    def rows(self, report):
        for table in report["tables"]:
            for row in table["rows"]:
                yield table, row

    def test_every_row(self):
        report = self.bench(*FAST, "--threads", "1,3", *FEW)
        names = [(t["benchmark"], t["threads"]) for t in report["tables"]]
        # counter has two parts, with one thread each; memory has one for each structure.
        parts = len({t["title"] for t in report["tables"] if t["benchmark"] == "memory"})
        threads = {"counter": [1, 1], "idspace": [1, 3] * 3, "memory": [1, 3] * parts}
        expected = [(n, c) for n in FAST for c in threads.get(n, [1, 3])]
        self.assertEqual(names, expected)
        for table, row in self.rows(report):
            with self.subTest(table=table["benchmark"], row=row["name"]):
                self.assertNotIn("failed", row)
                if "missing" in row:
                    self.assertGreater(len(row["missing"]), 10)
                    continue
                self.assertEqual(len(row["samples"]), 2)
                for sample in row["samples"]:
                    if table["benchmark"] == "memory":
                        self.assertEqual(sample["counters"], 2000)
                    else:
                        self.assertEqual(sample["ops"], 2000 * table["threads"])
                        self.assertGreater(sample["wall_ns"], 0)

    def test_rows_run_in_their_own_mode(self):
        info = json.loads(run("info", "--json", env={"NEAR_CONF": ""}).stdout)
        report = self.bench("hitcounter", "--threads", "1", *FEW, env={"NEAR_CONF": "rseq:off"})
        rows = {row["name"]: row for _, row in self.rows(report)}
        # slot:cpu of the row replaces what the user set; near-off never has sequences.
        self.assertEqual("missing" in rows["near-cpu"], not info["rseq"]["live"])
        self.assertIn("samples", rows["near-off"])
        report = self.bench("refcount", "--threads", "1", *FEW, env={"NEAR_CONF": "rseq:off"})
        rows = {row["name"]: row for _, row in self.rows(report)}
        self.assertIn(why_off(), rows["near"]["missing"])

    def test_a_figure_may_take_off_a_row(self):
        report = self.bench("histogram", "--threads", "1", "--iterations", "20000",
                            "--repeat", "1")
        table, = report["tables"]
        cost = {r["name"]: sum(r["samples"][0][k] for k in ("user_ns", "system_ns"))
                for r in table["rows"] if "samples" in r}
        for figure in table["figures"]:
            self.assertEqual(figure["less"], "bucket")
            self.assertAlmostEqual(figure["value"], (cost[figure["row"]] - cost["bucket"]) /
                                   cost[figure["against"]], places=9)

    def test_figures_are_of_their_rows(self):
        report = self.bench("hitcounter", "--threads", "2", "--iterations", "20000",
                            "--repeat", "3")
        table = report["tables"][0]
        for figure in table["figures"]:
            row, other = ([r for r in table["rows"] if r["name"] == figure[k]][0]
                          for k in ("row", "against"))
            pairs = zip(row["samples"], other["samples"])
            ratios = sorted((a["user_ns"] + a["system_ns"]) / (b["user_ns"] + b["system_ns"])
                            for a, b in pairs)
            self.assertAlmostEqual(figure["value"], ratios[1], places=9)
            self.assertEqual(figure["reached"], figure["value"] <= figure["at_most"])

    def test_text(self):
        result = run("bench", "cpuid", "memory", *FEW)
        self.expect(result, 0)
        self.assertNotIn("\033", result.stdout)
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)
        self.assertRegex(result.stdout, r"(?m)^empty loop \* +\d")
        self.assertRegex(result.stdout, r"(?m)^one atomic each +\d")

    def test_sched(self):
        result = run("bench", "sched", "--iterations", "2", "--repeat", "1",
                     env={"PATH": "/nonexistent"})
        self.expect(result, 0)
        self.assertEqual(result.stdout.count("not measured: perf is not installed"), 10)
        report = self.bench("sched", "--iterations", "2", "--repeat", "1")
        for _, row in self.rows(report):
            self.assertNotIn("failed", row)

    def test_progress_is_for_terminals(self):
        master, slave = terminal.open_terminal(self)
        result = run("bench", "refcount", "--threads", "1", *FEW, stderr=slave)
        os.close(slave)
        seen = b""
        try:
            while chunk := os.read(master, 4096):
                seen += chunk
        except OSError:
            pass
        os.close(master)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"refcount, 1 thread: one atomic 1/2", seen)
        self.assertTrue(seen.endswith(b"\033[K"), seen[-20:])

    def test_too_many_threads_for_the_system(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
            if os.geteuid() == 0:  # root has no such limit
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o755)
            copy = command.copy_with_bench(scratch)  # where everybody can read it
            result = run("bench", "refcount", "--threads", "500", *FEW, tool=copy,
                         preexec_fn=limit)
        self.expect(result, 1, "some rows failed")
        self.assertIn("allows fewer threads", result.stdout)
