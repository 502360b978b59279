#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu locks: a program that waits a known number of times at known places.

usage: locks_test.py NEARCPU LOCKS_NEAR [TEST...]
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import command

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "locks_program.c")
WAIT_NS = 20 * 1000000
NEAR = ""


def run(*args, **more):
    return command.run("locks", *args, **more)


def function(frame):
    return frame.split("+")[0]


class LocksCase(command.ScratchCase):
    program = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.program = os.path.join(scratch.name, "locks_program")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", SOURCE, "-o", cls.program, "-pthread"],
                       check=True)

    def observe(self, *args, code=0, options=(), **more):
        """The processes of the JSON, and the text."""
        path = self.path("json")
        result = run("--json", path, *options, "--", *args, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["processes"], result.stderr

    def scenario(self, name, **more):
        processes, _ = self.observe(self.program, name, **more)
        self.assertEqual(len(processes), 1)
        return processes[0]

    def waits(self, process, kind, place=None):
        """Of the places of this kind whose innermost function is `place`: waits, failures."""
        found = [p for p in process["places"] if p["kind"] == kind and
                 place in (None, function(p["stack"][0]))]
        for p in found:
            self.assertEqual(sum(lock["count"] for lock in p["locks"]), p["count"])
            self.assertEqual(sum(lock["total_ns"] for lock in p["locks"]), p["total_ns"])
            self.assertLessEqual(p["p50_ns"], p["p99_ns"])
            self.assertLessEqual(p["p99_ns"], p["longest_ns"])
            self.assertLessEqual(p["longest_ns"], p["total_ns"])
        return sum(p["count"] for p in found), sum(p["failed"] for p in found)

    def longest(self, process, kind):
        return max(p["longest_ns"] for p in process["places"] if p["kind"] == kind)


class Waits(LocksCase):
    def test_mutex(self):
        seen = self.scenario("mutex")
        self.assertEqual(self.waits(seen, "mutex", "mutex_place"), (3, 0))
        self.assertEqual(self.waits(seen, "mutex"), (3, 0))
        place, = [p for p in seen["places"] if p["kind"] == "mutex"]
        self.assertGreaterEqual(place["total_ns"], 3 * WAIT_NS)
        self.assertGreaterEqual(place["p50_ns"], WAIT_NS)
        self.assertGreaterEqual(place["longest_ns"], WAIT_NS)
        self.assertEqual(place["holders"], {str(seen["pid"]): 3})
        self.assertEqual(len(place["locks"]), 1)
        self.assertEqual(self.waits(seen, "held", "mutex_holder"), (3, 0))
        held, = [p for p in seen["places"] if p["kind"] == "held"]
        self.assertEqual([function(f) for f in held["stack"][:3]],
                         ["mutex_holder", "mutex_three", "main"])
        self.assertGreaterEqual(held["total_ns"], 3 * WAIT_NS)

    def test_threads_and_events(self):
        seen = self.scenario("mutex")
        waiters = [t for t in seen["threads"] if t["name"] == "mutex waiter"]
        self.assertEqual([t["mutex"]["count"] for t in waiters], [1, 1, 1])
        self.assertEqual(len({t["tid"] for t in waiters}), 3)
        self.assertGreaterEqual(min(t["mutex"]["total_ns"] for t in waiters), WAIT_NS)
        main, = [t for t in seen["threads"] if t["tid"] == seen["pid"]]
        self.assertEqual(main["held"]["count"], 3)
        self.assertEqual(seen["events_ever"], 6)
        for _, ns, place, thread, holder, _, _ in seen["events"]:
            self.assertGreaterEqual(ns, WAIT_NS)
            kind = seen["places"][place]["kind"]
            self.assertEqual(holder, seen["pid"] if kind == "mutex" else 0)
            self.assertEqual(thread in [t["index"] for t in waiters], kind == "mutex")

    def test_kinds_of_mutexes(self):
        self.assertEqual(self.waits(self.scenario("kinds"), "mutex"), (6, 0))
        self.assertEqual(self.waits(self.scenario("robust"), "mutex"), (1, 0))

    def test_timed_mutexes(self):
        seen = self.scenario("timed")
        self.assertEqual(self.waits(seen, "mutex", "timed_place"), (2, 2))

    def test_rwlocks(self):
        seen = self.scenario("rwlocks")
        self.assertEqual(self.waits(seen, "read", "read_place"), (1, 0))
        self.assertEqual(self.waits(seen, "write", "write_place"), (1, 0))
        self.assertEqual(self.waits(seen, "read"), (1, 0))
        self.assertEqual(self.waits(seen, "held", "rwlocks"), (2, 0))
        read, = [p for p in seen["places"] if p["kind"] == "read"]
        self.assertEqual(read["holders"], {str(seen["pid"]): 1})

    def test_condition_variables(self):
        seen = self.scenario("conds")
        self.assertEqual(self.waits(seen, "cond", "cond_place"), (1, 0))
        self.assertEqual(self.waits(seen, "cond", "conds"), (2, 2))

    def test_semaphores(self):
        seen = self.scenario("sems")
        self.assertEqual(self.waits(seen, "sem", "sem_place"), (1, 0))
        self.assertEqual(self.waits(seen, "sem", "sems"), (2, 2))

    def test_cancelled_waits_end(self):
        seen = self.scenario("cancels")
        self.assertEqual(self.waits(seen, "cond"), (1, 1))
        self.assertEqual(self.waits(seen, "sem"), (1, 1))
        self.assertGreaterEqual(self.longest(seen, "cond"), WAIT_NS)
        self.assertEqual(self.waits(seen, "mutex"), (1, 0))

    def test_handler_within_a_wait(self):
        seen = self.scenario("handlers")
        self.assertEqual(self.waits(seen, "mutex"), (1, 0))
        self.assertEqual(self.waits(seen, "sem", "handler"), (1, 1))

    def test_free_locks_are_not_recorded(self):
        processes, text = self.observe(self.program, "free")
        self.assertEqual(processes, [])
        self.assertIn("no process has waited", text)

    def test_what_is_refused(self):
        self.assertEqual(subprocess.run([self.program, "refused"], check=False).returncode, 0)
        self.assertEqual(self.observe(self.program, "refused")[0], [])

    def test_bounded(self):
        seen = self.scenario("many")
        self.assertEqual(self.waits(seen, "mutex", "many"), (6000, 6000))
        self.assertGreater(seen["without_lock"], 0)
        self.assertEqual(seen["lost"], 0)
        seen = self.scenario("threads")
        self.assertEqual(self.waits(seen, "mutex"), (3000, 3000))
        self.assertEqual(sum(t["mutex"]["count"] for t in seen["threads"]), 3000)
        self.assertGreater(len(seen["threads"]), 1000)
        others, = [t for t in seen["threads"] if not t["tid"]]
        self.assertGreaterEqual(others["mutex"]["count"], 3000 - 2047)
        self.assertEqual(seen["events_ever"], 3000)


class OwnLocks(LocksCase):
    def test_own_locks(self):
        processes, text = self.observe(NEAR)
        seen, = processes
        self.assertEqual(self.waits(seen, "mutex"), (1, 0))
        self.assertEqual(self.waits(seen, "park"), (2, 1))
        mutex, = [p for p in seen["places"] if p["kind"] == "mutex"]
        self.assertEqual(mutex["holders"], {str(seen["pid"]): 1})
        self.assertIn("waits", [function(f) for f in mutex["stack"]])
        self.assertRegex(text, r"\nParking lot: ")


class Processes(LocksCase):
    def test_fork(self):
        processes, _ = self.observe(self.program, "forks")
        counts = {p["is_fork"]: self.waits(p, "mutex") for p in processes}
        self.assertEqual(counts, {False: (2, 0), True: (2, 0)})

    def test_script(self):
        processes, _ = self.observe("sh", "-c", f"{self.program} mutex; exec {self.program} sems")
        self.assertEqual([self.waits(p, "mutex")[0] + self.waits(p, "sem")[0] for p in processes],
                         [3, 3])

    def test_killed(self):
        processes, text = self.observe(self.program, "killed", code=-9)
        self.assertEqual(self.waits(processes[0], "mutex"), (2, 0))
        self.assertFalse(processes[0]["exited"])
        self.assertIn("killed by signal 9", text)

    def test_no_room(self):
        script = f"mount -t tmpfs -o size=64k none {self.dir} && exec \"$@\""
        result = subprocess.run(
            ["unshare", "-rm", "sh", "-c", script, "sh", command.TOOL, "locks", "--keep",
             self.path("folder"), "--", self.program, "mutex"],
            capture_output=True, text=True, check=False)
        if "nearcpu locks" not in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no room for the file: No space left on device", result.stderr)

    def test_exit_status(self):
        self.assertEqual(run("--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("--", "/no/such/program").returncode, 127)

    def test_nothing_is_left(self):
        result = run("--", "sh", "-c", f"{self.program} mutex; echo $NEAR_LOCKS")
        folder = result.stdout.strip()
        self.assertRegex(folder, r"/nearcpu-locks-\w+$")
        self.assertFalse(os.path.exists(folder))


class Running(LocksCase):
    def ask(self, child):
        child.stdin.write("wait\n")
        child.stdin.flush()
        self.assertEqual(child.stdout.readline(), "done\n")

    def report(self, pid):
        result = run("--json", "-", "--report", pid)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["processes"][0]

    def test_enable_and_disable(self):
        folder = self.path("folder")
        with subprocess.Popen([command.TOOL, "locks", "--off", "--keep", folder, "--", self.program,
                               "lines"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as child:
            self.ask(child)
            name, = os.listdir(folder)
            pid = name.split(".")[0]
            self.assertEqual(self.report(pid)["places"], [])
            self.assertEqual(run("--enable", pid).returncode, 0)
            self.ask(child)
            self.ask(child)
            self.assertEqual(self.waits(self.report(pid), "mutex"), (2, 0))
            self.assertEqual(run("--disable", pid).returncode, 0)
            self.ask(child)
            child.stdin.close()
            self.assertEqual(child.wait(), 0)
        result = run("--json", "-", "--report", folder)
        kept, = json.loads(result.stdout)["processes"]
        self.assertEqual(self.waits(kept, "mutex"), (2, 0))
        self.assertFalse(kept["is_on"])

    def test_not_ours(self):
        for option in "--enable", "--disable", "--report":
            result = run(option, str(os.getpid()))
            self.assertEqual(result.returncode, 1)
            self.assertIn("has no record", result.stderr)
            self.assertIn("No such process", run(option, "4194304").stderr)

    def test_damaged_records(self):
        folder = self.path("folder")
        run("--keep", folder, "--", self.program, "mutex")
        name, = os.listdir(folder)
        path = os.path.join(folder, name)
        with open(path, "rb") as file:
            good = file.read()
        for bad in b"", good[:5000], b"\xff" * len(good), good[:8] + b"\xff" * (len(good) - 8):
            with open(path, "wb") as file:
                file.write(bad)
            self.assertEqual(run("--report", folder).returncode, 0)
        # All after the head.
        for fill in b"\xff", b"\x01", b"A":
            with open(path, "wb") as file:
                file.write(good[:4096] + fill * (len(good) - 4096))
            self.assertEqual(run("--json", self.path("json"), "--report", folder).returncode, 0)


class Usage(LocksCase):
    def test_usage(self):
        for args in [], ["--enable", "1", "true"], ["--enable", "1", "--report", "2"], ["--bad"]:
            self.assertEqual(run(*args).returncode, 2, args)
        self.assertIn("--enable", run("--help").stdout)

    def test_text(self):
        _, text = self.observe(self.program, "mutex")
        self.assertRegex(text, r"\nMutexes\n")
        self.assertRegex(text, r"\n +3 .*held by thread \d+ \(100 %\)\n +mutex_place\+")

    def test_page(self):
        path = self.path("page.html")
        self.assertEqual(run("--html", path, "--", self.program, "mutex").returncode, 0)
        with open(path, encoding="utf-8") as file:
            page = file.read()
        data = re.search(r'<script id="description" type="application/json">(.*?)</script>', page,
                         re.S)
        seen = json.loads(data.group(1))["processes"][0]
        self.assertEqual(self.waits(seen, "mutex", "mutex_place"), (3, 0))
        self.assertTrue(page.endswith("</body></html>\n"))

    def test_output_fails(self):
        result = run("--json", "/no/such/folder/file", "--", self.program, "mutex")
        self.assertEqual(result.returncode, 1)
        if os.path.exists("/dev/full"):
            result = run("--json", "/dev/full", "--", self.program, "mutex")
            self.assertEqual(result.returncode, 1)


if __name__ == "__main__":
    NEAR = sys.argv.pop(2)
    command.main()
