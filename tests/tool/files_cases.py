# SPDX-License-Identifier: MIT
"""nearcpu bench --json and --html: the page, and files that appear whole or not at all."""
import html.parser
import json
import os
import re
import resource
import signal
import statistics
import subprocess
import time

import command
from command import FEW, ScratchCase, run


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


class Files(ScratchCase):
    ARGS = ("bench", "refcount", "--threads", "1", *FEW)

    def page(self, **more):
        result = run("bench", "refcount", "cpuid", "memory", "--threads", "2", *FEW, "--html",
                     self.path("r.html"), "--json", self.path("r.json"), **more)
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
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertNotRegex(text, r"@import|url\(")
        with open(self.path("r.json"), encoding="utf-8") as f:
            self.assertEqual(json.loads(re.search(r'id="data" type="application/json">(.*?)'
                                                  '</script>', text, re.S)[1]), json.load(f))

    def test_default_is_what_programs_get(self):
        """Not the cheapest row, but the one without settings."""
        for conf, names in (("", ("near-cid", "near-cpu", "near-off")),
                            ("rseq:off", ("near-off",))):
            result = run("bench", "hitcounter", "--threads", "2", *FEW, "--json",
                         self.path("r.json"), env={**os.environ, "NEAR_CONF": conf})
            self.expect(result, 0)
            with open(self.path("r.json"), encoding="utf-8") as f:
                table = json.load(f)["tables"][0]
            rows = {row["name"]: row for row in table["rows"]}
            self.assertEqual(table["default"], next(n for n in names if "samples" in rows[n]))
            own = rows[table["default"]]
            best = rows[own["best_other"]]
            gain = statistics.median((b["user_ns"] + b["system_ns"]) / (a["user_ns"] +
                                     a["system_ns"]) for a, b in zip(own["samples"],
                                                                     best["samples"]))
            self.assertAlmostEqual(own["ratio_to_best_other"], gain, places=9)
            self.assertIn(f'"{own["label"]}": ', result.stdout)
            self.assertIn(f'the best other, "{best["label"]}"', " ".join(result.stdout.split()))

    def test_html_shows_settings_as_they_are(self):
        page, text = self.page(env={"NEAR_CONF": "x:<b>&\"</dl>"})
        self.assertNotIn("x:<b>", text)
        with open(self.path("r.json"), encoding="utf-8") as f:
            self.assertEqual(json.load(f)["machine"]["settings"]["NEAR_CONF"], "x:<b>&\"</dl>")

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

    def test_unwritable_is_reported_before_the_work(self):
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

    def test_help_for_a_reader_that_leaves(self):
        for args in (["--help"], ["--version"], ["run", "--help"], ["trace", "--help"],
                     ["bench", "--list"], ["sim", "--list"]):
            reader, writer = os.pipe()
            os.close(reader)
            result = run(*args, stdout=writer)
            os.close(writer)
            self.expect(result, 0)

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
        tool = subprocess.Popen([command.TOOL, "bench", "hitcounter", "--iterations", str(1 << 40),
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
