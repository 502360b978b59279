# SPDX-License-Identifier: MIT
"""Running the command, and what it has to print; what the tests of all subcommands share."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

TOOL = ""

# Why sequences are off with NEAR_CONF=rseq:off. A CPU without any reports that instead.
WHY_OFF = "NEAR_CONF=rseq:off"
NO_SEQUENCES = "this CPU has no sequences"

# Benchmarks whose rows run for as long as --iterations, and how many repetitions are enough.
FAST = ["hitcounter", "list", "refcount", "idspace", "cpuid", "counter", "memory"]
FEW = ["--iterations", "2000", "--repeat", "2"]


def run(*args, tool=None, env=None, drop=(), **more):
    full = {k: v for k, v in os.environ.items() if k not in drop}
    full.update(env or {})
    defaults = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                "timeout": 300, "text": True}
    return subprocess.run([tool or TOOL, *args], env=full, check=False, **{**defaults, **more})


def copy_with_bench(folder):
    """Of the command and its benchmarks; returns the command."""
    shutil.copy(os.path.join(os.path.dirname(TOOL), "nearcpu-bench"), folder)
    return shutil.copy(TOOL, folder)


def ignores_setuid(folder):
    """Whether programs there run without more rights: by a mount option, or as this process may
    not gain any (PR_SET_NO_NEW_PRIVS)."""
    with open("/proc/self/status", encoding="ascii") as status:
        return "NoNewPrivs:\t1\n" in status or bool(os.statvfs(folder).f_flag & os.ST_NOSUID)


def why_off():
    why = json.loads(run("info", "--json").stdout)["rseq"]["why"]
    return NO_SEQUENCES if NO_SEQUENCES in why else WHY_OFF


def processes():
    """What the descendants of this process wait for."""
    found, lines = {os.getpid()}, []
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            if int(parent) not in found:
                continue
            found.add(int(name))
            for task in os.listdir(f"/proc/{name}/task"):
                texts = []
                for what in ("comm", "wchan", "syscall"):
                    with open(f"/proc/{name}/task/{task}/{what}", errors="replace") as file:
                        texts.append(file.read().strip())
                lines.append(f"{name}/{task} {state} {' '.join(texts)}")
        except OSError:
            continue
    return "\n".join(lines)


def hang(_signal, _frame):
    raise AssertionError(f"the test hangs; its processes:\n{processes()}")


class Case(unittest.TestCase):
    """A test that takes LONGEST seconds fails, where it waits."""
    maxDiff = None
    LONGEST = int(os.environ.get("TOOL_TEST_LONGEST", 200))

    def run(self, result=None):
        signal.signal(signal.SIGALRM, hang)
        signal.alarm(self.LONGEST)
        try:
            return super().run(result)
        finally:
            signal.alarm(0)

    def folder(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        return scratch.name

    def expect(self, result, code, *words):
        """The exit code, and one line on standard error with these words in it."""
        self.assertEqual(result.returncode, code, result.stderr)
        lines = result.stderr.splitlines()
        if not words:
            self.assertEqual(lines, [])
            return
        self.assertTrue(lines and lines[0].startswith("nearcpu"), result.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        rest = lines[1:]
        if code == 2:
            self.assertEqual(len(rest), 1, result.stderr)
            self.assertRegex(rest[0], r"^Try 'nearcpu( \w+)? --help'\.$")
        else:
            self.assertEqual(rest, [])


class ScratchCase(Case):
    """With a directory for each test."""

    def setUp(self):
        self.dir = self.folder()
        os.chmod(self.dir, 0o755)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content, mode=0o755):
        with open(self.path(name), "wb") as file:
            file.write(content)
        os.chmod(self.path(name), mode)
        return self.path(name)


def main():
    """The tests of __main__; the first argument is the command."""
    global TOOL
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
