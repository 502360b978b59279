#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of the laboratory itself, as far as they need no machine."""

import os
from pathlib import Path
import shutil
import tempfile
import unittest
from unittest import mock

import archive
import boot
import cells
import cpio
import guest
import kernel_build
import kernels
from machines import MACHINES
import plan
from problem import Missing, Problem
import report
import sources
import table

HERE = Path(__file__).resolve().parent
LINE = "name yes numa,many 60 A=1;B=2 prog @ /other\n"


def unpack(data):
    """The entries of a newc archive: name -> (mode, content)."""
    entries, at = {}, 0
    while True:
        assert data[at:at + 6] == b"070701", at
        fields = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        size, name_size = fields[6], fields[11]
        name = data[at + 110:at + 110 + name_size - 1].decode()
        assert data[at + 110 + name_size - 1] == 0
        at += (110 + name_size + 3) // 4 * 4
        if name == "TRAILER!!!":
            return entries
        entries[name] = fields[1], data[at:at + size]
        at += (size + 3) // 4 * 4


class Cpio(unittest.TestCase):
    def test_entries_come_back(self):
        writer = cpio.Writer()
        writer.directory("bin")
        writer.console()
        for size in range(9):
            writer.file("f" * (size + 1), bytes(range(size)))
        writer.file("plan", b"text\n", 0o644)
        data = writer.data()
        self.assertEqual(len(data) % 4, 0)
        entries = unpack(data)
        self.assertEqual(entries["bin"], (0o040755, b""))
        self.assertEqual(entries["dev/console"], (0o020600, b""))
        self.assertEqual(entries["plan"], (0o100644, b"text\n"))
        for size in range(9):
            self.assertEqual(entries["f" * (size + 1)], (0o100755, bytes(range(size))))


class Sources(unittest.TestCase):
    def test_one_line(self):
        found = sources.parse_one_line(
            "# deb http://no/ bookworm main\n"
            "deb-src http://no/ bookworm main\n"
            "deb [arch=amd64 signed-by=/k.gpg] http://a/debian bookworm main contrib # why\n"
            "deb http://b/debian trixie main\n"
            "deb http://short/ only\n")
        self.assertEqual(found, [
            sources.Source(("http://a/debian",), ("bookworm",), ("main", "contrib"), "/k.gpg"),
            sources.Source(("http://b/debian",), ("trixie",), ("main",))])

    def test_deb822(self):
        found = sources.parse_deb822(
            "Types: deb deb-src\n# between\nURIs: http://a/ http://b/\nSuites: x x-updates\n"
            "Components: main\nSigned-By:\n -----BEGIN\n .\n key\n\n\n"
            "Types: deb-src\nURIs: http://no/\nSuites: x\nComponents: main\n\n"
            "Types: deb\nEnabled: no\nURIs: http://no/\nSuites: x\nComponents: main\n")
        self.assertEqual(found, [sources.Source(("http://a/", "http://b/"), ("x", "x-updates"),
                                                ("main",), "\n -----BEGIN\n .\n key")])

    def test_written_ones_are_read_again(self):
        source = sources.Source(("http://a/",), ("x",), ("main",), "\n -----BEGIN\n .\n key")
        text = sources.write_deb822([(source, ["y"], ["amd64", "arm64"]), (source, ["z"], ["x"])])
        self.assertEqual([s.suites for s in sources.parse_deb822(text)], [("y",), ("z",)])
        self.assertEqual(sources.parse_deb822(text)[0].signed_by, source.signed_by)

    def test_both_kinds_of_files_are_read(self):
        with tempfile.TemporaryDirectory() as name:
            etc = Path(name)
            (etc / "sources.list.d").mkdir()
            (etc / "sources.list").write_text("deb http://a/ x main\n", encoding="utf-8")
            (etc / "sources.list.d/b.sources").write_text(
                "Types: deb\nURIs: http://b/\nSuites: x\nComponents: main\n", encoding="utf-8")
            (etc / "sources.list.d/c.list.save").write_text("deb http://c/ x main\n",
                                                            encoding="utf-8")
            self.assertEqual([s.uris for s in sources.read_machine(etc)],
                             [("http://a/",), ("http://b/",)])


