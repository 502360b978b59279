#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench trace: every row, those of tracers that are not there, and the daemon of LTTng,
which ends with the command.

usage: bench_trace_test.py NEARCPU [TEST...]
"""
import json
import os
import shutil
import signal
import subprocess
import time

import command

ROWS = {"counter": ["cmpxchg", "lttng", "lttng-counter", "near", "near-off", "clock"],
        "monotonic": ["fprintf", "spdlog", "cmpxchg", "lttng", "lttng-thread", "near", "near-off",
                      "clock"],
        "none": ["cmpxchg", "near", "near-off", "counter"],
        "disabled": ["lttng", "near", "nothing"],
        "words": ["fprintf", "spdlog", "lttng", "near", "near-32"],
        "string": ["fprintf", "spdlog", "lttng", "near", "near-32"],
        "threads": ["lttng-1", "lttng-2", "near-1", "near-2"],
        "latency": ["fprintf", "spdlog", "lttng", "near", "near-monotonic", "clock"]}
FEW = ["--iterations", "3000", "--repeat", "1"]

# What the daemon does for the command, with its process id in $HOME/daemon.
DAEMON = '[ "$1" = --version ] || { echo $$ >"$HOME/daemon"; exec sleep 1000; }\n'
CLIENT = '[ "$2" != list ] || [ -e "$HOME/daemon" ]\n'


def wait_for(what):
    for _ in range(1000):
        if what():
            return True
        time.sleep(0.01)
    return False


class Case(command.Case):
    def folder_with(self, **scripts):
        """A folder for PATH, with these programs and few others."""
        folder = self.folder()
        for name in ("sh", "rm", "sleep"):
            os.symlink(shutil.which(name), os.path.join(folder, name))
        for name, script in scripts.items():
            path = os.path.join(folder, name.replace("_", "-"))
            with open(path, "w", encoding="ascii") as file:
                file.write("#!/bin/sh\n" + script)
            os.chmod(path, 0o755)
        return folder

    def report(self, *args, **more):
        result = command.run("bench", "trace", *args, "--json", "-", **more)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout[:2000])
        return {t["part"]: {r["name"]: r for r in t["rows"]}
                for t in json.loads(result.stdout)["tables"]}


class Rows(Case):
    def check(self, row, name):
        self.assertNotIn("failed", row, name)
        if "missing" in row:
            self.assertRegex(row["missing"], r"packages? lib(lttng-ust|spdlog)-dev|lttng-tools")
            self.assertRegex(name, "lttng|spdlog")
        else:
            self.assertGreater(row["samples"][0]["ops"], 0)

    def test_every_row_without_a_daemon(self):
        tables = self.report("--threads", "2", *FEW, env={"PATH": self.folder_with()})
        self.assertEqual({part: list(rows) for part, rows in tables.items()}, ROWS)
        for part, rows in tables.items():
            for name, row in rows.items():
                with self.subTest(part=part, row=name):
                    self.check(row, name)
                    if name.startswith("lttng") and part != "disabled":
                        self.assertIn("missing", row)

    def test_threads_of_a_row(self):
        rows = self.report("--only", "threads", *FEW, env={"PATH": self.folder_with()})["threads"]
        self.assertEqual([rows[name]["samples"][0]["ops"] for name in ("near-1", "near-2")],
                         [3000, 6000])

    def test_lttng(self):
        if not shutil.which("lttng-sessiond") or not shutil.which("lttng"):
            self.skipTest("no lttng-tools")
        tables = self.report("--only", "counter,disabled", "--threads", "1", *FEW)
        for rows in tables.values():
            for name, row in rows.items():
                self.check(row, name)

    def test_list(self):
        text = command.run("bench", "--list", "trace").stdout
        for part, rows in ROWS.items():
            self.assertRegex(text, rf"(?m)^trace +{part} +\w")
            for row in rows:
                self.assertRegex(text, rf"(?m)^    {row} +\w")


class Daemon(Case):
    """With a daemon, a client and a module that are none."""

    def start(self, *args):
        self.home = self.folder_with(lttng=CLIENT, lttng_sessiond=DAEMON)
        tool = command.copy_with_bench(self.home)
        with open(os.path.join(self.home, "nearcpu-trace-lttng.so"), "wb"):
            pass
        return subprocess.Popen([tool, "bench", "trace", *args],
                                env={**os.environ, "PATH": self.home, "HOME": self.home},
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def daemon(self):
        try:
            with open(os.path.join(self.home, "daemon"), encoding="ascii") as file:
                return int(file.read() or 0)
        except FileNotFoundError:
            return 0

    def runs(self):
        try:
            with open(f"/proc/{self.daemon()}/stat", encoding="ascii") as file:
                return file.read().split()[2] != "Z"
        except (FileNotFoundError, ProcessLookupError):  # the latter: it ended after the open
            return False

    def check_end(self, tool):
        self.assertTrue(wait_for(lambda: not self.runs()), "the daemon still runs")
        folder = f"/tmp/nearcpu-lttng-{tool.pid}"
        self.assertTrue(wait_for(lambda: not os.path.exists(folder)), folder)

    def test_ends_with_the_command(self):
        with self.start("--only", "counter", "--threads", "1", *FEW) as tool:
            self.assertEqual(tool.wait(timeout=60), 0)
            self.assertGreater(self.daemon(), 0)
            self.check_end(tool)

    def test_ends_after_signals(self):
        for sig in (signal.SIGINT, signal.SIGKILL):
            with self.start("--only", "counter", "--repeat", "1000") as tool:
                self.assertTrue(wait_for(self.runs))
                tool.send_signal(sig)
                tool.wait(timeout=60)
                self.check_end(tool)

    def test_does_not_start(self):
        home = self.folder_with(lttng=CLIENT, lttng_sessiond='[ "$1" = --version ]\n')
        tool = command.copy_with_bench(home)
        with open(os.path.join(home, "nearcpu-trace-lttng.so"), "wb"):
            pass
        rows = self.report("--only", "counter", "--threads", "1", *FEW, tool=tool,
                           env={"PATH": home, "HOME": home})["counter"]
        self.assertIn("did not start", rows["lttng"]["missing"])


if __name__ == "__main__":
    command.main()
