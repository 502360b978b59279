#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu run --atomic: which libatomic a program gets, what is refused, what is reported.

usage: run_atomic_test.py NEARCPU [TEST...]; CC is the compiler.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import command

CC = os.environ.get("CC", "cc")
LACKS = "does not call libatomic.so.1, nor do its libraries"

# Prints the libraries of the process.
MAPS = r"""
#include <stdio.h>
#include <string.h>

static void print_maps(void)
{
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " r-xp ") && strchr(line, '/'))
			fputs(strchr(line, '/'), stdout);
}
"""
# Adds up in 24 bytes.
USER = MAPS + r"""
struct wide { long a, b, c; };
struct wide shared;

int main(int argc, char **argv)
{
	struct wide old, new;

	for (int i = 0; i < 10; i++) {
		__atomic_load(&shared, &old, __ATOMIC_SEQ_CST);
		new = (struct wide){old.a + 1, old.b + 2, old.c + 3};
		__atomic_store(&shared, &new, __ATOMIC_SEQ_CST);
	}
	if (shared.a != 10 || shared.b != 20 || shared.c != 30)
		return 3;
	print_maps();
	return argc > 1 ? argv[1][0] - '0' : 0;
}
"""
LOADER = MAPS + r"""
#include <dlfcn.h>

int main(int argc, char **argv)
{
	void *p = dlopen(argv[argc - 1], RTLD_NOW);
	long (*plugin)(void) = p ? (long (*)(void))dlsym(p, "plugin") : NULL;

	print_maps();
	return !plugin || plugin() != 15;
}
"""
PLUGIN = r"""
struct wide { long a, b, c; } shared;
long plugin(void)
{
	struct wide copy = {4, 5, 6};

	__atomic_store(&shared, &copy, __ATOMIC_SEQ_CST);
	__atomic_load(&shared, &copy, __ATOMIC_SEQ_CST);
	return copy.a + copy.b + copy.c;
}
"""
COUNTED = r"""
#include <sys/wait.h>
#include <unistd.h>
struct wide { long a, b, c; } shared;
int main(void)
{
	struct wide copy = {4, 5, 6};

	for (int i = 0; i < 1000; i++)
		__atomic_store(&shared, &copy, __ATOMIC_SEQ_CST);
	if (fork() == 0)
		__atomic_store(&shared, &copy, __ATOMIC_SEQ_CST);
	else
		wait(NULL);
	return 0;
}
"""
CALLER = "long plugin(void);\nint main(void) { return plugin() != 15; }\n"


def run(*args, **more):
    return command.run("run", *args, drop=["LD_PRELOAD"], **more)


class Case(command.Case):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        os.chmod(cls.scratch.name, 0o755)
        cls.user = cls.compile("user", USER, "-latomic")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.scratch.name, name)

    @classmethod
    def compile(cls, name, source, *flags, compiler=None):
        subprocess.run([compiler or CC, "-x", "c", "-", "-x", "none", "-o", cls.path(name), *flags],
                       input=source, text=True, check=True)
        return cls.path(name)

    def refused(self, result, code, *words):
        """The exit status, nothing on standard output, one line with these words."""
        self.assertFalse(result.stdout)
        self.expect(result, code, "nearcpu run: ", *words)

    def libraries(self, *options, program=None, **more):
        """The base names of the libraries of a program, and the path of its libatomic."""
        result = run(*options, *(program or [self.user]), **more)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        paths = result.stdout.splitlines()
        atomics = [p for p in paths if "/libatomic" in p]
        return [os.path.basename(p) for p in paths], atomics


