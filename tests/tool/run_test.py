#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu run, as a user sees it: what passes through, what is refused, statistics, comparison.

usage: run_test.py NEARCPU [TEST...]
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import command
import terminal

PYTHON = os.path.realpath(sys.executable)
NAME = "libnearcpu-malloc.so"


def run(*args, **more):
    return command.run("run", *args, drop=["LD_PRELOAD"], **more)


class Case(command.ScratchCase):
    def refused(self, result, code, *words):
        """The exit status, nothing on standard output, one line with these words."""
        self.assertFalse(result.stdout)
        self.expect(result, code, "nearcpu run: ", *words)


class Through(Case):
    def test_is_preloaded(self):
        for options in ([], ["--stats"]):
            result = run(*options, PYTHON, "-c", "print(open('/proc/self/maps').read())")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(NAME, result.stdout)

    def test_environment(self):
        result = run("sh", "-c", "echo $LD_PRELOAD; echo $NEAR_CONF",
                     env={"LD_PRELOAD": "", "NEAR_CONF": "slot:cpu"})
        preload, conf = result.stdout.splitlines()
        self.assertTrue(os.path.isabs(preload) and NAME in preload, preload)
        self.assertEqual(conf, "slot:cpu")
        result = run("--no-rseq", "--check", "--conf=malloc_age:5", "--background", "--", "sh",
                     "-c", "echo $LD_PRELOAD; echo $NEAR_CONF",
                     env={"LD_PRELOAD": "libc.so.6", "NEAR_CONF": "slot:cpu"})
        self.assertEqual(result.stdout.splitlines(), [
            preload + ":libc.so.6",
            "slot:cpu,rseq:off,malloc_check:1,malloc_age:5,malloc_background:1"])

    def test_exit_status(self):
        for options in ([], ["--stats"]):
            for code in (0, 1, 2, 77, 255):
                result = run(*options, "sh", "-c", f"exit {code}")
                self.assertEqual(result.returncode, code)
            for sig in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE):
                result = run(*options, "sh", "-c", f"kill -{int(sig)} $$")
                self.assertEqual(result.returncode, -sig)

    def test_standard_streams(self):
        for options in ([], ["--stats"]):
            result = run(*options, "cat", stdin=None, input="in\nout\n")
            self.assertEqual(result.stdout, "in\nout\n")

    def test_ignored_signals_stay_ignored(self):
        show = "import signal; print(signal.getsignal(signal.SIGHUP), " \
               "signal.getsignal(signal.SIGUSR1), signal.pthread_sigmask(0, []))"
        for options in ([], ["--stats"]):
            result = run(*options, PYTHON, "-c", show, preexec_fn=lambda: signal.signal(
                signal.SIGHUP, signal.SIG_IGN))
            self.assertRegex(result.stdout, r"^(Handlers.SIG_IGN|1) (Handlers.SIG_DFL|0) set\(\)")


class OwnMalloc(Case):
    """What the command says of a program's own malloc, on a terminal and elsewhere."""

    def program(self, *functions):
        source = self.write("own.c", "".join(f"int {f}(void) {{ return 0; }}\n"
                                             for f in (*functions, "main")).encode())
        subprocess.run([*os.environ.get("CC", "cc").split(), "-fno-builtin", "-o",
                        self.path("own"), source], check=True)
        return self.path("own")

    def said(self, *args):
        ours, its = terminal.open_terminal(self)
        try:
            self.assertEqual(run(*args, stderr=its).returncode, 0)
        finally:
            os.close(its)
        with os.fdopen(ours, "rb", buffering=0) as file:
            try:
                return file.read(4096).decode()
            except OSError:  # nothing was written, and the other end is closed
                return ""

    def test_is_named_on_a_terminal(self):
        for function, name in (("mi_malloc", "mimalloc"), ("je_mallctl", "jemalloc"),
                               ("tc_malloc", "tcmalloc")):
            program = self.program(function)
            said = self.said(program)
            self.assertEqual(said.count("\n"), 1, said)
            self.assertIn(f"'{program}' has a malloc of its own, {name}: ", said)
            self.assertEqual(run(program).stderr, "")
        self.assertEqual(self.said(self.program("xmalloc")), "")
        self.assertEqual(self.said("true"), "")


