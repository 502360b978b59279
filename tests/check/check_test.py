#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu check: seeded faults are found, each as what it is, and none in what is right.

usage: check_test.py NEARCPU DIRECTORY [TEST...]

DIRECTORY holds this build's libraries and programs.
"""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

import compared
import library
import outside
import seeds
from cpus import CPUS
from tutorial import SOURCES as TUTORIAL

TOOL = BUILD = ""
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
STATIC = ["-nostdlib", "-static"]
FORMS = {"object": ["-c"], "static": STATIC, "pie": ["-nostdlib", "-pie"],
         "shared": ["-nostdlib", "-shared", "-fPIC"], "stripped": STATIC + ["-s"],
         "stripped-pie": ["-nostdlib", "-pie", "-s"]}


def check(*arguments):
    return subprocess.run([TOOL, "check", *arguments], stdin=subprocess.DEVNULL, timeout=300,
                          capture_output=True, universal_newlines=True)


def check_json(*paths):
    """The files by name, each with its sequences."""
    result = check("--json", *paths)
    return result, {f["file"]: f for f in json.loads(result.stdout)}


def seed_of(name):
    return next(seed for seed in seeds.SEEDS if seed.name == name)


def found(file):
    return {p["id"] for s in file["sequences"] for p in s["problems"]}


def has_sequences(path):
    with open(path, "rb") as file:
        return b"__rseq_cs" in file.read()


class Case(unittest.TestCase):
    maxDiff = None
    directory = tempfile.TemporaryDirectory(prefix="nearcpu-check-")
    cpus = [c for c in CPUS if c.compilers()]
    built = {}  # by seed, CPU and options

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, data):
        with open(self.path(name), "w" if isinstance(data, str) else "wb") as file:
            file.write(data)
        return self.path(name)

    def build(self, seed, cpu, *options):
        key = (seed.name, cpu.name, options)
        if key not in self.built:
            source = self.write("source.s", seed.source(cpu))
            out = self.path(f"{seed.name}.{cpu.name}.{len(self.built)}")
            cpu.compile(source, out, *options)
            self.built[key] = out
        return self.built[key]

    def expect_failure(self, result, *words):
        """Exit code 1 and one line on standard error."""
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("nearcpu check: "), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)


class Seeds(Case):
    def expect(self, all_seeds, *options):
        for cpu in self.cpus:
            wanted = {self.build(s, cpu, *options): s for s in all_seeds if cpu.name in s.cpus}
            result, files = check_json(*wanted)
            self.assertEqual(result.stderr, "")
            for path, seed in wanted.items():
                with self.subTest(seed=seed.name, cpu=cpu.name, options=options):
                    self.assertTrue(files[path]["sequences"])
                    self.assertEqual(found(files[path]), seed.finds)

    def test_each_is_found_as_what_it_is(self):
        self.assertGreaterEqual(len(seeds.SEEDS), 25)
        self.expect(seeds.SEEDS, *STATIC)

    def test_what_is_right_is_right(self):
        self.expect([seeds.SOUND] + seeds.ALSO_SOUND, *STATIC)

    def test_in_every_form(self):
        some = [seed_of(name) for name in (
            "abort-signature", "commit-not-last", "index-outside", "call", "kernel-field-cpu",
            "kernel-field-behind-trap", "kernel-field-behind-unknown", "entry-inside",
            "retry-unarmed", "loop")]
        for options in FORMS.values():
            self.expect([seeds.SOUND] + some, *options)

    def test_there_is_one_for_each_rule(self):
        with open(os.path.join(ROOT, "tools", "nearcpu", "check", "rules_list.h")) as file:
            rules = {line.split('"')[1] for line in file if line.startswith("RULE(")}
        self.assertEqual(set().union(*(s.finds for s in seeds.SEEDS)), rules)

    def test_the_page_names_each_rule(self):
        with open(os.path.join(ROOT, "man", "nearcpu-check.1.scd")) as file:
            page = file.read()
        for rule in set().union(*(s.finds for s in seeds.SEEDS)):
            self.assertIn(f"*{rule}*", page)


class Outside(Case):
    def test_what_c_code_read_before(self):
        """At -O0 near_percpu_at() is a call, whose result nobody knows."""
        for cpu in self.cpus:
            for level in ("-O1", "-O2", "-Os"):
                for kind, (_, finds) in outside.KINDS.items():
                    source = self.write("outside.c", outside.source(kind))
                    out = self.path(kind + cpu.name + level)
                    cpu.compile(source, out, "-c", level, "-std=gnu11", "-w",
                                "-I" + os.path.join(ROOT, "include"))
                    _, files = check_json(out)
                    with self.subTest(kind=kind, cpu=cpu.name, level=level):
                        self.assertEqual(found(files[out]), finds)


class Output(Case):
    def setUp(self):
        self.cpu = self.cpus[0]
        self.sound = self.build(seeds.SOUND, self.cpu, *STATIC)
        self.faulty = self.build(seed_of("call"), self.cpu, *STATIC)

    def test_text(self):
        result = check(self.sound)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"{self.sound}: 1 sequence, 0 faults, 0 warnings\n")
        result = check(self.faulty)
        self.assertEqual((result.returncode, result.stderr), (1, ""))
        self.assertRegex(result.stdout, r"(?m)^  _start\+0x[0-9a-f]+: sequence 0x[0-9a-f]+ to ")
        self.assertRegex(result.stdout, r"(?m)^    > [0-9a-f]+  call ")
        self.assertRegex(result.stdout, r"(?m)^    fault: a call: .* \[call\]$")
        self.assertIn("1 sequence, 1 fault, 0 warnings\n", result.stdout)

    def test_quiet_and_verbose(self):
        result = check("--quiet", self.sound, self.faulty)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, f"{self.faulty}: 1 sequence, 1 fault, 0 warnings\n")
        result = check("--verbose", self.sound)
        self.assertEqual(result.returncode, 0)
        self.assertIn(f"{self.sound}:\n  _start+", result.stdout)

    def test_json(self):
        result, files = check_json(self.sound, self.faulty)
        self.assertEqual(result.returncode, 1)
        self.assertEqual((files[self.sound]["faults"], files[self.faulty]["faults"]), (0, 1))
        sequence, = files[self.faulty]["sequences"]
        self.assertEqual(sequence["function"], "_start")
        problem, = sequence["problems"]
        self.assertEqual((problem["id"], problem["severity"]), ("call", "fault"))
        text, = [c["text"] for c in sequence["code"] if c["address"] == problem["address"]]
        self.assertIn("call", text)
        for word in ("reason", "advice"):
            self.assertTrue(problem[word])

    def test_names_in_json(self):
        # The second is no UTF-8.
        for name, shown in ((b"\xc3\xbc.o", "\u00fc.o"), (b"\xfc.o", "?.o")):
            path = os.path.join(os.fsencode(self.directory.name), name)
            os.link(self.sound, path)
            result = subprocess.run([TOOL, "check", "--json", path], stdout=subprocess.PIPE)
            file, = json.loads(result.stdout.decode("utf-8"))
            self.assertEqual(file["file"], self.path(shown))

    def test_archives(self):
        for faulty in (False, True):
            seed = seed_of("loop") if faulty else seeds.SOUND
            member = self.build(seed, self.cpu, "-c")
            long_name = self.path("a-member-with-a-name-of-more-than-sixteen-letters.o")
            shutil.copy(member, long_name)
            archive = self.path(f"lib{seed.name}.a")
            subprocess.run(["ar", "rc", archive, long_name], check=True)
            result, files = check_json(archive)
            name, = files
            self.assertEqual(name, f"{archive}({os.path.basename(long_name)})")
            self.assertEqual(found(files[name]), seed.finds)
        with open(archive, "rb") as file:
            data = file.read()
        for length in (12, len(data) // 2, len(data) - 8):
            self.expect_failure(check(self.write("cut.a", data[:length])), "ends within a member")
        thin = self.path("thin.a")
        subprocess.run(["ar", "rcT", thin, long_name], check=True)
        self.expect_failure(check(thin), "thin archive")

    def test_nothing_to_find(self):
        source = self.write("none.c", "int main(void) { return 0; }\n")
        for options in (["-c"], []):
            self.cpu.compile(source, self.path("none"), *options)
            result = check(self.path("none"))
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(result.stdout, self.path("none") + ": no sequences found\n")

    def test_help(self):
        for option in ("--help", "-h"):
            result = check(option)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertTrue(result.stdout.startswith("usage: nearcpu check "))
        self.assertRegex(check("--version").stdout, r"^nearcpu \S+\n")

    def test_usage(self):
        for arguments in ([], ["-x"], ["--quiet", "--verbose", "x"], ["--json=1", "x"]):
            result = check(*arguments)
            self.assertEqual((result.returncode, result.stderr.count("\n")), (2, 2), result.stderr)

    def test_too_many(self):
        """More descriptors than any program has end it soon, with a message."""
        many = seeds.Seed("many", set(), {
            "more": lambda c: '.section __rseq_cs, "aw"\n.rept 60000\n.4byte 0, 0\n'
            ".8byte start, end - start, abort\n.endr"})
        self.expect_failure(check(self.build(many, self.cpu, *STATIC)), "gave up")

    def test_packed_relocations(self):
        path = self.path("packed")
        try:
            path = self.build(seeds.SOUND, self.cpu, "-nostdlib", "-pie",
                              "-Wl,-z,pack-relative-relocs")
        except subprocess.CalledProcessError:
            self.skipTest("the linker cannot pack relocations")
        _, files = check_json(path)
        self.assertEqual((len(files[path]["sequences"]), found(files[path])), (1, set()))

    def test_full_disk(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([TOOL, "check", self.sound], stdout=full,
                                    stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn("cannot write", result.stderr)


class BadFiles(Case):
    def sound(self):
        with open(self.build(seeds.SOUND, self.cpus[0], *STATIC), "rb") as file:
            return bytearray(file.read())

    def test_what_is_not_for_it(self):
        self.expect_failure(check(self.path("nosuch")), "No such file")
        self.expect_failure(check(self.directory.name), "not a regular file")
        self.expect_failure(check("/dev/null"), "not a regular file")
        self.expect_failure(check(self.write("empty", b"")), "not an ELF file")
        self.expect_failure(check(self.write("text", b"hello\n")), "not an ELF file")
        self.expect_failure(check(self.write("magic", b"\x7fELF")), "not an ELF file")
        for at, value, words in ((4, b"\1", "32 bits"), (5, b"\2", "big-endian"),
                                 (18, struct.pack("<H", 22), "machine number 22"),
                                 (16, struct.pack("<H", 4), "neither a program")):
            data = self.sound()
            data[at:at + len(value)] = value
            self.expect_failure(check(self.write("changed", data)), words)

    def test_error_in_json(self):
        bad = {self.write("text", b"hello\n"): "not an ELF file",
               self.path("nosuch"): "No such file or directory",
               self.directory.name: "not a regular file",
               self.write("thin", b"!<thin>\n"): "not supported: a thin archive; check its members"}
        result, files = check_json(*bad)
        self.assertEqual(result.returncode, 1)
        self.assertEqual({name: file["error"] for name, file in files.items()}, bad)
        self.assertEqual({len(file["sequences"]) for file in files.values()}, {0})

    def test_one_bad_file_does_not_hide_the_others(self):
        good, empty = self.write("good", self.sound()), self.write("empty.a", b"!<arch>\n")
        result = check(self.path("nosuch"), good, empty)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"{good}: 1 sequence", result.stdout)
        self.assertIn(f"{empty}: no sequences found", result.stdout)

    def test_without_section_headers(self):
        """Descriptors are then found by their form."""
        for cpu in self.cpus:
            for options in (STATIC, ["-nostdlib", "-pie"], ["-nostdlib", "-shared"]):
                with open(self.build(seeds.SOUND, cpu, *options), "rb") as file:
                    data = bytearray(file.read())
                data[40:48] = bytes(8)  # e_shoff
                data[60:64] = bytes(4)  # e_shnum, e_shstrndx
                path = self.write("headless", data)
                result, files = check_json(path)
                self.assertEqual(result.returncode, 0, result.stderr)
                sequence, = files[path]["sequences"]
                self.assertEqual((sequence["found_by"], sequence["problems"]), ("form", []))

    def test_cut_off_anywhere(self):
        data = self.sound()
        for length in range(0, len(data), max(1, len(data) // 60)):
            result = check(self.write("cut", data[:length]))
            self.assertIn(result.returncode, (0, 1), result.stderr)

    def test_huge_counts(self):
        """Numbers from 2^16 to 2^64 - 1 wherever the header has a number."""
        for at in list(range(24, 64, 4)) + [40, 32]:
            for value in (b"\xff" * 8, struct.pack("<Q", 1 << 60), b"\xff\xff\xff\x7f" + bytes(4)):
                data = self.sound()
                data[at:at + 8] = value[:min(8, 64 - at)]
                result = check(self.write("huge", data))
                self.assertIn(result.returncode, (0, 1), result.stderr)


class Right(Case):
    """No fault in what is believed to be right."""

    def expect_right(self, paths, at_least):
        _, files = check_json(*paths)
        self.assertTrue(files)
        for name, file in files.items():
            with self.subTest(file=name):
                self.assertEqual(found(file), set())
        self.assertGreaterEqual(sum(len(f["sequences"]) for f in files.values()), at_least)

    def test_this_build(self):
        """Its libraries and programs, but the tests that are faulty on purpose."""
        if not has_sequences(os.path.join(BUILD, "libnearcpu.a")):
            self.skipTest("built as for a CPU without sequences")
        paths = [p for pattern in ("libnearcpu*.so", "libnearcpu*.a", "libatomic/libatomic.so")
                 for p in glob.glob(os.path.join(BUILD, pattern))]
        for path in glob.glob(os.path.join(BUILD, "bin", "*")):
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF" and not re.search("mutant|mistakes|torture", path):
                    paths.append(path)
        self.expect_right(paths, 25)

    def test_this_library_on_all_cpus(self):
        """Cross-compiled: as objects, shared, static, stripped; with and without optimization.
        What has no sequences without optimization has none with it, and is compiled once."""
        for cpu in self.cpus:
            place = self.path(cpu.name)
            objects = library.compile_all(cpu, "-O0", place, library.sources())
            self.expect_right([*objects.values(), *library.link(cpu, "-O0", place, objects)], 25)
            some = [source for source, path in objects.items() if has_sequences(path)]
            for level in ("-O2", "-Os"):
                optimized = library.compile_all(cpu, level, place, some)
                linked = library.link(cpu, level, place, {**objects, **optimized})
                self.expect_right([*optimized.values(), *linked], 25)

    def test_the_tutorial(self):
        for cpu in self.cpus:
            if cpu.name not in TUTORIAL:
                continue
            source = self.write("tutorial.S", TUTORIAL[cpu.name])
            paths = []
            for form, options in FORMS.items():
                paths.append(self.path(f"tutorial.{cpu.name}.{form}"))
                cpu.compile(source, paths[-1], *options)
            self.expect_right(paths, 2 * len(FORMS))

    def test_compared_index(self):
        for cpu in self.cpus:
            source = self.write("compared.c", compared.source(cpu))
            paths = []
            for level in ("-O0", "-O2", "-Os"):
                for form, options in FORMS.items():
                    if "pie" in form or form == "static" or form == "stripped":
                        continue  # nothing to link with
                    paths.append(self.path(f"compared.{cpu.name}{level}.{form}"))
                    cpu.compile(source, paths[-1], level, "-fPIC", *options)
            self.expect_right(paths, len(paths))


if __name__ == "__main__":
    TOOL, BUILD = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
