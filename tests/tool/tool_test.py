#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command nearcpu as a user meets it: options, exit codes, output, files, bad input.

usage: tool_test.py NEARCPU [TEST...]
"""
import ctypes
import errno
import html.parser
import json
import os
import re
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import terminal

TOOL = ""
SANITIZED = bool(os.environ.get("TOOL_TEST_SANITIZED"))

# Why sequences are off where NEAR_CONF=rseq:off says so. A CPU without any says that first.
WHY_OFF = "NEAR_CONF=rseq:off"
NO_SEQUENCES = "this CPU has no sequences"

# Benchmarks whose rows run for as long as --iterations says, and how many tables each makes.
FAST = ["hitcounter", "list", "refcount", "cpuid", "counter", "memory"]
FEW = ["--iterations", "2000", "--repeat", "2"]


def why_off():
    why = json.loads(run("info", "--json").stdout)["rseq"]["why"]
    return NO_SEQUENCES if NO_SEQUENCES in why else WHY_OFF


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


def run(*args, env=None, drop=(), **more):
    full = {k: v for k, v in os.environ.items() if k not in drop}
    full.update(env or {})
    return subprocess.run([more.pop("tool", TOOL), *args], env=full,
                          stdin=subprocess.DEVNULL, timeout=300,
                          stdout=more.pop("stdout", subprocess.PIPE),
                          stderr=more.pop("stderr", subprocess.PIPE),
                          universal_newlines=True, **more)


class Case(unittest.TestCase):
    maxDiff = None

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
            (["frobnicate"], "unknown subcommand 'frobnicate'"),
            (["--frobnicate"], "unknown option '--frobnicate'"),
            (["-x"], "unknown option '-x'"),
            (["info", "--frobnicate"], "unknown option '--frobnicate'"),
            (["info", "--json=file"], "takes no value"),
            (["info", "extra"], "unexpected argument 'extra'"),
            (["bench", "-x"], "unknown option '-x'"),
            (["bench", "nosuch"], "unknown benchmark 'nosuch'"),
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
        self.assertIn(why_off(), info["rseq"]["why"])
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
        result = subprocess.run([TOOL, "info", "--json"], stdout=subprocess.PIPE,
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


class Bench(Case):
    def bench(self, *args, **more):
        result = run("bench", *args, "--json", "-", **more)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout[:2000])
        return json.loads(result.stdout)

    def rows(self, report):
        for table in report["tables"]:
            for row in table["rows"]:
                yield table, row

    def test_every_row(self):
        report = self.bench(*FAST, "--threads", "1,3", *FEW)
        names = [(t["benchmark"], t["threads"]) for t in report["tables"]]
        expected = [(n, c) for n in FAST for c in ([1] if n == "counter" else [1, 3])]
        self.assertEqual(names, expected)
        for table, row in self.rows(report):
            with self.subTest(table=table["benchmark"], row=row["name"]):
                self.assertNotIn("failed", row)
                if "missing" in row:
                    self.assertGreater(len(row["missing"]), 10)
                    continue
                self.assertEqual(len(row["samples"]), 2)
                for sample in row["samples"]:
                    if table["benchmark"] == "memory":
                        self.assertEqual(sample["counters"], 2000)
                    else:
                        self.assertEqual(sample["ops"], 2000 * table["threads"])
                        self.assertGreater(sample["wall_ns"], 0)
            self.assertTrue(table["verdict"].endswith("."), table["verdict"])

    def test_rows_run_in_their_own_mode(self):
        info = json.loads(run("info", "--json", env={"NEAR_CONF": ""}).stdout)
        report = self.bench("hitcounter", "--threads", "1", *FEW, env={"NEAR_CONF": "rseq:off"})
        rows = {row["name"]: row for _, row in self.rows(report)}
        # slot:cpu of the row replaces what the user set; near-off never has sequences.
        self.assertEqual("missing" in rows["near-cpu"], not info["rseq"]["live"])
        self.assertIn("samples", rows["near-off"])
        report = self.bench("refcount", "--threads", "1", *FEW, env={"NEAR_CONF": "rseq:off"})
        rows = {row["name"]: row for _, row in self.rows(report)}
        self.assertIn(why_off(), rows["near"]["missing"])

    def test_figures_are_of_their_rows(self):
        report = self.bench("hitcounter", "--threads", "2", "--iterations", "20000",
                            "--repeat", "3")
        table = report["tables"][0]
        for figure in table["figures"]:
            row, other = ([r for r in table["rows"] if r["name"] == figure[k]][0]
                          for k in ("row", "against"))
            pairs = zip(row["samples"], other["samples"])
            ratios = sorted((a["user_ns"] + a["system_ns"]) / (b["user_ns"] + b["system_ns"])
                            for a, b in pairs)
            self.assertAlmostEqual(figure["value"], ratios[1], places=9)
            self.assertEqual(figure["reached"], figure["value"] <= figure["at_most"])

    def test_text(self):
        result = run("bench", "cpuid", "memory", *FEW)
        self.expect(result, 0)
        self.assertNotIn("\033", result.stdout)
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100, line)
        self.assertRegex(result.stdout, r"(?m)^empty loop \* +\d")
        self.assertRegex(result.stdout, r"(?m)^one atomic each +\d")

    def test_sched(self):
        result = run("bench", "sched", "--iterations", "2", "--repeat", "1",
                     env={"PATH": "/nonexistent"})
        self.expect(result, 0)
        self.assertEqual(result.stdout.count("not measured: perf is not installed"), 6)
        report = self.bench("sched", "--iterations", "2", "--repeat", "1")
        for _, row in self.rows(report):
            self.assertNotIn("failed", row)

    def test_progress_is_for_terminals(self):
        master, slave = terminal.open_terminal(self)
        result = run("bench", "refcount", "--threads", "1", *FEW, stderr=slave)
        os.close(slave)
        seen = b""
        try:
            while chunk := os.read(master, 4096):
                seen += chunk
        except OSError:
            pass
        os.close(master)
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"refcount, 1 thread: one atomic 1/2", seen)
        self.assertTrue(seen.endswith(b"\033[K"), seen[-20:])

    def test_too_many_threads_for_the_system(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (100, 100))
            if os.geteuid() == 0:  # whom the limit does not bind
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        with tempfile.TemporaryDirectory() as scratch:
            os.chmod(scratch, 0o755)
            copy = shutil.copy(TOOL, scratch)  # where everybody can read it
            result = run("bench", "refcount", "--threads", "500", *FEW, tool=copy,
                         preexec_fn=limit)
        self.expect(result, 1, "some rows failed")
        self.assertIn("allows fewer threads", result.stdout)


class Page(html.parser.HTMLParser):
    VOID = {"meta", "link", "br", "img", "input", "hr", "rect", "circle", "use"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.refs, self.ids, self.text = [], [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.refs += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        self.ids += [v for k, v in attrs if k == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open and self.open[-1] == tag, (tag, self.open, self.getpos())
            self.open.pop()

    def handle_data(self, data):
        self.text += data


class Files(Case):
    ARGS = ("bench", "refcount", "--threads", "1", *FEW)

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = self.scratch.name

    def path(self, name):
        return os.path.join(self.dir, name)

    def page(self, **more):
        result = run("bench", "refcount", "cpuid", "memory", "--threads", "2", *FEW, "--html",
                     self.path("r.html"), **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("r.html"), encoding="utf-8") as f:
            text = f.read()
        page = Page()
        page.feed(text)
        self.assertEqual(page.open, [])
        return page, text

    def test_html(self):
        page, text = self.page()
        self.assertEqual([r for r in page.refs if not r.startswith("#")], [], "needs no network")
        self.assertEqual([r for r in page.refs if r[1:] not in page.ids], [])
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertNotIn("script", page.seen)
        self.assertNotRegex(text, r"@import|url\(")
        for words in ("Reference count, 2 threads", "Memory of a million counters", "one atomic",
                      os.uname().release):
            self.assertIn(words, page.text)
        self.assertEqual(page.seen.count("table"), 4)
        self.assertIn(page.seen.count("svg"), (0, 3))

    def test_html_explains_before_the_first_table(self):
        _, text = self.page()
        explained = text[:text.index("<table")]
        for words in ("<dt>ratio</dt>", "<dt>*</dt>", "<dt>reached, missed</dt>"):
            self.assertIn(words, explained)

    def test_html_has_no_loss_in_green(self):
        """Neither in what is said of a table, nor in the rows of this library."""
        _, text = self.page()
        boxes = re.findall(r'<p class="(verdict[^"]*)">(.*?)</p>', text)
        self.assertEqual(len(boxes), 3)
        for kind, said in boxes:
            self.assertEqual(kind == "verdict loss", "so it loses here" in said, said)
        rows = re.findall(r'<tr class="ours( loss)?"><th scope="row">(.*?)</th>', text)
        self.assertGreaterEqual(len(rows), 3)
        if any(kind == "verdict loss" for kind, _ in boxes):
            self.assertTrue(any(loss for loss, _ in rows))

    def test_overview_has_what_programs_get(self):
        """Not the cheapest row, but the one without settings, with its cost."""
        for conf, names in (("", ("nearcpu, by cid", "nearcpu, by cpu", "nearcpu, rseq off")),
                            ("rseq:off", ("nearcpu, rseq off",))):
            result = run("bench", "hitcounter", "--threads", "2", *FEW, "--json",
                         self.path("r.json"), "--html", self.path("r.html"),
                         env={**os.environ, "NEAR_CONF": conf})
            self.expect(result, 0)
            with open(self.path("r.json"), encoding="utf-8") as f:
                rows = {row["label"]: row for row in json.load(f)["tables"][0]["rows"]}
            name = next(n for n in names if rows[n].get("samples"))
            cost = statistics.median((s["user_ns"] + s["system_ns"]) / s["ops"]
                                     for s in rows[name]["samples"])
            with open(self.path("r.html"), encoding="utf-8") as f:
                shown = re.search(r'href="#t0">.*?</th><td>([\d.]+) (ns|us)</td><td>(.*?)</td>',
                                  f.read())
            self.assertEqual(shown[3], name)
            value = float(shown[1]) * {"ns": 1, "us": 1000}[shown[2]]
            self.assertLess(abs(value / cost - 1), .01)

    def test_html_shows_settings_as_they_are(self):
        page, _ = self.page(env={"NEAR_CONF": "x:<b>&\"</dl>"})
        self.assertIn("x:<b>&\"</dl>", page.text)

    def test_html_without_gnuplot(self):
        page, _ = self.page(env={"PATH": "/nonexistent"})
        self.assertNotIn("svg", page.seen)
        self.assertIn("gnuplot is not installed", page.text)

    def test_json_and_html_together(self):
        result = run(*self.ARGS, "--json", self.path("r.json"), "--html", self.path("r.html"))
        self.expect(result, 0)
        self.assertEqual(sorted(os.listdir(self.dir)), ["r.html", "r.json"])
        with open(self.path("r.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["tables"][0]["benchmark"], "refcount")

    def test_replaces_a_file_and_keeps_its_mode(self):
        with open(self.path("old.json"), "w", encoding="utf-8") as f:
            f.write("old")
        os.chmod(self.path("old.json"), 0o640)
        os.symlink("old.json", self.path("link.json"))
        self.expect(run(*self.ARGS, "--json", self.path("link.json")), 0)
        self.assertTrue(os.path.islink(self.path("link.json")))
        self.assertEqual(os.stat(self.path("old.json")).st_mode & 0o777, 0o640)
        with open(self.path("old.json"), encoding="utf-8") as f:
            json.load(f)
        self.assertEqual(sorted(os.listdir(self.dir)), ["link.json", "old.json"])

    def test_unwritable_is_told_before_the_work(self):
        for path in (self.path("no/such/dir.json"), self.dir, "/proc/nosuch.json"):
            with self.subTest(path=path):
                result = run(*self.ARGS, "--json", path)
                self.expect(result, 1, "cannot write '%s'" % path)
                self.assertEqual(result.stdout, "")

    def test_full_disk(self):
        result = run(*self.ARGS, "--json", "/dev/full")
        self.expect(result, 1, "cannot write '/dev/full'", "No space left")
        self.assertIn("Reference count", result.stdout)

    def test_file_too_large(self):
        with open(self.path("r.json"), "w", encoding="utf-8") as f:
            f.write("old")
        result = run(*self.ARGS, "--json", self.path("r.json"), preexec_fn=lambda:
                     resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        self.expect(result, 1, "cannot write '%s'" % self.path("r.json"), "too large")
        self.assertEqual(os.listdir(self.dir), ["r.json"])
        with open(self.path("r.json"), encoding="utf-8") as f:
            self.assertEqual(f.read(), "old")

    def test_standard_output_full(self):
        for args in (("info",), ("info", "--json"), ("--help",), ("bench", "--list"), self.ARGS):
            with self.subTest(args=args), open("/dev/full", "w", encoding="utf-8") as full:
                self.expect(run(*args, stdout=full), 1, "standard output", "No space left")

    def test_standard_output_closed(self):
        for args in (("info",), self.ARGS, (*self.ARGS, "--json", "-")):
            with self.subTest(args=args):
                reader, writer = os.pipe()
                os.close(reader)
                result = run(*args, stdout=writer)
                os.close(writer)
                self.expect(result, 1, "standard output was closed")

    def test_files_are_finished_without_a_reader(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = run(*self.ARGS, "--json", self.path("r.json"), stdout=writer)
        os.close(writer)
        self.expect(result, 1, "standard output was closed")
        with open(self.path("r.json"), encoding="utf-8") as f:
            json.load(f)

    def children(self, pid):
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            return [int(word) for word in f.read().split()]

    def interrupt(self, sig):
        tool = subprocess.Popen([TOOL, "bench", "hitcounter", "--iterations", str(1 << 40),
                                 "--json", self.path("r.json")], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, universal_newlines=True)
        self.addCleanup(tool.kill)  # its child ends with it
        child = []
        while not child and tool.poll() is None:
            child = self.children(tool.pid)
        time.sleep(0.05)
        tool.send_signal(sig)
        _, errors = tool.communicate(timeout=60)
        return tool.returncode, errors, child

    def test_interrupted(self):
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(sig=sig):
                code, errors, child = self.interrupt(sig)
                self.assertEqual(code, 128 + sig, errors)
                self.assertEqual(errors, "nearcpu bench: interrupted; no file was written\n")
                self.assertEqual(os.listdir(self.dir), [])
                self.assertFalse([pid for pid in child if os.path.exists("/proc/%d" % pid)])


if __name__ == "__main__":
    TOOL = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
