#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu ids: what is certain of a program with known threads, and what cannot be observed.

usage: ids_test.py NEARCPU [TEST...]
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import command
import terminal

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ids_program.c")


def run(*args, **more):
    return command.run("ids", *args, **more)


class IdsCase(command.ScratchCase):
    program = None

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        os.chmod(scratch.name, 0o755)
        cls.program = cls.compile(scratch.name, "-pthread")
        result = run("true")
        if "ptrace is refused" in result.stderr:
            raise unittest.SkipTest(result.stderr)

    @staticmethod
    def compile(folder, *options):
        program = os.path.join(folder, "ids_program")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", SOURCE, "-o", program, *options],
                       check=True)
        return program

    def observe(self, *args, code=0, **more):
        """The JSON, and the text."""
        path = self.path("json")
        result = run("--json", path, "--", *args, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        with open(path, encoding="utf-8") as file:
            return json.load(file), result.stderr

    def scenario(self, *args, **more):
        return self.observe(self.program, *map(str, args), **more)[0]


class Counts(IdsCase):
    def expect_counts(self, seen, processes, threads, at_most):
        self.assertEqual([seen["processes_ever"], seen["threads_ever"], seen["threads_at_most"]],
                         [processes, threads, at_most], seen)
        self.assertEqual(sum(p["threads"] for p in seen["processes"]), threads)
        self.assertEqual(len(seen["processes"]), processes)

    def test_threads(self):
        self.expect_counts(self.scenario("nothing"), 1, 1, 1)
        self.expect_counts(self.scenario("together", 3), 1, 4, 4)
        seen = self.scenario("turns", 50)
        self.expect_counts(seen, 1, 51, 2)
        self.assertEqual(seen["copies"]["threads_ever"], {"largest_process": 51,
                                                          "all_at_one_moment": 51})
        self.assertEqual(seen["copies"]["threads_alive"]["largest_process"], 2)

    def test_processes(self):
        seen = self.scenario("forks", 5)
        self.expect_counts(seen, 6, 6, 2)
        self.assertEqual(seen["copies"]["possible_cpus"], {
            "largest_process": seen["possible_cpus"],
            "all_at_one_moment": 2 * seen["possible_cpus"]})
        self.expect_counts(self.scenario("spawns", 3), 4, 4, 2)
        seen, _ = self.observe("sh", "-c", "true | cat; exec sleep 0")
        self.assertEqual(seen["processes"][0]["name"], "sleep")
        self.assertEqual(seen["processes_ever"], 3)
        # The program ends first.
        self.expect_counts(self.observe("sh", "-c", "sleep .1 & exit 4", code=4)[0], 2, 2, 2)

    def test_exec_by_another_thread(self):
        seen = self.scenario("exec")
        self.expect_counts(seen, 1, 2, 2)
        self.assertEqual(seen["threads_without_registration"], 0)

    def test_ids(self):
        seen = self.scenario("pinned", 3)
        process, = seen["processes"]
        allowed = sorted(os.sched_getaffinity(0))
        self.assertLessEqual(set(allowed[:3]), set(process["cpus"]))
        self.assertLessEqual(set(process["cpus"]), set(allowed))
        self.assertEqual(seen["copies"]["cpus_used"]["largest_process"], len(process["cpus"]))
        if seen["notices"]:
            self.skipTest(str(seen["notices"]))
        cids = process["cids"]
        self.assertLess(max(cids), seen["possible_cpus"])
        self.assertEqual(seen["copies"]["cids"]["largest_process"], max(cids) + 1)
        self.assertEqual(seen["copies"]["node_cids"]["largest_process"], process["node_cids"])
        self.assertGreaterEqual(process["node_cids"], len(cids))

    def test_without_registration(self):
        path = self.path("json")
        result = run("--json", path, "--", self.program, "together", "3",
                     env={"GLIBC_TUNABLES": "glibc.pthread.rseq=0"})
        self.assertIn("4 threads have no registration; their ids are unknown", result.stderr)
        with open(path, encoding="utf-8") as file:
            seen = json.load(file)
        self.expect_counts(seen, 1, 4, 4)
        self.assertEqual(seen["threads_without_registration"], 4)
        self.assertEqual(seen["processes"][0]["cids"], [])
        self.assertTrue(seen["processes"][0]["cpus"])
        self.assertIsNone(seen["copies"]["cids"]["largest_process"])

    def test_static(self):
        try:
            program = self.compile(self.dir, "-static", "-pthread")
        except subprocess.CalledProcessError:
            self.skipTest("no static C library")
        dynamic, (static, _) = self.scenario("turns", 5), self.observe(program, "turns", "5")
        self.expect_counts(static, 1, 6, 2)
        self.assertEqual(static["threads_without_registration"],
                         dynamic["threads_without_registration"])
        self.assertEqual(bool(static["processes"][0]["cids"]),
                         bool(dynamic["processes"][0]["cids"]))

    def test_text(self):
        result = run("--size", "1000000", "--interval=500", self.program, "turns", "9")
        self.assertEqual(result.stdout, "")
        for words in (r"exit status 0\n", r"s; 1 process; 10 threads, at most 2 at a time; ",
                      r"\n +\d+ ids_program +10 +2 ", r"copies of 977 KiB\n",
                      r"\n  per thread ever +10 +9766 KiB\n"):
            self.assertRegex(result.stderr, words)
        for line in result.stderr.splitlines():
            self.assertLessEqual(len(line), 100)


class Through(IdsCase):
    def test_exit_status(self):
        for code in (0, 1, 77, 255):
            result = run("sh", "-c", f"exit {code}")
            self.assertEqual(result.returncode, code)
            self.assertIn(f"exit status {code}\n", result.stderr)
        for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE):
            result = run("sh", "-c", f"kill -{int(sig)} $$")
            self.assertEqual(result.returncode, -sig)
            self.assertIn(f"killed by signal {int(sig)}\n", result.stderr)

    def test_streams_and_signals(self):
        self.assertEqual(run("cat", stdin=None, input="in\nout\n").stdout, "in\nout\n")
        result = run("sh", "-c", "trap 'echo caught' USR1; kill -USR1 $$; echo done")
        self.assertEqual(result.stdout, "caught\ndone\n")

    def test_job_control(self):
        self.scenario("job")

    def start(self):
        child = subprocess.Popen(  # pylint: disable=consider-using-with
            [command.TOOL, "ids", self.program, "sleep"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=os.setpgrp)
        self.addCleanup(child.communicate)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    def test_signals_to_the_command(self):
        for sig in (signal.SIGINT, signal.SIGTERM):
            child = self.start()
            child.send_signal(sig)
            _, text = child.communicate()
            self.assertEqual(child.returncode, -sig)
            self.assertIn(f"killed by signal {int(sig)}\n", text)

    def test_stopping(self):
        child = self.start()
        child.send_signal(signal.SIGTSTP)  # the program stops, and then the command
        _, status = os.waitpid(child.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        child.send_signal(signal.SIGCONT)
        child.terminate()
        child.communicate()
        self.assertEqual(child.returncode, -signal.SIGTERM)

    def test_ctrl_c(self):
        pid, master = terminal.fork_on_terminal(self)
        if pid == 0:
            os.execv(command.TOOL, ["nearcpu", "ids", self.program, "sleep"])
        self.addCleanup(os.close, master)
        text = b""
        while b"ready" not in text:
            text += os.read(master, 4096)
        os.write(master, b"\x03")
        self.assertEqual(os.waitpid(pid, 0)[1], signal.SIGINT)

    def test_program_outlives_the_command(self):
        child = self.start()
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
            program = int(file.read())
        child.kill()
        child.wait()
        os.kill(program, signal.SIGTERM)  # it is there


class Refused(IdsCase):
    def refused(self, result, code, *words):
        self.assertFalse(result.stdout)
        self.expect(result, code, *words)

    def test_usage(self):
        for args, words in ((["--size=0", "true"], "--size takes"),
                            (["--size=1k", "true"], "--size takes"),
                            (["--interval=99", "true"], "--interval takes"),
                            (["--interval", "true"], "--interval takes"),
                            (["--bad", "true"], "--bad"), ([], "no program given"),
                            (["--"], "no program given")):
            self.refused(run(*args), 2, words)

    def test_missing_programs(self):
        plain = self.write("plain", b"text", 0o644)
        self.refused(run("/none/such"), 127, "cannot run '/none/such': No such file")
        self.refused(run("no-such-program"), 127, "cannot run 'no-such-program'")
        self.refused(run(plain), 126, "Permission denied")
        self.refused(run(self.dir), 126, "Permission denied")

    def test_outputs(self):
        for option in ("--json", "--html"):
            self.refused(run(option, self.path("none/x"), "echo", "ran"), 1, "No such file")
            self.refused(run(option, self.dir, "echo", "ran"), 1, "Is a directory")
            result = run(option, "/dev/full", "true")
            self.assertEqual(result.returncode, 1)
            self.assertIn("cannot write '/dev/full': No space left", result.stderr)
            self.assertEqual(run(option, "/dev/full", "sh", "-c", "exit 5").returncode, 5)
        result = run("--json", "-", "true")
        self.assertEqual(json.loads(result.stdout)["exit_status"], 0)

    def test_inside_itself(self):
        """Ptrace is refused where another process traces."""
        # Nor does the leak detector work there.
        result = run(command.TOOL, "ids", "true", env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertEqual(result.returncode, 126)
        self.assertIn("cannot observe 'true': ptrace is refused", result.stderr)

    @unittest.skipIf(os.geteuid(), "needs root, to make a program setuid")
    def test_setuid(self):
        program = shutil.copy("/bin/true", self.path("true"))
        os.chmod(program, 0o4755)
        tool = shutil.copy(command.TOOL, self.path("nearcpu"))

        def drop():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

        if command.ignores_setuid(self.dir):
            self.skipTest("no setuid programs in the temporary directory")
        self.refused(run(program, tool=tool, preexec_fn=drop), 126,
                     "gets more rights than you have (setuid)")
        self.assertEqual(run("/bin/true", tool=tool, preexec_fn=drop).returncode, 0)


if __name__ == "__main__":
    command.main()
