#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace on a child of fork, which has no thread for orders, or one at once.

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


class Child(command.Case):
    setUp = trace_program_test.Program.setUp

    def program(self, mode, events, *record):
        """The program and the file of its child, which has traced."""
        folder = os.path.join(self.dir, "folder")
        os.mkdir(folder)
        program = trace_program_test.Killed(
            [command.TOOL, "trace", "record", "--output", folder, "--mode", mode, *record, "--",
             trace_program_test.PROGRAM, "-", "0", str(events), "child"],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True)
        self.addCleanup(self.kill_all, program)
        self.assertEqual(program.stdout.readline(), "traced\n")
        files = {}
        for name in os.listdir(folder):
            pid = re.search(r"-(\d+)\.trace$", name)
            if pid:
                files[int(pid[1])] = os.path.join(folder, name)
        self.assertEqual(len(files), 2)
        self.child = next(pid for pid in files if self.parent_of(pid) in files)
        return program, files[self.child]

    @staticmethod
    def kill_all(program):
        """Those that a failed test leaves."""
        try:
            os.killpg(program.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        program.wait()

    @staticmethod
    def parent_of(pid):
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])

    def events(self, *files):
        result = run("trace", "show", *files)
        self.expect(result, 0)
        return sorted(re.findall(r" tid .*", result.stdout))

    def finish(self, program):
        program.stdin.write("n")
        program.stdin.close()  # of the child, unless it was killed
        program.wait()
        program.stdout.close()

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
        begin = time.monotonic()
        self.expect(run("trace", "disable", "*", file), 1, "no thread for orders")
        self.assertLess(time.monotonic() - begin, 4)
        self.finish(program)
        self.assertEqual(self.events(new), events)

    def test_running(self):
        """What is overwritten during the copy is dropped, and no more."""
        program, file = self.program("overwrite", 3000)
        program.stdin.write("g")
        program.stdin.flush()
        for i in range(5):
            new = os.path.join(self.dir, f"new{i}")
            self.expect(run("trace", "snapshot", new, file), 0)
            result = run("trace", "recover", new)
            self.assertIn("\n0 bytes are damaged\n", result.stdout)
            self.assertIn("\n0 times stepped back", result.stdout)
        os.kill(self.child, signal.SIGKILL)
        self.finish(program)

    def test_thread(self):
        """With --children the child streams, and takes orders."""
        program, file = self.program("stream", 40000, "--ring", "256k", "--children")
        self.expect(run("trace", "disable", "*", file), 0)
        moved = self.events(file + ".1")
        self.assertGreater(len(moved), 100)
        self.finish(program)
        self.assertLessEqual(set(moved), set(self.events(file + ".1")))


if __name__ == "__main__":
    trace_program_test.PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
