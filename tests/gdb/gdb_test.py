#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What gdb shows of the structures, of a process and of core files.

usage: gdb_test.py CMAKE BUILD LIBRARY SHARED_PROGRAM STATIC_PROGRAM [TEST...]
"""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE = BUILD = LIBRARY = SHARED = STATIC = ""
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(SOURCE, "packaging", "gdb.py")
MODES = ("", "rseq:off")
THREADS = "python for t in gdb.selected_inferior().threads(): print('@@', t.ptid[1], t.num)"


def run_gdb(*commands, program, options=(), near_conf="", folder=None):
    """What gdb prints for these commands."""
    argv = ["gdb", "-nx", "-q", "-batch", *options]
    for command in ("set width 0", "set print elements 0", "set startup-with-shell off",
                    *commands):
        argv += ["-ex", command]
    env = {**os.environ, "NEAR_CONF": near_conf, "LC_ALL": "C", "DEBUGINFOD_URLS": ""}
    if folder:
        env["LD_LIBRARY_PATH"] = folder
    result = subprocess.run([*argv, program], env=env, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100,
                            check=False)
    if "ptrace" in result.stdout and "not permitted" in result.stdout:
        raise unittest.SkipTest("ptrace is not permitted")
    return result.stdout


def possible_cpus():
    try:
        with open("/sys/devices/system/cpu/possible", encoding="ascii") as file:
            return int(re.split("[-,]", file.read().strip())[-1]) + 1
    except OSError:
        return os.cpu_count()


def expected_lines(output):
    """{expression: what gdb is to print}"""
    lines = (line.split(" ", 1) for line in output.splitlines())
    return {line[0]: line[1].replace("  ", " ").strip() for line in lines
            if len(line) == 2 and re.fullmatch(r"\*?[a-z_]+", line[0])}


def shown(output):
    """The same of what gdb printed: without addresses that have a name, and numbers of slots."""
    parts = re.findall(r"^@([*a-z_]+)@\n(.*)$", output, re.M)
    found = {}
    for name, text in parts:
        text = re.sub(r"slot \d+\[", "slot[", text)
        found[name] = re.sub(r"0x[0-9a-f]+ (?=<)", "", text).replace("  ", " ")
    return found


class Shown(unittest.TestCase):
    """Each test: with and without sequences, in a process and in core files."""
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def compare(self, expected, output, stripped):
        """Of a library without debugging information, what the printers then say."""
        threads = dict(re.findall(r"^@@ (\d+) (\d+)$", output, re.M))
        wanted = {name: re.sub(r"\bT(\d+)", lambda m: "tid %s (thread %s)" % (
            m.group(1), threads.get(m.group(1))), text) for name, text in expected.items()}
        found = shown(output)
        if stripped:
            for name in ("objects", "new_pool"):
                wanted.pop(name)
                self.assertRegex(found.pop(name), r"^\d+ idle in slots; the rest needs debugging "
                                 r"information of libnearcpu$")
            wanted["of_parent"] = "free, threads wait"
        self.assertEqual(found, wanted, output)

    def commands(self, expected):
        prints = [THREADS]
        for name in expected:
            prints += [f"echo \\n@{name}@\\n", f"output {name}"]
        return [*prints, "echo \\n"]

    def names(self, program, folder):
        """The expressions that the program has lines for."""
        env = {**os.environ, "LD_LIBRARY_PATH": folder or "", "NEAR_CONF": ""}
        result = subprocess.run([program], env=env, stdout=subprocess.PIPE, text=True, check=True,
                                timeout=60)
        names = list(expected_lines(result.stdout))
        self.assertGreater(len(names), 25)
        return names

    def has_debugging_information(self):
        """The library: builds of type None or Release have none."""
        return "per_chunk" in run_gdb("ptype struct near__pool", program=LIBRARY)

    def check(self, program, stripped=False, folder=None, options=(), source=()):
        names = self.names(program, folder)
        stripped = stripped or not self.has_debugging_information()
        for conf in MODES:
            core = os.path.join(self.folder, "core")
            more = {"program": program, "folder": folder, "options": options, "near_conf": conf}
            dump = [f"generate-core-file {core}"] if possible_cpus() <= 8 else []
            output = run_gdb(*source, "break show", "run", *self.commands(names), *dump, **more)
            self.assertIn("hit Breakpoint 1", output)
            expected = expected_lines(output.split("\n@")[0])
            with self.subTest(conf=conf, of="process"):
                self.compare(expected, output, stripped)
            if not dump:  # it would be large: a MiB per CPU for each size of objects
                continue
            with self.subTest(conf=conf, of="gcore"):
                output = run_gdb(*source, f"core-file {core}", *self.commands(expected), **more)
                self.compare(expected, output, stripped)
            os.unlink(core)

    def test_static(self):
        self.check(STATIC, source=[f"source {SCRIPT}"])

    def test_shared(self):
        """Installed: gdb finds the script by itself."""
        self.check(SHARED, **self.installed())

    def test_stripped(self):
        more = self.installed()
        library = os.path.join(more["folder"], os.path.basename(LIBRARY))
        subprocess.run(["strip", library], check=True)
        self.check(SHARED, stripped=True, **more)

    def installed(self):
        prefix = os.path.join(self.folder, "prefix")
        subprocess.run([CMAKE, "--install", BUILD, "--prefix", prefix], check=True,
                       stdout=subprocess.DEVNULL)
        folder, = {path for path, _, files in os.walk(prefix) if os.path.basename(LIBRARY) in files}
        scripts = os.path.join(prefix, "share", "gdb", "auto-load")
        return {"folder": folder, "options": ["-iex", f"set auto-load scripts-directory {scripts}",
                                              "-iex", f"set auto-load safe-path {scripts}"]}

    def test_abort(self):
        """A core file of the kernel."""
        with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
            pattern = file.read().strip()
        with open("/proc/sys/kernel/core_uses_pid", encoding="ascii") as file:
            uses_pid = file.read().strip() == "1" and "%p" not in pattern
        if pattern.startswith("|") or re.search(r"%[^p]", pattern) or not pattern:
            self.skipTest(f"core files go to {pattern}")
        if resource.getrlimit(resource.RLIMIT_CORE)[1] != resource.RLIM_INFINITY:
            self.skipTest("core files are limited")
        for conf in MODES:
            with subprocess.Popen(
                    [STATIC, "abort"], env={**os.environ, "NEAR_CONF": conf}, cwd=self.folder,
                    text=True, stdout=subprocess.PIPE, preexec_fn=lambda: resource.setrlimit(
                        resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)) as process:
                expected = expected_lines(process.communicate(timeout=60)[0])
            self.assertEqual(process.returncode, -6)
            core = os.path.join(self.folder, pattern.replace("%p", str(process.pid)))
            core += f".{process.pid}" if uses_pid else ""
            self.addCleanup(os.unlink, core)
            output = run_gdb(f"source {SCRIPT}", f"core-file {core}", *self.commands(expected),
                             program=STATIC)
            with self.subTest(conf=conf):
                self.compare(expected, output, not self.has_debugging_information())


def main():
    global CMAKE, BUILD, LIBRARY, SHARED, STATIC
    CMAKE = sys.argv[1]
    BUILD, LIBRARY, SHARED, STATIC = map(os.path.realpath, sys.argv[2:6])
    has_python = shutil.which("gdb") and "fine" in subprocess.run(
        ["gdb", "-nx", "-q", "-batch", "-ex", "python print('fi' + 'ne')"], check=False, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    if not has_python:
        print("skipped: no gdb with Python")
        return 77
    result = unittest.main(argv=[sys.argv[0], *sys.argv[6:]], exit=False).result
    if result.wasSuccessful() and len(result.skipped) == result.testsRun:
        return 77
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
