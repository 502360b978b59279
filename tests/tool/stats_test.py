#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu stats on regions, on files that are something else, and on damaged ones.

usage: stats_test.py NEARCPU REGION_SEED FUZZ_REGION [TEST...]
"""
import json
import os
import re
import subprocess
import sys
import unittest

import command
from command import ScratchCase, run

SEED = FUZZ = ""
ROUNDS = 800
DIRECTORY, ENTRY = 256, 256  # where it begins, bytes of an entry
NAME = 56  # in an entry


class Stats(ScratchCase):
    def setUp(self):
        super().setUp()
        self.region = self.path("region")
        subprocess.run([SEED, self.region], check=True)

    def stats(self, *options, file=None):
        result = run("stats", *options, file or self.region)
        self.expect(result, 0)
        return result.stdout

    def refused(self, file, *words, code=1):
        result = run("stats", file)
        self.expect(result, code, *words)
        self.assertEqual(result.stdout, "")

    def change(self, at, data):
        with open(self.region, "r+b") as file:
            file.seek(at)
            file.write(data)

    def test_text(self):
        text = self.stats()
        head, _, rest = text.partition("\n\n")
        self.assertRegex(head, r"(?m)^made +[-\d]{10} [:\d]{8} by region_seed, process \d+$")
        self.assertRegex(head, r"(?m)^objects +12 of 16$")
        lines = rest.splitlines()
        self.assertIn("            16 bytes  bytes", lines)
        self.assertIn("            64 bytes  table, once", lines)
        self.assertEqual([line for line in lines if "heap" in line or "level" in line],
                         ["                   7  heap_total{index=\"1\"}",
                          "                  -2  level{index=\"2\"}"])
        self.assertIn("                   3  requests{code=\"500\"}", lines)
        self.assertIn("                  -1  many{index=\"0\"}", lines)
        self.assertIn("           histogram  latency{path=\"/a\"}", lines)
        self.assertRegex(lines[lines.index("           histogram  latency{path=\"/a\"}") + 1],
                         r"count 100  mean \S+  min 0 ")
        names = [re.search(r"  ([a-z]+)[^ ]*", line)[1] for line in lines if not line[21] == " "]
        self.assertEqual(names, sorted(names))

    def test_json(self):
        report = json.loads(self.stats("--json"))
        self.assertEqual(report["program"], "region_seed")
        objects = {(o["name"], *sorted(o["labels"].items())): o for o in report["objects"]}
        self.assertEqual(len(objects), 12)
        path = ("path", 'a "b" \\ \n é')
        self.assertEqual(objects["requests", ("code", "200"), path]["values"], [1000])
        self.assertEqual(objects["many",]["values"], [-1, 0, 1])
        self.assertEqual(objects["bytes",]["kind"], "bytes")
        self.assertEqual([objects[n,]["once"] for n in ("bytes", "table", "rings")],
                         [False, True, True])
        self.assertEqual(objects["heap_total",]["kind"], "counters")
        self.assertEqual(objects["heap_total",]["places"], [{"index": 1, "pid": None, "value": 7}])
        self.assertEqual(objects["heap_level",]["places"], [])
        self.assertEqual(objects["level",]["kind"], "gauges")
        self.assertEqual([p["value"] for p in objects["level",]["places"]],
                         [0, 0, -2, 0, 0, 0, 0, 0])
        for name in ("/a", "/b"):
            histogram = objects["latency", ("path", name)]["histogram"]
            self.assertEqual(histogram["count"], 100)
            self.assertEqual(sum(b[2] for b in histogram["buckets"]), 100)
        self.assertEqual(histogram["sum"], 4950)

    def samples(self):
        """Of the text format, after a check of its grammar: (type of each name, samples)."""
        types, samples, done, helped = {}, {}, set(), None
        label = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
        name = None
        for line in self.stats("--prometheus").splitlines():
            if line.startswith("# HELP "):
                _, _, helped, text = line.split(" ", 3)
                self.assertRegex(text, r"^[^\\\n]+$")
                continue
            begin = re.fullmatch(r"# TYPE ([a-zA-Z_:][\w:]*) (counter|histogram|gauge)", line)
            if begin:
                done.add(name)
                name = begin[1]
                self.assertEqual(helped, name)
                self.assertNotIn(name, done)  # a group is not continued
                types[name] = begin[2]
                continue
            found = re.fullmatch(rf"([a-zA-Z_:][\w:]*)(?:{{({label}(?:,{label})*)}})? (\S+)", line)
            self.assertTrue(found, line)
            suffix = found[1][len(name):]
            self.assertTrue(found[1].startswith(name) and
                            suffix in ("", "_bucket", "_sum", "_count"), line)
            names = re.findall(r'(?:^|,)([a-zA-Z_]\w*)="', re.sub(r'\\.', "", found[2] or ""))
            self.assertEqual(len(names), len(set(names)), line)
            self.assertNotIn(found.groups()[:2], samples)
            samples[found.groups()[:2]] = float(found[3])
        return types, samples

    def test_prometheus(self):
        types, samples = self.samples()
        self.assertEqual(types, {"heap_level": "gauge", "heap_total": "counter",
                                 "latency": "histogram", "level": "gauge", "many": "counter",
                                 "requests": "counter"})
        self.assertEqual(samples["heap_total", 'index="1"'], 7)
        self.assertEqual(samples["level", 'index="2"'], -2)
        self.assertEqual(samples["requests", 'code="500"'], 3)
        self.assertEqual(samples["requests", r'code="200",path="a \"b\" \\ \n é"'], 1000)
        self.assertEqual(samples["many", 'index="2"'], 1)
        self.assertEqual(samples["latency_sum", 'path="/b"'], 4950)
        for path in ("/a", "/b"):
            bounds = [(labels.split('le="')[1][:-1], n) for (name, labels), n in samples.items()
                      if name == "latency_bucket" and f'"{path}"' in labels]
            counts = [n for _, n in bounds]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(bounds[-1], ("+Inf", 100))
            self.assertEqual(samples["latency_count", f'path="{path}"'], 100)
            self.assertIn(("63", 64), bounds)

    def test_openmetrics(self):
        lines = self.stats("--openmetrics").splitlines()
        self.assertEqual(lines[-1], "# EOF")
        self.assertIn("# TYPE requests unknown", lines)
        self.assertIn('many{index="0"} -1', lines)
        self.assertIn('latency_bucket{path="/b",le="63.0"} 64', lines)
        self.expect(run("stats", "--openmetrics", "--json", self.region), 2, "one form")

    def test_region_without_a_name(self):
        fd = os.memfd_create("region")
        with open(self.region, "rb") as file:
            os.write(fd, file.read())
        self.assertIn("requests", self.stats(file=f"/proc/{os.getpid()}/fd/{fd}"))
        os.close(fd)

    def test_file_is_not_changed(self):
        os.chmod(self.region, 0o400)
        with open(self.region, "rb") as file:
            before = file.read()
        for option in ("--", "--json", "--prometheus"):
            self.stats(option)
        with open(self.region, "rb") as file:
            self.assertEqual(file.read(), before)

    def test_other_files(self):
        os.mkfifo(self.path("pipe"))
        open(self.path("empty"), "w").close()
        self.refused(self.path("none"), "cannot open", "No such file")
        self.refused(self.path("pipe"), "no region")
        self.refused(self.path("empty"), "no region", "near_region(3)")
        self.refused(self.path(""), "Is a directory")
        self.refused("/dev/zero", "no region")
        self.refused("/proc/self/exe", "no region")

    def test_damage(self):
        self.change(DIRECTORY + 2 * ENTRY + NAME, b"\x1b[2J")
        self.refused(self.region, "directory", "damaged")
        self.change(12, b"\xff\x7f")  # the number of CPUs
        self.refused(self.region, "header", "damaged")
        self.change(12, b"\0\0\0\0")
        self.refused(self.region, "header", "damaged")
        self.change(8, b"\x09")
        self.refused(self.region, "another version", "that version")
        os.truncate(self.region, 40)
        self.refused(self.region, "no region")

    def test_truncated(self):
        os.truncate(self.region, os.path.getsize(self.region) - 4096)
        self.refused(self.region, "truncated")

    def test_damaged_histogram(self):
        self.change(DIRECTORY + 1 * ENTRY + 24, b"\x03")  # its precision
        for option, what in (("--", "is damaged"), ("--json", "null"), ("--prometheus", "TYPE"),
                             ("--otlp", "latency"), ("--openmetrics", "TYPE")):
            result = run("stats", option, self.region)
            self.expect(result, 1, "damaged histograms")
            self.assertIn(what, result.stdout)

    def test_name_of_the_program(self):
        with open(self.region, "rb") as file:
            at = file.read(DIRECTORY).index(b"region_seed")
        self.change(at, b"\x1b[2J\xff")
        self.assertIn("by ?[2J?n_seed,", self.stats())
        self.assertEqual(json.loads(self.stats("--json"))["program"], "?[2J?n_seed")

    def test_usage(self):
        for arguments, word in (([], "no file"), ([self.region] * 2, "one file"),
                                (["--json", "--prometheus", self.region], "one form"),
                                (["--yaml", self.region], "--yaml")):
            self.expect(run("stats", *arguments), 2, word)
        result = run("stats", "--help")
        self.expect(result, 0)
        for word in ("usage: nearcpu stats", "--json", "--prometheus", "/proc/PID/fd", "Exit"):
            self.assertIn(word, result.stdout)
        self.assertIn("  stats ", run("--help").stdout)

    def test_output_that_fails(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            self.expect(run("stats", self.region, stdout=full), 1, "No space")
        read, write = os.pipe()
        os.close(read)
        result = run("stats", self.region, stdout=write)
        os.close(write)
        self.assertIn(result.returncode, (1, -13))

    def test_fuzzed(self):
        result = subprocess.run([FUZZ, str(ROUNDS), self.region], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    SEED, FUZZ = sys.argv.pop(2), sys.argv.pop(2)
    command.main()