class Table(unittest.TestCase):
    def test_a_line(self):
        test, = table.parse("# comment\n\n" + LINE, MACHINES)
        self.assertEqual(test, table.Test("name", ("numa", "many"), ("numa", "many"), 60,
                                          ("A=1", "B=2"), ("prog", "@", "/other")))
        self.assertEqual(test.programs(), ["prog", "other"])
        self.assertEqual(test.plan("6.1"),
                         "run\tname\t60\tA=1\tB=2\t--\t/prog\t6.1\t/other")

    def test_faults_are_reported_with_their_line(self):
        for bad in ("name yes numa 60 -", "Name yes numa 60 - p", "n maybe numa 60 - p",
                    "n many numa 60 - p", "n yes moon 60 - p", "n yes numa 0 - p",
                    "n yes numa 6x - p", "n yes numa 60 A p", LINE.strip()):
            with self.assertRaisesRegex(Problem, "lab/list, line 2: "):
                table.parse(LINE + bad + "\n", MACHINES)

    def test_the_list_itself(self):
        tests = table.parse((HERE / "list").read_text(encoding="utf-8"), MACHINES)
        self.assertGreater(len(tests), 20)
        for arch in kernels.ARCHITECTURES:
            self.assertTrue(plan.make(tests, [arch], True), arch)


class Plan(unittest.TestCase):
    def setUp(self):
        self.tests = table.parse(LINE, MACHINES)

    def test_selection(self):
        boots = plan.make(self.tests, ["aarch64", "riscv64", "6.1", "newest", "numa"], False)
        self.assertEqual({boot.name for boot in boots},
                         {"aarch64-6.1-numa", "aarch64-newest-numa", "riscv64-newest-numa"})
        with self.assertRaises(plan.Unknown):
            plan.make(self.tests, ["vax"], False)
        with self.assertRaises(plan.Unknown):
            plan.make(self.tests, ["riscv64", "6.1"], False)

    def test_quick_on_some_machines(self):
        tests = table.parse(LINE + "other numa numa,many 60 - prog\n", MACHINES)
        self.assertEqual([test.quick for test in tests], [("numa", "many"), ("numa",)])
        for quick, names in (True, {"name"}), (False, {"name", "other"}):
            with mock.patch.object(plan, "QUICK", (("x86_64", "newest", "many"),)):
                boots = plan.make(tests, ["x86_64", "newest", "many"], quick)
            self.assertEqual([{test.name for test in boot.tests} for boot in boots], [names])

    def test_quick_takes_the_second_number(self):
        tests = table.parse("name yes many 60 A=20|5;B=x prog --seconds 60|10 1 @\n", MACHINES)
        for quick, line in ((True, "A=5\tB=x\t--\t/prog\t--seconds\t10\t1\t7"),
                            (False, "A=20\tB=x\t--\t/prog\t--seconds\t60\t1\t7")):
            with mock.patch.object(plan, "QUICK", (("x86_64", "newest", "many"),)):
                boot_, = plan.make(tests, ["x86_64", "newest", "many"], quick)
            self.assertEqual(boot_.tests[0].plan("7"), "run\tname\t60\t" + line)

    def test_a_machine_with_another_cpu(self):
        emulator = mock.Mock(**{"program.return_value": "qemu", "firmware.return_value": []})
        kernel = kernels.Kernel("aarch64", "6.12", "6.12.1", Path("image"))
        for name, cpu in (("pages16k", "neoverse-n1"), ("pages64k", "neoverse-n1"),
                          ("numa", "cortex-a72")):
            words = MACHINES[name].command(emulator, kernel, Path("initrd"))
            self.assertEqual(words[words.index("-cpu") + 1], cpu)

    def test_packages_lead_to_the_image(self):
        packages = {
            "linux-image-x": {"Depends": "linux-base-x (= 1), linux-image-7-x (= 1)"},
            "linux-image-7-x": {"Depends": "dracut | linux-initramfs-tool, linux-binary-7-x"},
            "linux-binary-7-x": {"Depends": "linux-base-7-x (= 1)", "Version": "7"}}
        self.assertEqual(kernels.find_package(packages, "linux-image-x")["Version"], "7")
        del packages["linux-binary-7-x"]
        with self.assertRaises(Missing):
            kernels.find_package(packages, "linux-image-x")