def ours():
    """Where the libatomic of nearcpu is."""
    info = subprocess.run([command.TOOL, "info", "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(info.stdout)["atomic_library"]


class Through(Case):
    def has_malloc(self, names):
        return any(name.startswith("libnearcpu-malloc.so") for name in names)

    def test_takes_the_place(self):
        """One libatomic is there, and it is ours: its SONAME answers for the other's."""
        self.assertTrue(os.path.isfile(ours()))
        names, atomics = self.libraries("--atomic")
        self.assertEqual(atomics, [os.path.realpath(ours())])
        self.assertFalse(self.has_malloc(names))

    def test_which_parts(self):
        names, atomics = self.libraries("--atomic", "--malloc")
        self.assertEqual(atomics, [os.path.realpath(ours())])
        self.assertTrue(self.has_malloc(names))
        for options in ([], ["--malloc"]):
            names, atomics = self.libraries(*options)
            self.assertEqual(len(atomics), 1)
            self.assertNotEqual(atomics, [os.path.realpath(ours())])
            self.assertTrue(self.has_malloc(names))

    def test_by_a_library(self):
        """What calls it may be a library, of the program or loaded later."""
        library = self.compile("libplugin.so", PLUGIN, "-shared", "-fPIC", "-latomic")
        caller = self.compile("caller", CALLER, library, "-Wl,-rpath," + self.scratch.name)
        result = run("--atomic", caller)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        loader = self.compile("loader", LOADER, "-ldl")
        result = run("--atomic", loader, library)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(LACKS, result.stderr)
        self.assertEqual([p for p in result.stdout.splitlines() if "/libatomic" in p],
                         [os.path.realpath(ours())])

    def test_environment(self):
        result = run("--atomic", "sh", "-c", "echo $LD_PRELOAD; echo $NEAR_CONF",
                     env={"LD_PRELOAD": "libc.so.6", "NEAR_CONF": "slot:cpu"})
        self.assertEqual(result.stdout.splitlines(), [ours() + ":libc.so.6", "slot:cpu"])
        result = run("--atomic", "--malloc", "sh", "-c", "echo $LD_PRELOAD",
                     env={"LD_PRELOAD": ""})
        first, second = result.stdout.strip().split(":")
        self.assertIn("libnearcpu-malloc.so", first)
        self.assertEqual(second, ours())

    def test_exit_status(self):
        for code in (0, 1, 7):
            self.assertEqual(run("--atomic", self.user, str(code)).returncode, code)
        self.assertEqual(run("--atomic", "sh", "-c", "kill -15 $$").returncode, -signal.SIGTERM)

    def test_library(self):
        os.makedirs(self.path("other"), exist_ok=True)
        other = shutil.copy(ours(), self.path("other/libatomic.so.1"))
        self.assertEqual(self.libraries("--atomic", "--library", other)[1], [other])


    @unittest.skipUnless(shutil.which("musl-gcc"), "no musl-gcc")
    def test_musl(self):
        """Its linker compares files: it must find the one that was preloaded, and no other."""
        stub = "#include <string.h>\n" + "".join(
            f"void f{n}(size_t n, void *a, void *b, int m) __asm__(\"__atomic_{n}\");\n"
            f"void f{n}(size_t n, void *a, void *b, int m) {{ (void)m; memcpy({order}, n); }}\n"
            for n, order in (("load", "b, a"), ("store", "a, b")))
        os.makedirs(self.path("musl"), exist_ok=True)
        with open(self.path("map"), "w", encoding="ascii") as f:
            f.write("LIBATOMIC_1.0 { global: __atomic_*; };\n")
        library = self.compile("musl/libatomic.so.1", stub, "-shared", "-fPIC", "-ffreestanding",
                               "-Wl,-soname,libatomic.so.1,--version-script=" + self.path("map"),
                               compiler="musl-gcc")
        user = self.compile("musl-user", USER, library, compiler="musl-gcc")
        self.assertEqual(self.libraries("--atomic", "--library", library, program=[user],
                                        env={"LD_LIBRARY_PATH": "/nonexistent"})[1], [library])


class Warned(Case):
    def test_program_that_does_not_call_it(self):
        result = run("--atomic", "true")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(LACKS, result.stderr)
        self.assertEqual(run("true").stderr, "")

    def test_who_has_a_copy(self):
        """Of the archive: its calls stay inside, and nothing can be put in its place."""
        program = self.compile("copy", USER, "-l:libatomic.a")
        result = run("--atomic", program)
        self.assertEqual(result.returncode, 0)
        self.assertIn(LACKS, result.stderr)

    def test_scripts(self):
        script = self.path("script")
        with open(script, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\nexec {self.user}\n")
        os.chmod(script, 0o755)
        result = run("--atomic", script)
        self.assertIn(LACKS, result.stderr)
        self.assertIn(os.path.realpath(ours()), result.stdout)


class Refused(Case):
    def test_usage(self):
        for options, words in [
                (["--check"], "--check is for the malloc"),
                (["--background"], "--background is for the malloc"),
                (["--heap-profile", "x"], "--heap-profile is for the malloc"),
                (["--malloc", "--library", "x"], "--library names one library"),
        ]:
            with self.subTest(options=options):
                self.refused(run("--atomic", *options, "true"), 2, words)
        self.assertEqual(run("--atomic", "--malloc", "--check", self.user).returncode, 0)

    def test_static(self):
        program = self.compile("static", USER, "-static", "-latomic")
        self.refused(run("--atomic", program), 126, "is static", "libatomic.a",
                     os.path.dirname(ours()))
        self.refused(run("--atomic", "--malloc", program), 126, "libnearcpu-malloc.a and ",
                     "libatomic.a")

    @unittest.skipIf(os.geteuid() != 0, "only root can make such programs")
    def test_more_rights(self):
        if command.ignores_setuid(self.scratch.name):
            self.skipTest("no setuid programs in " + self.scratch.name)
        program = shutil.copy(self.user, self.path("suid"))
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.refused(run("--atomic", program), 126, "setuid", "near_atomic(7)")
        self.refused(run("--atomic", "--malloc", program), 126, "libnearcpu-malloc, and see",
                     "near_atomic(7)")

    def test_no_library(self):
        os.makedirs(self.path("bin"), exist_ok=True)
        copy = shutil.copy(command.TOOL, self.path("bin/nearcpu"))
        shutil.copy(ours(), self.path("bin/libatomic.so.1"))  # may be GCC's
        self.refused(run("--atomic", "true", tool=copy), 1, "libatomic.so.1 of nearcpu",
                     "NEAR_SHARED=ON", "--library")
        info = subprocess.run([copy, "info"], check=True, stdout=subprocess.PIPE)
        self.assertIn("atomic library  not found", info.stdout.decode())
        self.refused(run("--atomic", "--library", "/nonexistent", "true"), 1, "/nonexistent")
        text = self.path("text")
        with open(text, "w", encoding="ascii") as f:
            f.write("no library")
        self.refused(run("--atomic", "--library", text, "true"), 126, "no library")
        with open(text, "a", encoding="ascii") as f:
            f.write(" " * 100)
        self.refused(run("--atomic", "--library", text, "true"), 126, "no library")
        self.refused(run("--library", ours(), "true"), 126, "give --atomic")
        malloc = run("sh", "-c", "echo $LD_PRELOAD").stdout.strip()
        self.refused(run("--atomic", "--library", malloc, "true"), 126, "no libatomic")

    def test_ignored_sigchld(self):
        """Then nobody can be waited for."""
        result = run("--atomic", "true", preexec_fn=lambda: signal.signal(signal.SIGCHLD,
                                                                          signal.SIG_IGN))
        self.assertEqual(result.returncode, 0)
        self.assertIn(LACKS, result.stderr)


class Measured(Case):
    def test_compare(self):
        result = run("--atomic", "--compare", "--repeat", "1", self.user)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("1 run with each libatomic in turn", result.stdout)
        self.assertIn("standard output differs", result.stdout)  # it names the library
        result = run("--atomic", "--malloc", "--compare", "--repeat", "1", "--json", "-",
                     self.user)
        self.assertEqual(json.loads(result.stdout)["libraries"], ["malloc", "atomic"])

    def test_a_run_that_fails(self):
        self.refused(run("--atomic", "--compare", self.user, "4"), 1, "the system's libatomic",
                     "exit status 4")

    def test_stats(self):
        result = run("--atomic", "--stats", "--json", self.path("s"), "sh", "-c",
                     "echo $NEAR_CONF")
        self.assertEqual(result.stdout, "atomic_stats:1\n")
        with open(self.path("s"), encoding="utf-8") as f:
            report = json.load(f)
        self.assertEqual((report["libraries"], report["malloc"]), (["atomic"], None))
        self.assertEqual((report["processes"], report["all_processes"]), (None, None))
        result = run("--atomic", "--stats", self.user, env={"TMPDIR": "/proc"})  # needs no file
        self.assertIn("peak memory", result.stderr)
        self.assertNotIn("left no statistics", result.stderr)
        result = run("--atomic", "--malloc", "--stats", self.user)
        self.assertIn("allocations", result.stderr)
        self.assertNotIn("unknown key", result.stderr)

    def test_counts(self):
        """Of each process, once, although two copies of the library are in it."""
        second = os.path.join(os.path.dirname(os.path.dirname(ours())), "libnearcpu-atomic.so")
        program = self.compile("counted", COUNTED, second,
                               "-Wl,-rpath," + os.path.dirname(second))
        result = run("--atomic", "--stats", program)
        counts = re.findall(r"(?m)^nearcpu: libatomic \[(\d+)\]: 16 bytes by .*; (\d+) sections "
                            r"under 1 of 256 locks, (\d+) under the busiest$", result.stderr)
        self.assertEqual([c[1:] for c in counts], [("1001", "1001"), ("1000", "1000")],
                         result.stderr)
        self.assertEqual(len({c[0] for c in counts}), 2)
        self.assertEqual(result.stderr.count("waited: 0 spun, 0 yielded, 0 slept; 0 loads"), 2)


if __name__ == "__main__":
    command.main()
