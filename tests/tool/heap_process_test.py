#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Heap profiles of processes that run: nearcpu heap PID, and those of intervals.

usage: heap_process_test.py NEARCPU [TEST...]
"""
import glob
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

import command

# Allocates, until its input ends; what it is given runs before.
ALLOCATES = r"""
import os, select, signal, sys
%s
os.write(1, b"%%d\n" %% os.getpid())
while not select.select([0], [], [], .01)[0]:
    kept = [bytearray(1000) for _ in range(100)]
"""
SIGNAL = 40
BLOCKS = f"signal.pthread_sigmask(signal.SIG_BLOCK, [{SIGNAL}])"


class Case(command.ScratchCase):
    def setUp(self):
        super().setUp()
        self.prefix = self.path("p")
        self.begun = []

    def begin(self, before="", conf="", **more):
        """A profiled process that runs the code `before`: its number."""
        conf = f"heap_profile:{self.prefix},heap_sample:4096,heap_signal:{SIGNAL},{conf}"
        process = subprocess.Popen(
            [command.TOOL, "run", "--conf", conf.rstrip(","), "--", sys.executable, "-c",
             ALLOCATES % before], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONMALLOC": "malloc"},
            **more)
        self.addCleanup(self.kill, process)
        self.begun.append(process)
        return int(process.stdout.readline())

    def kill(self, process):
        process.kill()
        process.communicate()

    def end(self, code=0):
        """What the last process wrote on standard error. It ends by itself, as if nothing was."""
        process = self.begun.pop()
        errors = process.communicate("x", timeout=60)[1]
        self.assertEqual(process.returncode, code, errors)
        return errors

    def files(self, pid):
        return sorted(int(p.split(".")[-2]) for p in glob.glob(f"{self.prefix}.{pid}.*.heap"))

    def heap(self, pid, **more):
        return command.run("heap", str(pid), text=False, **more)

    def refused(self, pid, *words, **more):
        result = command.run("heap", str(pid), **more)
        self.assertEqual(result.stdout, "")
        self.expect(result, 1, "nearcpu heap: ", *words)


class OnDemand(Case):
    def test_it_writes_one(self):
        pid = self.begin()
        for n in range(2):
            result = self.heap(pid)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(self.files(pid), list(range(n + 1)))
            file = command.run("heap", f"{self.prefix}.{pid}.{n}.heap", text=False)
            self.assertEqual(result.stdout, file.stdout)
        self.assertEqual(self.end(), "")
        self.assertEqual(self.files(pid), [0, 1, 2])

    def test_a_relative_prefix(self):
        """Is the process's, which went elsewhere."""
        self.prefix = "relative"
        os.mkdir(self.path("sub"))
        pid = self.begin(f"os.chdir({self.path('sub')!r})")
        self.assertEqual(self.heap(pid).returncode, 0)
        self.assertEqual(os.listdir(self.path("sub")), [f"relative.{pid}.0.heap"])
        os.chdir(self.dir)

    def test_one_that_wrote_over_its_environment(self):
        """As setproctitle does. The command's own settings take its place."""
        pid = self.begin("import ctypes; at = open('/proc/self/stat').read().rsplit(')', 1)[1]"
                         ".split()[47:49]; "
                         "ctypes.memset(int(at[0]), 0, int(at[1]) - int(at[0]))")
        conf = f"heap_profile:{self.prefix},heap_signal:{SIGNAL}"
        result = command.run("heap", str(pid), drop=["NEAR_CONF"])
        self.expect(result, 1, "or has written over it")
        result = self.heap(pid, env={"NEAR_CONF": conf})
        self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_a_child_of_fork(self):
        parent = self.begin("os.fork()")
        child = int(self.begun[0].stdout.readline())
        for pid in (parent, child):
            result = self.heap(pid)
            self.assertEqual((result.returncode, result.stderr), (0, b""))
            self.assertEqual(self.files(pid), [0])

    def test_another_pid_namespace(self):
        """The process has another number there, and in the name of its file."""
        space = ["unshare", "--pid", "--fork"]
        if subprocess.run([*space, "true"], capture_output=True, check=False).returncode:
            self.skipTest("no pid namespace can be had")
        command_line = [*space, command.TOOL, "run", "--conf",
                        f"heap_profile:{self.prefix},heap_signal:{SIGNAL}", "--", sys.executable,
                        "-c", ALLOCATES % ""]
        process = subprocess.Popen(command_line, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True)
        self.addCleanup(self.kill, process)
        self.assertEqual(process.stdout.readline(), "1\n")
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            child = int(file.read())
        result = self.heap(child)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        self.assertEqual(self.files(1), [0])
        process.communicate("x")
        pid = self.begin()
        inside = subprocess.run([*space, command.TOOL, "heap", str(pid)], capture_output=True,
                                text=True, check=False)
        self.expect(inside, 1, "pid namespace that this command is not in")
        self.assertEqual(self.end(), "")