class Build(unittest.TestCase):
    """A script stands for make."""

    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.root = Path(place.name)

    def make(self, script):
        """What Build reports while `script` runs, and how it ends."""
        (self.root / "make").write_text("#!/bin/sh\n" + script, encoding="utf-8")
        (self.root / "make").chmod(0o755)
        notes = []
        with open(self.root / "log", "w", 1, encoding="utf-8") as log:
            there = kernel_build.Build(self.root / "work", log, notes.append)
            there.make({"PATH": f"{self.root}:/usr/bin:/bin"}, self.root)
        return notes

    def test_progress_and_failure(self):
        self.assertEqual(self.make("echo '  CC      a.o'; echo '  AR      b.a'"),
                         [f"1 of some {kernel_build.FILES} files, a.o"])
        shutil.rmtree(self.root / "work")
        with self.assertRaisesRegex(Problem, "does not build:\nno rule\nall of it is in"):
            self.make("echo no rule; exit 2")

    def test_a_configuration_is_kept_or_refused(self):
        with open(self.root / "log", "w", encoding="utf-8") as log:
            there = kernel_build.Build(self.root / "work", log, print)
        (self.root / "work/made").mkdir()
        (self.root / "work/made/.config").write_text("A=y\n# B is not set\n", encoding="utf-8")
        there.check("# why\n\nA=y\n")
        with self.assertRaisesRegex(Problem, "with: B=y$"):
            there.check("A=y\nB=y\n")

    def test_what_is_left_out_of_the_source(self):
        for name, unused in (("drivers/net/veth.c", False), ("drivers/net/wan/a.c", True),
                             ("drivers/net/wan/Kconfig", False), ("arch/arm64/kernel/a.S", False),
                             ("arch/mips/kernel/a.S", True), ("arch/arm/boot/dts/a.dts", True),
                             ("drivers/of/empty_root.dts", False), ("kernel/fork.c", False),
                             ("Documentation/Kconfig", False), ("Documentation/a/b.rst", True)):
            self.assertEqual(bool(kernel_build.UNUSED.match("linux-source-6/" + name)), unused,
                             name)

    def test_a_kernel_is_built_again_if_its_configuration_changed(self):
        cache = kernels.Kernels(self.root, mock.Mock(side_effect=AssertionError), False)
        kept = self.root / "6.12-64k-aarch64/6.12.9-1"
        kept.mkdir(parents=True)
        (kept / "vmlinuz").touch()
        (kept / "config").write_text(kernel_build.configuration("6.12-64k"), encoding="utf-8")
        self.assertEqual(cache.get("aarch64", "6.12-64k").version, "6.12.9-1")
        (kept / "config").write_text("another\n", encoding="utf-8")
        with self.assertRaises(AssertionError):
            cache.get("aarch64", "6.12-64k")
        (self.root / "packages-6.12-64k-aarch64").mkdir()
        (self.root / "packages-6.12-64k-aarch64/linux-source-6.12_6.12.8-1_all.deb").touch()
        self.assertEqual(cache.get("aarch64", "6.12-64k"),
                         kernel_build.Source("6.12.8-1", self.root / "packages-6.12-64k-aarch64"))

    def test_versions(self):
        new, old = {"Version": "6.12.117-1"}, {"Version": "6.12.20-1"}
        self.assertEqual([archive.is_older(*pair) for pair in
                          ((old, new), (new, old), (new, new), (old, None))],
                         [True, False, False, False])


