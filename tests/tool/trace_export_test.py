#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace export: what other programs read, and outputs that fail.

usage: trace_export_test.py NEARCPU TRACE_FILE [TEST...]
"""
import csv
import io
import json
import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

import command
import trace_show_test
from command import run
from trace_show_test import LONG, TraceCase

BABELTRACE = shutil.which("babeltrace2")
# Debian's own Python has bt2.
BT2 = """
import bt2, json, sys
for m in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(m) is bt2._EventMessageConst:
        e = m.event
        print(json.dumps({"name": e.name, "cpu": int(e.packet.context_field["cpu_id"]),
                          "tid": int(e.common_context_field["vtid"]),
                          "ns": m.default_clock_snapshot.ns_from_origin,
                          "fields": {k: str(v) for k, v in e.payload_field.items()}}))
"""


class Export(TraceCase):
    def ctf(self, path):
        folder = self.path("ctf")
        shutil.rmtree(folder, ignore_errors=True)
        self.summary = self.trace("export", "--ctf", folder, path)
        return folder

    def babeltrace(self, folder, *options):
        if not BABELTRACE:
            self.skipTest("no babeltrace2")
        return subprocess.run([BABELTRACE, *options, folder], capture_output=True, text=True,
                              errors="replace", check=False, env={**os.environ, "TZ": "UTC"})

    def check_ctf(self, path, warnings=False):
        """Babeltrace's lines, which are as many as those of show."""
        folder = self.ctf(path)
        result = self.babeltrace(folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        if not warnings:
            self.assertEqual(result.stderr, "")
        lines = result.stdout.splitlines()
        self.assertEqual(len(lines), len(self.events(path)))
        self.assertTrue(self.summary.startswith(f"{len(lines)} events in "))
        return lines

    def test_ctf(self):
        lines = self.check_ctf(self.make("t", "basic"))
        for part in ("[22:13:20.000001000]", "app:types", "{ cpu_id = 1 }", "vtid = 100",
                     'b = ( "true" : container = 1 )', "a64 = 18446744073709551615",
                     "s64 = -9223372036854775808", "hex = 0xDEADBEEF", "f = 1.5",
                     "string = -2.25", "p = 0x1000", 'c = ( "blue" : container = -2 )',
                     r'text = "a \"b\"\\,\n', "raw = [ [0] = 0x1, [1] = 0xFE ]",
                     "[2] = 4000000000 ]", "halves = [ [0] = 0.5, [1] = -1.25 ]", 'empty = ""'):
            self.assertIn(part, lines[0])
        self.assertIn("trace_file:(4242) app:end: { cpu_id = 0 }, { vpid = 4242, vtid = 101 }, "
                      "{ job = 0, result = -1 }", lines[2])

    def test_ctf_of_many_packets(self):
        path = self.make("t", "many", 50000, 4096)
        numbers = [int(line.rsplit(" ", 2)[-2]) for line in self.check_ctf(path)]
        self.assertEqual(numbers, list(range(50000)))
        self.check_ctf(self.make("wrapped", "many", 50000))

    def test_ctf_of_chains(self):
        self.assertEqual(sum(LONG in line for line in self.check_ctf(self.make("t", "chains"))), 4)

    def test_ctf_of_similar_names(self):
        """Lengths are fields, too, and readers take underscores away."""
        line, = self.check_ctf(self.make("t", "lengths"))
        for words in ("[0] = 0x61", "data_length = 1", " x__ = 5", "id = 8", "[1] = 8"):
            self.assertIn(words, line)

    def test_ctf_of_discarded_events(self):
        path = self.make("t", "many", 50000, 256, 1)
        self.check_ctf(path, warnings=True)
        result = self.babeltrace(self.path("ctf"))
        discarded = 50000 - 2 * 4 * 2730
        self.assertIn(f"{discarded} events were discarded", self.summary)
        found = [int(line.split("discarded ")[1].split()[0])
                 for line in result.stderr.splitlines() if "discarded" in line]
        self.assertEqual(sum(found), discarded)

    def test_ctf_of_nothing(self):
        self.assertEqual(self.check_ctf(self.make("t", "many", 0)), [])

    def test_ctf_of_a_folder(self):
        os.mkdir(self.path("d"))
        for name in ("d/a", "d/b"):
            self.make(name, "basic")
        self.check_ctf(self.path("d"))

    def test_bt2(self):
        folder = self.ctf(self.make("t", "basic"))
        python = "/usr/bin/python3"
        if subprocess.run([python, "-c", "import bt2"], capture_output=True,
                          check=False).returncode:
            self.skipTest("no python3-bt2")
        result = subprocess.run([python, "-c", BT2, folder], capture_output=True, text=True,
                                check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        events = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(events), 22)
        self.assertEqual(events[0]["name"], "app:types")
        self.assertEqual(events[0]["ns"], 1700000000000001000)
        self.assertEqual(events[1]["fields"], {"job": "0"})

    def test_chrome(self):
        self.trace("export", "--chrome", self.path("json"), self.make("t", "basic"))
        with open(self.path("json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual(events[0]["args"], {"name": "trace_file"})
        self.assertEqual(len(events), 23)
        event = events[1]
        self.assertEqual((event["ts"], event["pid"], event["tid"]), (1, 4242, 100))
        self.assertEqual(event["args"], {
            "cpu": 1, "b": True, "a8": 255, "a16": 65535, "a32": 4294967295,
            "a64": "18446744073709551615", "s8": -1, "s16": -300, "s32": -70000,
            "s64": "-9223372036854775808", "hex": "0xdeadbeef", "f": 1.5, "string": -2.25,
            "p": "0x1000", "c": "blue", "text": 'a "b"\\,\né\ufffd', "raw": "01fe",
            "numbers": [1, 2, 4000000000], "halves": [.5, -1.25], "empty": ""})

    def test_chrome_pairs(self):
        path = self.make("t", "basic")
        for by in ((), ("--by", "job")):
            options = ("--between", "app:begin,app:end", *by)
            text = self.trace("export", "--chrome", "-", *options, path)
            events = json.loads(text)["traceEvents"]
            stat = self.trace("stat", *options, "--slowest", "1000", path)
            wanted = sorted(map(int, re.findall(r"^ +(\d+)  \d+\.\d+ cpu", stat, re.M)))
            self.assertEqual([sum(e["ph"] == kind for e in events) for kind in "iM"], [22, 1])
            if by:
                begins = [e for e in events if e["ph"] == "b"]
                ends = [e for e in events if e["ph"] == "e"]
                self.assertEqual([e["id"] for e in begins], [e["id"] for e in ends])
                self.assertEqual([e["args"]["job"] for e in begins],
                                 [e["args"]["job"] for e in ends])
                lengths = [e["ts"] - b["ts"] for b, e in zip(begins, ends)]
            else:
                lengths = [e["dur"] for e in events if e["ph"] == "X"]
            self.assertEqual(sorted(round(1000 * n) for n in lengths), wanted)

    def test_csv(self):
        path = self.make("t", "basic")
        rows = list(csv.DictReader(io.StringIO(
            run("trace", "export", "--csv", "-", path, errors="replace").stdout)))
        self.assertEqual(len(rows), 22)
        self.assertEqual(rows[0]["text"], 'a "b"\\,\né\ufffd')
        self.assertEqual(rows[0]["numbers"], "[1,2,4000000000]")
        self.assertTrue(math.isclose(float(rows[1]["time"]), .001))
        self.assertEqual((rows[2]["event"], rows[2]["job"], rows[2]["result"], rows[2]["b"]),
                         ("app:end", "0", "-1", ""))

    def test_fields_that_are_named_as_columns(self):
        path = self.make("t", "large", 0, 1024)
        wanted = {"field.cpu": 11, "field.time": 12, "field.pid": 13, "field.tid": 14,
                  "field.event": 15}
        text = self.trace("export", "--chrome", "-", "--name", "app:common", path)
        args = json.loads(text, object_pairs_hook=self.unique)["traceEvents"][1]["args"]
        self.assertEqual(args, {"cpu": 1, **wanted})
        text = self.trace("export", "--csv", "-", "--name", "app:common", path)
        row, = csv.DictReader(io.StringIO(text))
        self.assertEqual(row, {"time": "0.000002000", "cpu": "1", "pid": "4242", "tid": "100",
                               "event": "app:common", **{k: str(v) for k, v in wanted.items()}})
        self.assertEqual(len(self.check_ctf(path)), 3)

    def unique(self, pairs):
        self.assertEqual(len(dict(pairs)), len(pairs))
        return dict(pairs)

    # ---- outputs that fail ----

    def failing(self, *arguments, **more):
        return run("trace", "export", *arguments, self.file, **more)

    def test_outputs_that_fail(self):
        self.file = self.make("t", "many", 100000, 4096)
        os.mkdir(self.path("used"))
        self.write("used/metadata", b"mine")
        for form in ("--csv", "--chrome", "--perfetto"):
            self.expect(self.failing(form, "/dev/full"), 1, "cannot write", "No space")
            self.expect(self.failing(form, self.path("no/file")), 1, "No such file")
        self.expect(self.failing("--ctf", self.path("used")), 1, "has a trace already")
        self.expect(self.failing("--ctf", self.path("no/folder")), 1, "No such file")
        self.expect(self.failing("--ctf", self.path("t")), 1, "Not a directory")
        with open("/dev/full", "w", encoding="ascii") as full:
            for form in ("--csv", "--perfetto"):
                self.expect(self.failing(form, "-", stdout=full), 1, "No space")
        self.assertEqual(sorted(os.listdir(self.dir)), ["t", "used"])
        self.assertEqual(os.listdir(self.path("used")), ["metadata"])

    def test_files_that_become_too_large(self):
        self.file = self.make("t", "many", 100000, 4096)

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for form in ("--csv", "--chrome", "--perfetto", "--ctf"):
            self.expect(self.failing(form, self.path("out"), preexec_fn=limit), 1, "too large")
        self.assertEqual(os.listdir(self.dir), ["t"])

    def test_interrupted(self):
        self.file = self.make("t", "many", 100000, 4096)
        for form in ("--csv", "--perfetto", "--ctf"):
            with subprocess.Popen([command.TOOL, "trace", "export", form, self.path("out"),
                                   self.file], stderr=subprocess.PIPE, text=True,
                                  stdout=subprocess.DEVNULL) as export:
                # Before it is done, or after: then it has written all.
                time.sleep(.005)
                export.send_signal(signal.SIGINT)
                code = export.wait()
                error = export.stderr.read()
            if code == 130:
                self.assertIn("interrupted", error)
                self.assertEqual(os.listdir(self.dir), ["t"])
            elif code == 0:
                shutil.rmtree(self.path("out"), ignore_errors=True)
                if os.path.exists(self.path("out")):
                    os.unlink(self.path("out"))
            else:
                self.assertEqual(code, -signal.SIGINT)  # before it has begun


if __name__ == "__main__":
    trace_show_test.MAKER = sys.argv.pop(2)
    command.main()