class Refused(Case):
    def test_usage(self):
        for args, words in [
                ([], "no program given"), (["--stats"], "no program given"),
                (["--stats", "--compare", "true"], "exclude each other"),
                (["--repeat", "3", "true"], "go with --compare"),
                (["--json", "x", "true"], "--json goes with"),
                (["--frobnicate", "true"], "there is no option '--frobnicate'"),
                (["--compare", "--repeat", "0", "true"], "--repeat takes"),
                (["--compare", "--repeat", "x", "true"], "--repeat takes"),
                (["--conf", "x:" + "1" * 5000, "true"], "too long"),
                (["--conf", "foo:bar", "true"], "no setting 'foo'"),
                (["--conf", "rseq", "true"], "'rseq' is not rseq:on|off"),
                (["--conf", "slot:cpu,slot:cp", "true"], "is not slot:auto|cpu|cid"),
                (["--conf", "malloc_age:x", "true"], "is not malloc_age:"),
                (["--conf", "heap_sample:99999999999999999999k", "true"], "heap_sample:BYTES"),
                (["--conf", "trace:", "true"], "is not trace:PATH"),
                (["--heap-profile", "a,b", "true"], "has a comma"),
        ]:
            with self.subTest(args=args):
                self.refused(run(*args), 2, words)

    def test_what_is_no_program(self):
        self.refused(run("no-such-program"), 127, "'no-such-program'", "not found")
        self.refused(run("./no-such-program"), 127, "does not exist")
        self.refused(run(self.dir), 126, "Is a directory")
        self.refused(run(self.write("data", b"\x7fELF", 0o644)), 126, "Permission denied")
        self.refused(run("data", env={"PATH": self.dir}), 126, "Permission denied")
        self.refused(run("--stats", "no-such-program"), 127, "not found")
        self.refused(run("--compare", "no-such-program"), 127, "not found")

    def test_scripts(self):
        self.refused(run(self.write("a", b"#!/nonexistent/sh\n")), 127, "interpreter",
                     "'/nonexistent/sh'")
        result = run(self.write("b", b"#! /bin/sh -e\necho $LD_PRELOAD\n"))
        self.assertIn(NAME, result.stdout)
        result = run(self.write("c", b"echo $LD_PRELOAD\n"))  # execvp runs the shell
        self.assertIn(NAME, result.stdout)
        result = run("b", env={"PATH": self.dir + ":" + os.environ["PATH"]})
        self.assertIn(NAME, result.stdout)
        static = self.elf(static=True)
        self.refused(run(self.write("d", f"#!{static}\n".encode())), 126, "interpreter", "static")

    def elf(self, static=False, machine=None, bits=None, interpreter=None, libc=b"libc.so.6"):
        """A copy of a program, changed."""
        with open(shutil.which("true"), "rb") as f:
            data = bytearray(f.read().replace(b"libc.so.6", libc))
        start, = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        for at in range(start, start + size * count, size):
            kind, = struct.unpack_from("<I", data, at)
            offset, = struct.unpack_from("<Q", data, at + 8)
            if kind == 3 and static:
                struct.pack_into("<I", data, at, 0)
            elif kind == 3 and interpreter:
                data[offset:offset + len(interpreter) + 1] = interpreter.encode() + b"\0"
        if machine:
            struct.pack_into("<H", data, 18, machine)
        if bits:
            data[4] = 1 if bits == 32 else 2
        return self.write(f"elf{static}{machine}{bits}{bool(interpreter)}", bytes(data))

    def test_what_cannot_be_preloaded(self):
        self.refused(run(self.elf(static=True)), 126, "is static", "libnearcpu-malloc.a")
        self.refused(run(self.elf(machine=22)), 126, "is for s390 with 64 bits")
        self.refused(run(self.elf(bits=32)), 126, "32 bits")
        self.refused(run(self.elf(interpreter="/lib/ld-musl-x.so.1")), 126, "musl", "--library")
        self.refused(run("--library", self.elf(libc=b"libc.so.X"), "true"), 126, "with glibc")
        self.assertEqual(run(self.elf()).returncode, 0)

    @unittest.skipIf(os.geteuid() != 0, "only root can make such programs")
    def test_more_rights(self):
        if command.ignores_setuid(self.dir):
            self.skipTest("no setuid programs in " + self.dir)
        program = shutil.copy(shutil.which("true"), self.path("suid"))
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.refused(run(program), 126, "setuid", "libnearcpu-malloc")
        os.chmod(program, 0o2755)
        self.refused(run(program), 126, "setgid")
        os.chmod(program, 0o2745)  # without the group's x it means something else
        self.assertEqual(run(program).returncode, 0)
        os.chown(program, 0, 0)
        os.chmod(program, 0o4755)  # which gives root nothing more
        self.assertEqual(run(program).returncode, 0)

    def test_library(self):
        os.mkdir(self.path("bin"))
        copy = shutil.copy(command.TOOL, self.path("bin/nearcpu"))
        self.refused(run("true", tool=copy), 1, NAME, "--library")
        info = subprocess.run([copy, "info", "--json"], check=True, stdout=subprocess.PIPE)
        self.assertIsNone(json.loads(info.stdout)["malloc_library"])
        self.refused(run("--library", "/nonexistent", "true"), 1, "/nonexistent")
        library = run("sh", "-c", "echo $LD_PRELOAD").stdout.strip()
        info = subprocess.run([command.TOOL, "info"], check=True, stdout=subprocess.PIPE)
        self.assertIn(f"malloc library  {library}\n", info.stdout.decode())
        other = shutil.copy(library, self.path("a b.so"))
        self.refused(run("--library", other, "true"), 1, "colon or a space")
        for where in ("libnearcpu-malloc.so", "other.so"):
            os.symlink(library, self.path(where))
        self.assertEqual(run("true", tool=copy).returncode, 0)
        result = run("--library", self.path("other.so"), "sh", "-c", "echo $LD_PRELOAD", tool=copy)
        self.assertEqual(result.stdout.strip(), os.path.realpath(library))

    def test_one_warning_for_all_processes(self):
        result = run("sh", "-c", f"for i in 1 2 3; do {PYTHON} -c 1; done; echo $NEAR_CONF",
                     env={"NEAR_CONF": "foo:bar,malloc_age:x,slot:cpu"})
        self.assertEqual(sorted(line.split("'")[1] for line in result.stderr.splitlines()),
                         ["foo:bar", "malloc_age:x"], result.stderr)
        self.assertTrue(result.stdout.endswith(",slot:cpu\n"))


