#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace on children of fork, which have no thread for orders, or one at once.

usage: trace_child_test.py NEARCPU TRACE_PROGRAM [TEST...]
"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import command
import trace_program_test
from command import run

CHILDREN = ["child", "daemon", "grandchild"]
TOTAL = 2 * (40000 + 625)


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def living(folder):
    """{pid: its file}, of processes that have not ended."""
    found = ((re.search(r"-(\d+)\.trace$", name), name) for name in os.listdir(folder))
    return {int(pid[1]): os.path.join(folder, name) for pid, name in found
            if pid and os.path.exists(f"/proc/{pid[1]}")}


class Child(command.Case):
    setUp = trace_program_test.Program.setUp

    def program(self, mode, events, *record, kind="child"):
        """The program and the file of its child, which has traced."""
        folder = os.path.join(self.dir, "folder" + kind)
        os.mkdir(folder)
        program = trace_program_test.Killed(
            [command.TOOL, "trace", "record", "--output", folder, "--mode", mode, *record, "--",
             trace_program_test.PROGRAM, "-", "0", str(events), kind],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        self.assertEqual(program.stdout.readline(), "traced\n")
        # The parent of a daemon may still be about to end.
        while len(files := living(folder)) != {"child": 2, "daemon": 1, "grandchild": 3}[kind]:
            time.sleep(.01)
        for pid in files:
            self.addCleanup(kill, pid)
        parents = [parent_of(pid) for pid in files]
        self.child, = (pid for pid in files if pid not in parents)
        return program, files[self.child]

    def events(self, *files):
        result = run("trace", "show", *files)
        self.expect(result, 0)
        return sorted(re.findall(r" tid .*", result.stdout))

    def finish(self, program):
        try:
            program.stdin.write("n")  # to the child
            program.stdin.close()
        except BrokenPipeError:
            pass  # it was killed
        program.wait()
        program.stdout.close()

    def go_on(self, program):
        program.stdin.write("g")
        program.stdin.flush()

    def end(self, program):
        kill(self.child)
        self.finish(program)

    def test_snapshot(self):
        """The command makes it."""
        program, file = self.program("overwrite", 3000)
        new = os.path.join(self.dir, "new")
        self.expect(run("trace", "snapshot", new, file), 0)
        self.expect(run("trace", "snapshot", new, file), 1, new, "File exists")
        # Those that came while the child's file was made are discarded.
        events = self.events(new)
        self.assertGreaterEqual(len(events), 3000 + 47)
        self.assertEqual(events, self.events(file))
        self.assertLess(os.stat(new).st_blocks * 512, 2 << 20)
        self.finish(program)
        self.assertEqual(self.events(new), events)

    def test_running(self):
        """What is overwritten during the copy is dropped, and no more."""
        program, file = self.program("overwrite", 3000)
        self.go_on(program)
        for i in range(5):
            new = os.path.join(self.dir, f"new{i}")
            self.expect(run("trace", "snapshot", new, file), 0)
            result = run("trace", "recover", new)
            self.assertIn("\n0 bytes are damaged\n", result.stdout)
            self.assertIn("\n0 times stepped back", result.stdout)
        self.end(program)

    def order(self, *arguments):
        """The next event carries it out, whose time no test knows."""
        result = run("trace", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        if result.stderr:
            self.expect(result, 0, "carries it out at its next event")

    def names(self, file):
        return {line.split()[5] for line in run("trace", "show", file).stdout.splitlines()
                if "thread=3" in line}

    def switch(self, kind):
        """Orders to a child that has no events wait for the next one, whatever it is of."""
        program, file = self.program("overwrite", 30, kind=kind)
        for arguments in (["disable", "*"], ["enable", "--level", "warning", "test:*"],
                          ["disable", "x"]):
            self.expect(run("trace", *arguments, file), 0, f"process {self.child} carries it out")
        long = ["enable", "--if", "x>" + "1" * 900, "x", file]
        self.expect(run("trace", *long), 0, "carries it out")
        self.expect(run("trace", *long), 1, "has not come to earlier orders")
        self.go_on(program)
        names = set()  # all may be overwritten while they are read
        while not names:
            names = self.names(file)
        self.assertEqual(names, {"test:text"})
        self.order("disable", "*", file)
        self.order("enable", "--if", "n >= 50", "test:count", file)
        while "test:count" not in self.names(file):
            pass
        self.end(program)

    def test_switched(self):
        self.switch("child")

    def test_switched_in_a_daemon(self):
        self.switch("daemon")

    def test_switched_in_a_worker(self):
        self.switch("grandchild")

    def test_killed_with_an_order(self):
        program, file = self.program("overwrite", 30)
        kill(self.child)
        self.finish(program)
        self.expect(run("trace", "enable", "*", file), 1, "was it killed?")

    def stream(self, kind):
        """Its events move what they have written, with nothing else that runs."""
        program, file = self.program("stream", 40000, "--ring", "256k", kind=kind)
        moved = len(self.events(file + ".1"))
        shown = run("trace", "show", file, *(f"{file}.{i}" for i in range(1, 9)
                                             if os.path.exists(f"{file}.{i}"))).stdout
        count = sum(" cpu " in line for line in shown.splitlines())
        lost, cut = (sum(map(int, re.findall(rf"\n# (\d+) {what}", shown)))
                     for what in ("events were discarded", "long payloads were cut"))
        self.assertGreater(moved, 3 * 6000)
        self.assertGreaterEqual(count + lost + cut, TOTAL)
        self.end(program)

    def test_streamed(self):
        for kind in CHILDREN:
            self.stream(kind)

    def test_thread(self):
        """With --children the child has a thread, which takes orders and streams at any time."""
        program, file = self.program("stream", 40000, "--ring", "256k", "--children")
        self.expect(run("trace", "disable", "*", file), 0)
        moved = self.events(file + ".1")
        self.assertGreater(len(moved), 100)
        self.finish(program)
        self.assertLessEqual(set(moved), set(self.events(file + ".1")))


if __name__ == "__main__":
    trace_program_test.PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
