#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu info PID, as a user sees it.

usage: info_process_test.py NEARCPU PROGRAM [TEST...]
"""
import json
import os
import shutil
import subprocess
import sys
import time
import unittest

import command

READY = [sys.executable, "-c", "print('ready', flush=True); input()"]
NAME = "libnearcpu-malloc.so"
PROGRAM = ""


class Case(command.ScratchCase):
    def begin(self, *argv, env=None):
        """A process that waits; it has said so."""
        process = subprocess.Popen(argv, env={**os.environ, **(env or {})}, text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process.pid

    def info(self, pid):
        result = command.run("info", "--json", str(pid))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return json.loads(result.stdout)

    def refused(self, pid, code, *words, **more):
        result = command.run("info", str(pid), **more)
        self.assertEqual(result.stdout, "")
        self.expect(result, code, "nearcpu info: ", *words)


class Shown(Case):
    def expect_state(self, info):
        """As in this command's own process, which has the same settings."""
        own = json.loads(command.run("info", "--json").stdout)
        self.assertEqual(info["rseq"]["live"], own["rseq"]["live"])
        for key in ("count", "by", "why"):
            self.assertEqual(info["slots"][key], own["slots"][key])
        if not info["rseq"]["live"]:
            self.assertEqual(info["rseq"]["why"], own["rseq"]["why"])
        self.assertEqual(info["settings"]["NEAR_CONF"], os.environ.get("NEAR_CONF"))

    def test_preloaded(self):
        pid = self.begin(command.TOOL, "run", *READY)
        info = self.info(pid)
        self.expect_state(info)
        self.assertEqual((info["pid"], info["threads"]), (pid, 1))
        self.assertEqual(info["program"], os.path.realpath(sys.executable))
        library, = info["libraries"]
        self.assertIn(NAME, library.pop("file"))
        version = command.run("--version").stdout.split()[1]
        self.assertEqual(library, {"version": version.rsplit(".", 1)[0], "how": "preloaded",
                                   "core": True, "malloc": True, "atomic": False})
        self.assertIsNone(info["own_malloc"])

    def expect_threads(self, info, count):
        """How many there are, if it is known: with the same glibc as the command, by which they
        are registered."""
        threads = info["rseq"]["threads"]
        if threads is not None:
            self.assertTrue(info["rseq"]["live"])
            self.assertEqual(threads, {"live": count, "failed": 0, "none": 0, "unknown": 0})
        return threads is not None

    def test_threads(self):
        script = "import threading, time\nfor _ in range(3): threading.Thread(target=time.sleep, " \
                 "args=(99,), daemon=True).start()\nprint('ready', flush=True); input()"
        pid = self.begin(command.TOOL, "run", "--conf", "malloc_background:0", sys.executable, "-c",
                         script)
        info = self.info(pid)
        if self.expect_threads(info, 4):
            self.assertIn("threads         4 run sequences\n",
                          command.run("info", str(pid)).stdout)
        # Without the C library's registration there are none, and nothing is said of them.
        pid = self.begin(command.TOOL, "run", *READY,
                         env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        self.assertIsNone(self.info(pid)["rseq"]["threads"])

    def test_heap(self):
        region = self.path("region")
        script = "x = bytes(100 << 20)\nprint('ready', flush=True); input()"
        pid = self.begin(command.TOOL, "run", "--background", "--region", region,
                         sys.executable, "-c", script)
        for _ in range(200):
            heap = self.info(pid)["heap"]
            if heap and heap["in_use_bytes"] > 100 << 20:
                break
            time.sleep(.05)
        self.assertGreater(heap["in_use_bytes"], 100 << 20)
        self.assertGreaterEqual(heap["mapped_bytes"], heap["in_use_bytes"])
        self.assertRegex(command.run("info", str(pid)).stdout,
                         r"(?m)^heap +1\d\d\.\d MiB in use, 1\d\d\.\d mapped, ")
        os.unlink(region)
        self.assertIsNone(json.loads(command.run("info", "--json", str(pid)).stdout)["heap"])

    def test_no_heap(self):
        pid = self.begin(command.TOOL, "run", *READY)
        self.assertIsNone(self.info(pid)["heap"])
        pid = self.begin(*READY, env={"NEAR_CONF": "malloc_region:/dev/full"})
        self.refused(pid, 1, "has none of these libraries")

    def test_in_the_program(self):
        pid = self.begin(PROGRAM)
        info = self.info(pid)
        self.expect_state(info)
        self.assertEqual([(o["file"], o["how"], o["malloc"]) for o in info["libraries"]],
                         [(os.path.realpath(PROGRAM), "static", False)])
        text = command.run("info", str(pid)).stdout
        self.assertIn(f"process         {pid} (info_program), 1 thread\n", text)
        self.assertRegex(text, r"(?m)^libraries +in the program: core, version [0-9.]+, static$")
        self.assertIn(info["rseq"]["why"] + "\n", text)
        self.assertIn(info["slots"]["why"] + "\n", text)

    def test_another_version(self):
        with open(self.info(self.begin(command.TOOL, "run", *READY))["libraries"][0]["file"],
                  "rb") as file:
            library = bytearray(file.read())
        note = b"\x08\0\0\0\x08\0\0\0\x01\0\0\0Nearcpu\0"
        at = library.index(note) + len(note) + 4
        library[at:at + 4] = (77).to_bytes(4, sys.byteorder)
        self.write(NAME, bytes(library))
        info = self.info(self.begin(*READY, env={"LD_PRELOAD": self.path(NAME)}))
        self.assertEqual(info["libraries"][0]["version"], "0.77")
        self.assertIn("another version", info["rseq"]["why"])
        self.assertIsNone(info["rseq"]["live"])
        self.assertIsNone(info["slots"])

    def test_a_library_that_was_replaced(self):
        shutil.copy(command.run("run", "sh", "-c", "echo $LD_PRELOAD").stdout.strip(),
                    self.path(NAME))
        pid = self.begin(*READY, env={"LD_PRELOAD": self.path(NAME)})
        os.unlink(self.path(NAME))
        self.assertIn(NAME + " (deleted)", command.run("info", str(pid)).stdout)

    def test_a_library_of_32_bits(self):
        file = self.write(NAME, b"\x7fELF\x01" + bytes(4096))
        pid = self.begin(sys.executable, "-c", "import mmap; f = open(%r, 'r+b'); "
                         "m = mmap.mmap(f.fileno(), 0); print('ready', flush=True); input()" % file)
        info = self.info(pid)
        self.assertEqual([o["file"] for o in info["libraries"]], [file])
        self.assertIn("32 bits", info["rseq"]["why"])


class Refused(Case):
    def test_what_is_no_process(self):
        self.refused("x", 2, "not a process id")
        self.refused("0", 2, "not a process id")
        self.refused("2147483647", 1, "no process 2147483647 in this pid namespace")
        ended = subprocess.Popen(["true"])
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        self.refused(ended.pid, 1, "has ended")
        ended.wait()

    def test_kernel_thread(self):
        try:
            with open("/proc/2/comm", encoding="ascii") as file:
                name = file.read()
        except OSError:
            name = ""
        if name != "kthreadd\n":
            self.skipTest("no thread of the kernel in this pid namespace")
        self.refused(2, 1, "a thread of the kernel")

    def test_without_the_library(self):
        self.refused(self.begin(*READY, env={"LD_PRELOAD": ""}), 1, "has none of these libraries")
        pid = self.begin(*READY, env={"LD_PRELOAD": "/nonexistent/" + NAME})
        self.refused(pid, 1, "although LD_PRELOAD was set")

    @unittest.skipIf(os.geteuid() != 0, "only root can be another user")
    def test_another_user(self):
        pid = self.begin(PROGRAM)
        try:
            self.refused(pid, 1, "another user's", preexec_fn=lambda: os.setuid(65534))
        except PermissionError:
            self.skipTest("another user cannot run the command here")


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