class Stats(Case):
    KEEP = "x = [bytes(300) for i in range(5000)]"

    def stats(self, *args, code=0, **more):
        result = run("--stats", "--json", self.path("s.json"), *args, **more)
        self.assertEqual(result.returncode, code, result.stderr)
        with open(self.path("s.json"), encoding="utf-8") as f:
            return json.load(f)

    def test_json(self):
        report = self.stats(PYTHON, "-c", self.KEEP, env={"PYTHONMALLOC": "malloc"})
        self.assertEqual(report["program"], [PYTHON, "-c", self.KEEP])
        self.assertEqual(report["exit_status"], 0)
        self.assertEqual(report["processes"], 1)
        self.assertGreater(report["peak_bytes"], 1500000)
        self.assertGreater(report["minor_faults"], 100)
        own, total = report["malloc"], report["all_processes"]
        self.assertEqual(own["misses"], total["misses"])
        self.assertEqual(own["misses"], sum(c["misses"] for c in own["by_class"]))
        self.assertEqual(len(own["by_class"]), own["classes"])
        sizes = {c["size"]: c for c in total["by_class"]}
        # 5,000 blocks come in lists of at most 42.
        self.assertGreaterEqual(sizes[384]["misses"], 5000 // 42)
        self.assertLess(sizes[384]["misses"], 2000)

    def test_all_processes(self):
        script = f"'{PYTHON}' -c '{self.KEEP}'; '{PYTHON}' -c '{self.KEEP}'; exit 3"
        report = self.stats("sh", "-c", script, code=3, env={"PYTHONMALLOC": "malloc"})
        self.assertEqual(report["exit_status"], 3)
        self.assertGreaterEqual(report["processes"], 2)
        self.assertGreater(report["all_processes"]["misses"], 2 * 5000 // 42)

    def test_text(self):
        os.mkdir(self.path("tmp"))
        result = run("--stats", PYTHON, "-c", "print('out'); exit(4)",
                     env={"TMPDIR": self.path("tmp")})
        self.assertEqual((result.returncode, result.stdout), (4, "out\n"))
        for words in ("exit status 4", "s wall, ", "peak memory ", "allocations ", "given back ",
                      "bytes "):
            self.assertIn(words, result.stderr)
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_a_killed_program_leaves_none(self):
        report = self.stats("sh", "-c", "kill -9 $$", code=-9)
        self.assertEqual((report["signal"], report["exit_status"]), (9, 137))
        self.assertIsNone(report["malloc"])
        result = run("--stats", "sh", "-c", "kill -9 $$")
        self.assertIn("left no statistics: it was killed", result.stderr)

    def test_why_there_are_none(self):
        source = self.write("own.c", b"""
            #include <stddef.h>
            static _Alignas(16) char room[1 << 20], *next = room;
            void *malloc(size_t n) { return next += n / 16 * 16 + 16; }
            void free(void *p) { (void)p; }
            int main(void) { return malloc(10) == NULL; }""")
        program = self.path("own")
        subprocess.run([os.environ["CC"], "-fno-builtin", "-o", program, source], check=True)
        result = run("--stats", program)
        self.assertIn("a malloc of its own", result.stderr)
        result = run("--stats", PYTHON, "-c", "import os; os._exit(0)")
        self.assertIn("it ended by _exit", result.stderr)

    def test_where_it_cannot_write(self):
        self.refused(run("--stats", "--json", "/nonexistent/x", "echo"), 1, "/nonexistent/x")
        self.refused(run("--stats", "--json", "/dev/full", "true"), 1, "No space")
        self.assertEqual(run("--stats", "--json", "/dev/full", "false").returncode, 1)
        with open("/dev/full", "w", encoding="ascii") as full:
            result = run("--stats", "--json", "-", "true", stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space", result.stderr)
        self.refused(run("--stats", "true", env={"TMPDIR": "/nonexistent"}), 1, "TMPDIR")


class Signals(Case):
    PROGRAM = """
import signal, sys, time
seen = []
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
    signal.signal(s, lambda s, f: seen.append(int(s)))
print("ready", flush=True)
end = time.time() + 60
while len(seen) < int(sys.argv[1]) and time.time() < end:
    time.sleep(.01)
time.sleep(.1)
print(seen, flush=True)
"""

    def start(self, *args, **more):
        child = subprocess.Popen([command.TOOL, "run", *args], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, universal_newlines=True, **more)
        self.addCleanup(child.kill)
        return child

    def test_pass_through(self):
        child = self.start("--stats", PYTHON, "-c", self.PROGRAM, "5")
        self.assertEqual(child.stdout.readline(), "ready\n")
        sent = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1]
        for sig in sent:
            child.send_signal(sig)
            time.sleep(.05)
        out, err = child.communicate(timeout=90)
        self.assertEqual(sorted(json.loads(out)), sorted(map(int, sent)))
        self.assertEqual(child.returncode, 0, err)
        self.assertIn("allocations", err)

    def test_ctrl_c_reaches_it_once(self):
        pid, master = terminal.fork_on_terminal(self)
        if pid == 0:
            os.execv(command.TOOL, ["nearcpu", "run", "--stats", PYTHON, "-c", self.PROGRAM, "1"])
        self.addCleanup(os.close, master)
        text = b""
        while b"ready" not in text:
            text += os.read(master, 4096)
        os.write(master, b"\x03")
        while b"given back" not in text:
            text += os.read(master, 4096)
        self.assertIn(b"[2]", text)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_stopping(self):
        child = self.start("--stats", PYTHON, "-c", self.PROGRAM, "1", preexec_fn=os.setpgrp)
        self.assertEqual(child.stdout.readline(), "ready\n")
        child.send_signal(signal.SIGTSTP)  # the program stops, and then the command
        pid, status = os.waitpid(child.pid, os.WUNTRACED)
        self.assertTrue(pid == child.pid and os.WIFSTOPPED(status), status)
        child.send_signal(signal.SIGCONT)
        child.send_signal(signal.SIGTERM)
        self.assertEqual(child.communicate(timeout=90)[0], "[15]\n")
        self.assertEqual(child.returncode, 0)

    def test_ctrl_c_ends_a_comparison(self):
        script = f"echo $$ >{self.path('pid')}; exec sleep 60"
        child = self.start("--compare", "sh", "-c", script)
        while not os.path.exists(self.path("pid")) or not os.path.getsize(self.path("pid")):
            time.sleep(.01)
        with open(self.path("pid"), encoding="ascii") as f:
            pid = int(f.read())
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=90)
        self.assertEqual((child.returncode, out, err), (130, "", ""))
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


class Compare(Case):
    def compare(self, *args, **more):
        result = run("--compare", "--json", "-", *args, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_table(self):
        result = run("--compare", "--repeat", "3", "sh", "-c", ":")
        self.assertEqual(result.returncode, 0, result.stderr)
        for label in ("CPU time", "wall time", "peak memory", "page faults"):
            self.assertRegex(result.stdout, rf"(?m)^{label} .* (better|spread)$")
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)

    def test_json(self):
        report = self.compare("--repeat", "3", PYTHON, "-c", "x = [bytes(300)] * 1000")
        for name in ("cpu_s", "wall_s", "peak_bytes", "page_faults"):
            m = report[name]
            self.assertEqual((len(m["system_runs"]), len(m["nearcpu_runs"])), (3, 3))
            self.assertEqual(m["system"], sorted(m["system_runs"])[1])
            ratios = sorted(o / s for o, s in zip(m["nearcpu_runs"], m["system_runs"]))
            self.assertAlmostEqual(m["ratio"], ratios[1])
            low, high = m["quartiles"]
            self.assertLessEqual(low, high)
            expected = "better" if high < 1 else "worse" if low > 1 else "same"
            self.assertEqual(m["nearcpu_is"], expected)
        self.assertFalse(report["output_differs"] or report["output_varies"])

    def test_streams(self):
        source = self.write("in", b"some text\n", 0o644)
        result = run("--compare", "--input", source, "--output", self.path("out"), "cat")
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("out"), encoding="ascii") as f:
            self.assertEqual(f.read(), "some text\n")
        for option in ("--input", "--output"):
            self.refused(run("--compare", option, "/nonexistent/x", "cat"), 1, "/nonexistent/x")

    def test_output_that_differs(self):
        report = self.compare("sh", "-c", "echo $LD_PRELOAD")
        self.assertEqual((report["output_differs"], report["output_varies"]), (True, False))
        self.assertIn("output differs", run("--compare", "sh", "-c", "echo $LD_PRELOAD").stdout)
        report = self.compare("sh", "-c", "echo $$")
        self.assertTrue(report["output_varies"])

    def test_a_run_that_fails(self):
        result = run("--compare", "sh", "-c", "echo oops >&2; exit 3")
        self.refused(result, 1, "warm up", "system's malloc", "exit status 3", "oops")
        result = run("--compare", "sh", "-c", "test -z \"$LD_PRELOAD\" || kill -11 $$")
        self.refused(result, 1, "nearcpu-malloc", "killed by signal 11")
        count = f"echo >>{self.path('n')}; test $(wc -l <{self.path('n')}) != 6"
        self.refused(run("--compare", "sh", "-c", count), 1, "run 2 ")

    def test_where_it_cannot_write(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = run("--compare", "--repeat", "1", "true", stdout=full)
        self.refused(result, 1, "No space")
        reader, writer = os.pipe()
        os.close(reader)
        result = run("--compare", "--repeat", "1", "true", stdout=writer)
        os.close(writer)
        self.refused(result, 1, "closed")
        self.refused(run("--compare", "--repeat", "1", "--output", "/dev/full", "--json",
                         self.path("x"), "echo"), 1, "No space")


if __name__ == "__main__":
    command.main()
