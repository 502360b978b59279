#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace show --follow, on a program that traces.

usage: trace_follow_test.py NEARCPU TRACE_PROGRAM [TEST...]
"""
import itertools
import os
import re
import signal
import subprocess
import sys

import command
import trace_program_test
from command import Case, run
from trace_program_test import OVERWRITE, STOP, STREAM, Killed


class Follow(Case):
    setUp = trace_program_test.Program.setUp
    program = trace_program_test.Program.program
    check = trace_program_test.Program.check

    def follow(self, *arguments):
        follower = Killed([command.TOOL, "trace", "show", "--follow", *arguments, self.file],
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertTrue(follower.stdout.readline().startswith("# " + self.file))
        return follower

    def lines(self, mode):
        """A program that has begun to trace."""
        program = self.program(mode, 0, "lines")
        self.send(program, 0)
        return program

    @staticmethod
    def events_of(follower, count):
        events = (line for line in follower.stdout if line[0] != "#")
        return list(itertools.islice(events, count))

    @staticmethod
    def send(program, line):
        program.stdin.write(f"{line}\n")
        program.stdin.flush()
        program.stdout.readline()

    def end(self, process, code=0, error=""):
        out, err = process.stdout.read(), process.stderr.read().strip()
        self.assertEqual((process.wait(), err), (code, error))
        return out

    @staticmethod
    def without_pid(text):
        return re.sub(r"(?m)^(\S+ cpu \d+) pid \d+", r"\1", text)

    def expect_numbers(self, lines, first, count):
        self.assertEqual([re.search(r"n=(\d+)$", line).group(1) for line in lines],
                         [str(n) for n in range(first, first + count)])

    def test_until_the_end(self):
        with self.lines(STOP) as program:
            self.send(program, 3)
            with self.follow("--name", "test:count") as follower:
                self.expect_numbers(self.events_of(follower, 3), 0, 3)
                self.send(program, 2)
                self.expect_numbers(self.events_of(follower, 2), 3, 2)
                program.stdin.write("4\n")
                program.stdin.close()
                self.expect_numbers(self.events_of(follower, 9), 5, 4)
                self.end(follower)

    def test_ended(self):
        self.program(STOP, 200).communicate()
        with self.follow() as follower:
            self.assertEqual(self.check(self.without_pid(self.end(follower)), 0)[1], 2 * (200 + 4))

    def test_killed(self):
        with self.program(STOP, 100, "wait") as program:
            program.stdout.readline()
            with self.follow() as follower:
                first = self.events_of(follower, 7)
                program.kill()
                program.wait()
                last, count = self.check(
                    self.without_pid("".join(first) + self.end(follower)), 0)
        self.assertEqual((last, count), ({"thread=1": 99, "thread=2": 99}, 2 * (100 + 2)))

    def test_interrupted(self):
        with self.lines(STOP) as program, self.follow() as follower:
            self.send(program, 1)
            self.expect_numbers([follower.stdout.readline()], 0, 1)
            follower.send_signal(signal.SIGINT)
            self.end(follower, 130, "nearcpu trace: interrupted")

    def test_closed_pipe(self):
        with self.lines(STOP), self.follow() as follower:
            follower.stdout.close()
            self.assertEqual(follower.wait(60), 1)
            self.assertIn("standard output was closed", follower.stderr.read())

    def test_overwritten(self):
        with self.lines(OVERWRITE) as program, self.follow() as follower:
            follower.send_signal(signal.SIGSTOP)
            self.send(program, 300000)
            follower.send_signal(signal.SIGCONT)
            program.stdin.close()
            lost = re.search("# [0-9]+ bytes were overwritten before they were read\n",
                             self.end(follower))
            self.assertTrue(lost)

    def test_stream(self):
        """What is moved to further files comes once: those that were there when it began, and
        new ones."""
        self.file = os.path.join(self.dir, "folder")
        os.mkdir(self.file)
        with self.lines(STREAM) as program:
            self.send(program, 20000)
            with self.follow() as follower:
                lines = self.events_of(follower, 20000)
                for _ in range(10):
                    self.send(program, 10000)
                    lines += self.events_of(follower, 10000)
                program.stdin.close()
                rest = self.end(follower).splitlines()
        self.expect_numbers(lines, 0, 120000)
        self.assertEqual([line for line in rest if line[0] != "#"], [])

    def test_child(self):
        """Its file joins."""
        self.file = os.path.join(self.dir, "folder")
        os.mkdir(self.file)
        with self.lines(STOP) as program, self.follow() as follower:
            self.send(program, "fork")
            self.assertTrue(follower.stdout.readline().startswith("# " + self.file))
            line = follower.stdout.readline()
            self.assertRegex(line, r"pid \d+ tid \d+ test:count thread=2 n=0$")
            self.assertNotIn(f"pid {program.pid} ", line)
            self.send(program, 1)
            self.assertIn(f"pid {program.pid} ", follower.stdout.readline())
            program.stdin.close()
            self.end(follower)

    def test_usage(self):
        for arguments in (("stat", "--follow"), ("show", "--follow", "--to", "1"),
                          ("show", "--follow", "--html", "-")):
            self.expect(run("trace", *arguments, self.file), 2, "--follow goes with show")


if __name__ == "__main__":
    trace_program_test.PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