class Results(unittest.TestCase):
    def listen(self, *lines):
        listener = guest.Guest()
        for line in lines:
            listener.take(line)
        return listener

    def test_a_console(self):
        g = self.listen("[    0.1] hello", "@lab up 6.1 8", "@lab begin a", "word", "",
                        "x.c:3: y is false", "@lab end a exit 1 1500", "@lab begin b",
                        "BUG: soft lockup - CPU#1", "@lab end b late 60", "@lab done")
        self.assertTrue(g.done and g.release == "6.1" and g.running is None)
        self.assertEqual(g.ended["a"].lines, ["word", "x.c:3: y is false"])
        self.assertEqual(len(g.trouble), 1)
        cell = cells.from_run(g.ended["a"])
        self.assertEqual((cell.state, cell.reason, cell.seconds),
                         (cells.RED, "x.c:3: y is false", 1.5))
        self.assertEqual(cells.from_run(g.ended["b"]).state, cells.RED)

    def test_endings(self):
        for words, state in (("exit 0 10", cells.GREEN), ("exit 77 10", cells.SKIPPED),
                             ("exit 1 10", cells.RED), ("signal 11", cells.RED)):
            g = self.listen("@lab up x 1", "@lab begin a", f"@lab end a {words}")
            self.assertEqual(cells.from_run(g.ended["a"]).state, state)

    def test_the_reason_is_the_line_that_failed(self):
        for lines, reason in (
                (["filled: 9 pages, 0 on a wrong node", "page 0 is on node 1, not 0",
                  "nodes: 8 pages, 1 on a wrong node", "nodes.c:7: nodes: 1 of 8 pages"],
                 "nodes.c:7: nodes: 1 of 8 pages"),
                (["0 are wrong", "1 is wrong", "end"], "1 is wrong"),
                (["[ OK ] a", "[ FAILED ] b", "[ FAILED ] b"], "[ FAILED ] b"),
                (["last words"], "last words"), ([], "no output")):
            g = self.listen("@lab up x 1", "@lab begin a", *lines, "@lab end a exit 1 10")
            self.assertEqual(cells.from_run(g.ended["a"]).reason, reason)

    def test_a_broken_line_ends_no_test(self):
        for line in ("@lab end a exit 0[ 1.2] BUG: x", "@lab end a exit", "@lab end a exi 0 10",
                     "@lab end b exit 0 10", "@lab end"):
            g = self.listen("@lab up x 1", "@lab begin a", line, "@lab done")
            self.assertEqual((g.ended, g.running, len(g.trouble), g.done), ({}, "a", 1, True))

    def test_a_report(self):
        tests = table.parse(LINE, MACHINES)
        results = {("x86_64", "6.1", "numa", "name"): cells.Cell(cells.GREEN),
                   ("x86_64", "6.1", "many", "name"): cells.Cell(cells.GREEN, again="hung")}
        page = report.Report(results, {("x86_64", "6.1"): "6.1.9-1"}, tests, "10", 60)
        self.assertFalse(page.failed())
        self.assertIn("| name | ok 2* |", page.markdown())
        self.assertIn("x86_64 6.1.9", page.text())
        self.assertIn("started twice: x86_64 6.1 many: hung", page.text())
        results["x86_64", "6.1", "many", "name"] = cells.Cell(cells.RED, "why")
        page = report.Report(results, {}, tests, "10", 60)
        self.assertTrue(page.failed() and not page.incomplete())
        self.assertIn("| 1 of 2 FAILED |", page.markdown())
        self.assertIn("FAILED: name on x86_64 6.1 many: why", page.text())
        self.assertNotIn("INTERRUPTED", page.text())
        for state, failed in (cells.MISSING, True), (cells.UNFETCHED, False):
            results["x86_64", "6.1", "many", "name"] = cells.Cell(state, "why")
            page = report.Report(results, {}, tests, "10", 60)
            self.assertEqual((page.failed(), page.incomplete()), (failed, not failed))
        results["x86_64", "6.1", "numa", "name"] = cells.Cell(cells.UNFETCHED, "why")
        self.assertTrue(report.Report(results, {}, tests, "10", 60).failed())
        page = report.Report(results, {}, tests, "10", 60, planned=7)
        self.assertIn("INTERRUPTED after 2 of 7 machines", page.markdown())

    def test_kernels_of_one_version_differ_in_the_report(self):
        tests = table.parse(LINE, MACHINES)
        names = "6.12", "6.12-16k"
        results = {("aarch64", name, "numa", "name"): cells.Cell(cells.GREEN) for name in names}
        page = report.Report(results, {("aarch64", name): "6.12.9-1" for name in names}, tests,
                             "10", 60)
        self.assertIn("| test | aarch64 6.12.9 | aarch64 6.12.9 16k |", page.markdown())


class Boot(unittest.TestCase):
    """A shell stands for QEMU."""

    def boot(self, script, progress=lambda guest: None, log=None, running=None):
        with tempfile.TemporaryDirectory() as name:
            path = log or os.path.join(name, "log")
            return boot.boot(running or boot.Running(), ["sh", "-c", script], dict(os.environ),
                             path, {"a": 1}, 60, progress)

    def test_to_the_end(self):
        g, wrong = self.boot("printf '@lab up 6.1 8\\r\\n@lab begin a\\n@lab end a exit 0 5\\n"
                             "@lab done\\n'")
        self.assertEqual((wrong, list(g.ended), g.release), (None, ["a"], "6.1"))

    def test_a_machine_that_hangs_or_ends_early(self):
        with mock.patch.object(boot, "GRACE", 1):
            g, wrong = self.boot("sleep 1000 & printf '@lab up 6.1 8\\n@lab begin a\\n'; wait")
        self.assertEqual((wrong, g.ended), ("hung in a", {}))
        self.assertEqual(self.boot("echo @lab up 6.1 8; exit 3")[1], "QEMU ended early")

    def test_an_interrupt_ends_all(self):
        running = boot.Running()
        _, wrong = self.boot("sleep 1000 & echo @lab up 6.1 8; wait", running=running,
                             progress=lambda guest: guest.release and running.stop())
        self.assertEqual((wrong, running.processes), ("QEMU ended early", set()))
        self.assertEqual(self.boot("true", running=running)[1], "interrupted")

    def test_a_full_disk_is_reported(self):
        with self.assertRaisesRegex(OSError, "No space left"):
            self.boot("sleep 1000 & echo @lab up 6.1 8; wait", log="/dev/full")


if __name__ == "__main__":
    unittest.main()
