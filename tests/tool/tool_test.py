#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command nearcpu as a user sees it: options, exit codes, output, files, bad input.

usage: tool_test.py NEARCPU [TEST...]
"""
import ctypes
import errno
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import unittest

import command
from command import FAST, FEW, NO_SEQUENCES, Case, run
from files_cases import Files
from rows_cases import Rows

SANITIZED = bool(os.environ.get("TOOL_TEST_SANITIZED"))
__all__ = ["Files", "Rows"]  # cases of other files


def rseq_number():
    return 334 if os.uname().machine == "x86_64" else 293  # asm-generic


def deny(number, error):
    """Makes a system call fail with this error from now on, by a filter as containers have it."""
    class Program(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    steps = [(0x20, 0, 0, 0),  # load seccomp_data.nr
             (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error), (0x06, 0, 0, 0x7fff0000)]
    program = Program(len(steps), b"".join(struct.pack("HBBI", *step) for step in steps))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(38, 1, 0, 0, 0) or prctl(22, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


class CommandLine(Case):
    def test_help_and_version(self):
        for command in ([], ["info"], ["bench"]):
            for option in ("--help", "-h"):
                result = run(*command, option)
                self.expect(result, 0)
                self.assertTrue(result.stdout.startswith("usage: nearcpu"), result.stdout)
            result = run(*command, "--version")
            self.expect(result, 0)
            self.assertRegex(result.stdout, r"^nearcpu \d+\.\d+\.\d+\n")

    def test_help_names_what_there_is(self):
        text = run("--help").stdout
        self.assertRegex(text, r"(?m)^  info ")
        self.assertRegex(text, r"(?m)^  bench ")
        text = run("bench", "--help").stdout
        for option in ("list", "quick", "threads", "iterations", "repeat", "json", "html",
                       "report"):
            self.assertIn("--" + option, text)

    def test_wrong_usage(self):
        cases = [
            ([], "no subcommand"),
            (["frobnicate"], "there is no subcommand 'frobnicate'"),
            (["--frobnicate"], "there is no option '--frobnicate'"),
            (["-x"], "there is no option '-x'"),
            (["info", "--frobnicate"], "there is no option '--frobnicate'"),
            (["info", "--json=file"], "takes no value"),
            (["info", "extra"], "unexpected argument 'extra'"),
            (["bench", "-x"], "there is no option '-x'"),
            (["bench", "nosuch"], "there is no benchmark 'nosuch'"),
            (["bench", "--threads"], "needs a value"),
            (["bench", "--json", "same", "--html", "same"], "cannot both write"),
            (["bench", "--row", "hitcounter/nosuch", "1", "1"], "internal"),
        ]
        for value in ("0", "-1", "1000000", "two", "", "1,", ",1", "1,0", "1 2", "0x2",
                      "99999999999999999999"):
            cases.append((["bench", "--threads=" + value], "--threads takes"))
        for value in ("0", "-5", "1e6", "", "18446744073709551617"):
            cases.append((["bench", "--iterations=" + value], "--iterations takes"))
        for value in ("0", "-1", "1001", "x", ""):
            cases.append((["bench", "--repeat=" + value], "--repeat takes"))
        for args, words in cases:
            with self.subTest(args=args):
                result = run(*args)
                self.expect(result, 2, words)
                self.assertEqual(result.stdout, "")

    def test_help_as_a_subcommand(self):
        cases = [[], ["--help"], ["trace", "record"], ["trace", "show"]]
        for name in re.findall(r"(?m)^  ([a-z]+) ", run("help").stdout):
            cases.append([name])
        self.assertGreater(len(cases), 13)
        for args in cases:
            with self.subTest(args=args):
                result = run("help", *args)
                self.expect(result, 0)
                self.assertEqual(result.stdout, run(*args, "--help").stdout)
        for args, words in (
                (["trcae"], "nearcpu: there is no subcommand 'trcae'; did you mean 'trace'?"),
                (["trace", "recor"], "nearcpu trace: there is no subcommand 'recor'; did you "
                                     "mean 'record'?"),
                (["run", "true"], "nearcpu run: there is no subcommand 'true'"),
                (["run", "--", "true"], "nearcpu run: there is no subcommand '--'"),
                (["--frobnicate"], "there is no option '--frobnicate'"),
                (["trace", "record", "true"], "nearcpu record: there is no subcommand 'true'")):
            with self.subTest(args=args):
                result = run("help", *args)
                self.expect(result, 2, words)
                self.assertEqual(result.stdout, "")

    def test_the_nearest_name(self):
        cases = [
            (["stat"], "subcommand", "stat", "stats"),
            (["sttas"], "subcommand", "sttas", "stats"),
            (["STATS"], "subcommand", "STATS", "stats"),
            (["chedk"], "subcommand", "chedk", "check"),
            (["he"], "subcommand", "he", "heap"),
            (["helpp"], "subcommand", "helpp", "help"),
            (["s"], "subcommand", "s", None),
            ([""], "subcommand", "", None),
            (["list"], "subcommand", "list", None),
            (["stats" + 100 * "s"], "subcommand", "stats" + 100 * "s", None),
            (["\xe9tats"], "subcommand", "\xe9tats", "stats"),
            (["trace", "snapshto"], "subcommand", "snapshto", "snapshot"),
            (["trace", "stats"], "subcommand", "stats", "stat"),
            (["--hlep"], "option", "--hlep", "--help"),
            (["info", "--jsn"], "option", "--jsn", "--json"),
            (["info", "--jsn=1"], "option", "--jsn=1", "--json"),
            (["info", "--xml"], "option", "--xml", None),
            (["check", "--quite", "/bin/true"], "option", "--quite", "--quiet"),
            (["trace", "record", "--contxt", "ids", "true"], "option", "--contxt", "--context"),
            (["stats", "--prometheus_native"], "option", "--prometheus_native",
             "--prometheus-native"),
            (["bench", "--itterations", "1"], "option", "--itterations", "--iterations"),
            (["bench", "hitcuonter"], "benchmark", "hitcuonter", "hitcounter"),
            (["bench", "xyz"], "benchmark", "xyz", None),
            (["trace", "record", "--mode", "steam", "true"], "--mode", "steam", "stream"),
            (["trace", "record", "--mode", "none", "true"], "--mode", "none", None),
            (["trace", "record", "--level", "warn", "true"], "--level", "warn", "warning"),
            (["sim", "--prefer", "bot"], "--prefer", "bot", "both"),
            (["sim", "--load", "two,servres"], "load", "servres", "servers"),
            (["sim", "--policy", "6.4,idspce"], "policy", "idspce", "idspace"),
            (["run", "--conf", "slto:cpu", "true"], "setting", "slto", "slot"),
        ]
        for args, what, typed, name in cases:
            with self.subTest(args=args):
                result = run(*args)
                nearest = f"; did you mean '{name}'?" if name else ""
                self.expect(result, 2, f"there is no {what} '{typed}'{nearest}")
                self.assertEqual("did you mean" in result.stderr, bool(name))

    def test_without_the_benchmarks(self):
        """The command has none in it, and tells where they are."""
        tool = shutil.copy(command.TOOL, self.folder())
        for args in (["bench"], ["bench", "--list"], ["bench", "--frobnicate"]):
            result = run(*args, tool=tool)
            self.expect(result, 1, "nearcpu bench: nearcpu-bench was not found", "NEAR_BENCH")
            self.assertEqual(result.stdout, "")
        self.assertIn("no nearcpu-bench", run("info", tool=tool).stdout)
        with open(tool, "rb") as file:
            self.assertNotIn(b"hitcounter", file.read())

    def test_without_the_checker(self):
        tool = shutil.copy(command.TOOL, self.folder())
        result = run("check", "/bin/true", tool=tool)
        self.expect(result, 1, "nearcpu check: nearcpu-check was not found", "libelf and capstone")

    def test_list(self):
        result = run("bench", "--list")
        self.expect(result, 0)
        for name in FAST + ["sched"]:
            self.assertRegex(result.stdout, r"(?m)^%s " % name)
        result = run("bench", "--list", "hitcounter")
        self.expect(result, 0)
        self.assertNotIn("refcount", result.stdout)
        for row in ("mutex", "nsync", "atomic", "sharded", "near-off", "near-cpu", "near-cid",
                    "pinned"):
            self.assertRegex(result.stdout, r"(?m)^    %s " % row)


class Info(Case):
    def info(self, **more):
        result = run("info", "--json", **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_agrees_with_the_system(self):
        info = self.info()
        self.assertEqual(info["kernel"]["release"], os.uname().release)
        self.assertEqual(info["kernel"]["machine"], os.uname().machine)
        self.assertEqual(info["libc"], " ".join(os.confstr("CS_GNU_LIBC_VERSION").split()))
        self.assertEqual(info["cpus"]["allowed"]["count"], len(os.sched_getaffinity(0)))
        if os.path.exists("/sys/devices"):
            with open("/sys/devices/system/cpu/possible", encoding="ascii") as f:
                self.assertEqual(info["cpus"]["possible"]["list"], f.read().strip())
        self.assertGreaterEqual(info["slots"]["count"], 1)
        if info["rseq"]["live"]:
            self.assertGreaterEqual(info["rseq"]["registered_bytes"], 20)
            self.assertIn("rseq", info["rseq"]["membarrier"])
            self.assertGreater(info["slots"]["reserved_bytes"], 0)

    def test_follows_the_affinity(self):
        one = min(os.sched_getaffinity(0))
        info = self.info(preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual(info["cpus"]["allowed"], {"count": 1, "list": str(one)})

    def test_text_says_the_same(self):
        info = self.info()
        text = run("info").stdout
        self.assertIn(info["kernel"]["release"], text)
        self.assertIn(info["rseq"]["why"], text)
        self.assertIn(info["slots"]["why"], text)
        word = "live" if info["rseq"]["live"] else "not live"
        self.assertRegex(text, r"(?m)^rseq +%s: " % word)

    def test_names_a_filter(self):
        for error in (errno.EPERM, errno.ENOSYS):
            try:
                info = self.info(preexec_fn=lambda e=error: deny(rseq_number(), e),
                                 drop=["NEAR_CONF"])
            except subprocess.SubprocessError:
                self.skipTest("this kernel has no system call filters")
            self.assertFalse(info["rseq"]["live"])
            if NO_SEQUENCES not in info["rseq"]["why"]:
                self.assertIn("filter (seccomp)", info["rseq"]["why"])

    def test_switched_off(self):
        info = self.info(env={"NEAR_CONF": "rseq:off"})
        self.assertFalse(info["rseq"]["live"])
        self.assertIn(command.why_off(), info["rseq"]["why"])
        self.assertEqual(info["rseq"]["registered_by"], "nobody")
        self.assertEqual(info["settings"]["NEAR_CONF"], "rseq:off")

    def test_fences_forbidden(self):
        info = self.info(env={"NEAR_CONF": "fence:off"})
        self.assertFalse(info["rseq"]["live"])

    def test_own_area(self):
        usual = self.info(env={"NEAR_CONF": ""}, drop=["GLIBC_TUNABLES"])
        if not usual["rseq"]["live"]:
            self.skipTest("no rseq: " + usual["rseq"]["why"])
        info = self.info(env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0", "NEAR_CONF": ""})
        self.assertTrue(info["rseq"]["live"], info["rseq"]["why"])
        self.assertEqual(info["rseq"]["registered_by"], "nearcpu")

    def test_slots(self):
        info = self.info(env={"NEAR_CONF": "slot:cpu"})
        self.assertEqual(info["slots"]["by"], "cpu")

    def test_settings_that_are_no_text(self):
        result = subprocess.run([command.TOOL, "info", "--json"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, check=False,
                                env={**os.environb, b"NEAR_CONF": b"\xff\x01:\xfe"})
        self.assertEqual(result.returncode, 0)
        self.assertEqual(json.loads(result.stdout)["settings"]["NEAR_CONF"], "??:?")

    def test_bad_setting_warns_once(self):
        result = run("bench", "refcount", "--threads", "1", *FEW, env={"NEAR_CONF": "nosuch:1"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("NEAR_CONF"), 1, result.stderr)

    @unittest.skipIf(SANITIZED, "sanitizers need much address space")
    def test_too_little_address_space(self):
        refused = 0
        for megabytes in range(40, 4, -1):
            limit = megabytes << 20
            result = run("info", preexec_fn=lambda limit=limit: resource.setrlimit(
                resource.RLIMIT_AS, (limit, limit)))
            if result.returncode in (127, -signal.SIGSEGV, -signal.SIGKILL):
                break  # the loader itself had not enough
            self.assertEqual(result.returncode, 0, result.stderr)
            refused += "nothing: Cannot allocate memory" in result.stdout
        self.assertGreater(refused, 0)


if __name__ == "__main__":
    command.main()