class Refused(Case):
    def test_what_cannot_write_one(self):
        self.refused(2147483647, "there is no process 2147483647 in this pid namespace")
        self.refused(os.getpid(), "does not have this library's malloc")
        pid = self.begin(f"signal.signal({SIGNAL}, signal.SIG_DFL)")
        self.refused(pid, f"has no handler of the signal {SIGNAL}")
        self.assertEqual(self.end(), "")
        pid = self.begin(conf="heap_signal:0")
        self.refused(pid, "was started without heap_signal in NEAR_CONF")
        process = subprocess.Popen([command.TOOL, "run", "cat"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.kill, process)
        process.stdin.write("ready\n")
        process.stdin.flush()
        process.stdout.readline()
        self.refused(process.pid, "was started without heap_profile in NEAR_CONF")

    def test_one_that_stopped_or_ended(self):
        pid = self.begin()
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        self.refused(pid, "is stopped")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(self.end(), "")
        self.refused(pid, "there is no process")
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.refused(ended.pid, "has ended")
        ended.wait()

    def test_one_that_ends_meanwhile(self):
        pid = self.begin(BLOCKS + "; import threading; "
                         f"threading.Thread(target=lambda: (signal.sigwait([{SIGNAL}]), "
                         "os._exit(0))).start()")
        self.refused(pid, "has ended")

    def test_a_folder_that_vanished(self):
        os.mkdir(self.path("sub"))
        self.prefix = self.path("sub/p")
        pid = self.begin()
        os.rmdir(self.path("sub"))
        self.refused(pid, "the folder of", "No such file or directory")
        self.assertRegex(self.end(), r"^nearcpu-malloc: heap profile: cannot create .*: "
                         r"no such directory\n$")

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_another_user(self):
        pid = self.begin()
        try:
            self.refused(pid, "another user's", preexec_fn=lambda: os.setuid(65534))
        except PermissionError:
            self.skipTest("another user cannot run the command here")
        self.assertEqual(self.end(), "")


class Intervals(Case):
    def await_files(self, pid, wanted):
        """Waits until the files pass the test."""
        for _ in range(600):
            if wanted(self.files(pid)):
                return
            time.sleep(.05)
        self.fail(f"there are {self.files(pid)}")

    def test_as_many_as_are_kept(self):
        """No other file goes, whatever its name is."""
        def plant():
            with open(f"{self.prefix}.{os.getpid()}.1.heap", "w", encoding="ascii") as file:
                file.write("precious")

        pid = self.begin("", "heap_interval:1,heap_keep:1", preexec_fn=plant)
        self.assertEqual(self.heap(pid).returncode, 0)
        self.await_files(pid, lambda files: len(files) == 3 and files[-1] >= 3)
        files = self.files(pid)
        self.assertEqual(self.end(), "")
        with open(f"{self.prefix}.{pid}.1.heap", encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")
        for n in files:
            if n != 1:
                result = command.run("heap", f"{self.prefix}.{pid}.{n}.heap", text=False)
                self.assertEqual((result.returncode, result.stderr), (0, b""))

    def test_a_folder_that_goes_and_a_full_disk(self):
        """One line tells of it, however many intervals there are. A part of a profile goes."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        full = self.begin("", "heap_interval:1", preexec_fn=limit)
        os.mkdir(self.path("sub"))
        prefix, self.prefix = self.prefix, self.path("sub/p")
        pid = self.begin("", "heap_interval:1")
        self.await_files(pid, len)
        os.rename(self.path("sub"), self.path("away"))
        time.sleep(2.5)
        os.rename(self.path("away"), self.path("sub"))
        had = len(self.files(pid))
        self.await_files(pid, lambda files: len(files) > had)
        self.assertRegex(self.end(), r"^nearcpu-malloc: heap profile: cannot create .*: "
                         r"no such directory\n$")
        self.refused(full, "could not write it whole: see its standard error")
        lines = self.end().splitlines()
        self.assertEqual(glob.glob(prefix + ".*"), [])
        self.assertEqual(len(lines), 3, lines)
        for line in lines:
            self.assertRegex(line, r"^nearcpu-malloc: heap profile: not written whole, and "
                             r"removed: .*\.heap: no space$")


if __name__ == "__main__":
    command.main()
