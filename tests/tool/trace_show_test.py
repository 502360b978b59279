#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace show, list and stat, on files that trace_file makes.

usage: trace_show_test.py NEARCPU TRACE_FILE [TEST...]
"""
import os
import re
import resource
import subprocess
import sys
import unittest

import command
from command import ScratchCase, run

MAKER = ""
LONG = "".join(chr(ord("a") + i % 26) for i in range(598))


class TraceCase(ScratchCase):
    def make(self, name, *arguments):
        path = self.path(name)
        subprocess.run([MAKER, path, *map(str, arguments)], check=True)
        return path

    def trace(self, *arguments):
        result = run("trace", *arguments)
        self.expect(result, 0)
        return result.stdout

    def events(self, *arguments):
        """The lines of show that are events."""
        return [line for line in self.trace("show", *arguments).splitlines()
                if not line.startswith("#")]


class Show(TraceCase):
    def test_types(self):
        first, *rest = self.events(self.make("t", "basic"))
        self.assertEqual(first, (
            "0.000001000 cpu 1 tid 100 app:types b=true a8=255 a16=65535 a32=4294967295 "
            "a64=18446744073709551615 s8=-1 s16=-300 s32=-70000 s64=-9223372036854775808 "
            "hex=0xdeadbeef f=1.5 string=-2.25 p=0x1000 c=blue "
            r'text="a \"b\"\\,\né\xff" raw="01fe" numbers=[1,2,4000000000] halves=[0.5,-1.25] '
            'empty=""'))
        self.assertEqual(rest[0], "0.001000000 cpu 0 tid 101 app:begin job=0")
        self.assertEqual(rest[1], "0.001001000 cpu 0 tid 101 app:end job=0 result=-1")
        self.assertIn("0.002000000 cpu 0 tid 102 app:nothing", rest)
        self.assertEqual(len(rest), 21)
        times = [float(line.split()[0]) for line in rest]
        self.assertEqual(times, sorted(times))

    def test_wall_clock(self):
        path = self.make("t", "basic")
        names = ("--name", "app:[!t]*")
        lines = self.trace("show", "--utc", *names, path).splitlines()
        self.assertTrue(lines[0].endswith("process 4242, 2023-11-14T22:13:20.000000000Z"))
        self.assertTrue(lines[1].startswith("2023-11-14T22:13:20.001000000Z cpu 0 tid 101"))
        self.assertEqual([line.split(" ", 1)[1] for line in lines[1:22]],
                         [line.split(" ", 1)[1] for line in self.events(*names, path)])
        for zone, time in (("Asia/Kolkata", "2023-11-15T03:43:20.001000000+05:30"),
                           ("America/St_Johns", "2023-11-14T18:43:20.001000000-03:30")):
            result = run("trace", "show", "--local", *names, path, env={**os.environ, "TZ": zone})
            self.assertEqual(result.stdout.splitlines()[1].split()[0], time)
        csv = self.trace("export", "--csv", "-", "--utc", *names, path).splitlines()
        self.assertTrue(csv[1].startswith("2023-11-14T22:13:20.001000000Z,0,4242,101,"))
        self.expect(run("trace", "list", "--utc", path), 2, "--utc and --local go with")

    def test_slowest(self):
        path = self.make("t", "basic")
        pair = ("--between", "app:begin,app:end", "--by", "job")
        everything = self.trace("stat", *pair, "--slowest", "1000", path)
        count, most = re.search(r"\ncount (\d+) .* max (\d+)\n", everything).groups()
        lines = everything.split("the slowest, in ns\n")[1].splitlines()
        self.assertEqual(len(lines), 2 * int(count))
        lengths = []
        for first, last in zip(lines[::2], lines[1::2]):
            ns, first = first.split(None, 1)
            begin, end = (line.split()[0].replace(".", "") for line in (first, last))
            self.assertEqual(int(ns), int(end) - int(begin))
            self.assertEqual(re.search(r"app:begin job=(\d+)", first)[1],
                             re.search(r"app:end job=(\d+)", last)[1])
            self.assertIn(first.strip(), self.events(path))
            self.assertIn(last.strip(), self.events(path))
            lengths.append(int(ns))
        self.assertEqual(lengths, sorted(lengths, reverse=True))
        self.assertEqual(lengths[0], int(most))
        three = self.trace("stat", *pair, "--slowest", "3", path)
        self.assertEqual(three.split("the slowest, in ns\n")[1].splitlines(), lines[:6])
        self.expect(run("trace", "stat", "--slowest", "3", path), 2, "--slowest goes with")
        self.expect(run("trace", "stat", *pair, "--slowest", "0", path), 2, "a number up to")

    def test_call_stacks(self):
        path = self.make("t", "stacks")
        stack, other = self.events(path)
        self.assertEqual(stack, "0.000000000 cpu 0 tid 100 app:call n=7 stack=["
                         "script>+0x1,such+0x10ff,such+0x2100,such+0x40ff,0x5000,0x0,"
                         "0xffffffffffffffff]")
        self.assertIn("stack=[0x2001] stack=8193", other)
        self.assertNotIn("near_trace:object", self.trace("list", path))

    def test_floats(self):
        event, = self.events(self.make("t", "floats"))
        self.assertIn("doubles=[0,-0,9.99,0.1,0.3333333333333333,1e+15,1e+16,", event)
        self.assertIn(",nan,nan,inf,-inf] ", event)
        self.assertIn("singles=[0,9.99,0.1,0.33333334,1e+06,1234567,16777216,", event)

    def test_clocks(self):
        counter = self.events(self.make("counter", "basic"))
        self.assertEqual(self.events(self.make("monotonic", "basic", 0, 256, 0, 2)), counter)
        self.assertEqual(self.events(self.make("own", "basic", 0, 256, 0, 3)), counter)
        none = self.events(self.make("none", "basic", 0, 256, 0, 0))
        self.assertEqual({line.split()[0] for line in none}, {"0.000000000"})
        self.assertEqual(sorted(line.split(" ", 1)[1] for line in none),
                         sorted(line.split(" ", 1)[1] for line in counter))

    def test_filters(self):
        path = self.make("t", "basic")
        all_events = self.events(path)
        for option, wanted in (
                (("--name", "app:be*"), lambda w: w[5] == "app:begin"),
                (("--name", "app:t*,*:end"), lambda w: w[5] in ("app:types", "app:end")),
                (("--from", ".002"), None), (("--from", "0.002"), lambda w: float(w[0]) >= .002),
                (("--to", "0.003003"), lambda w: float(w[0]) <= .003003),
                (("--cpu", "1-3,7"), lambda w: w[2] == "1"), (("--tid", "102"),
                                                              lambda w: w[4] == "102"),
                (("--level", "warning"), lambda w: w[5] == "app:begin"),
                (("--level", "4"), lambda w: w[5] in ("app:begin", "app:types"))):
            if wanted:
                self.assertEqual(self.events(*option, path),
                                 [line for line in all_events if wanted(line.split())], option)
            else:
                self.expect(run("trace", "show", *option, path), 2, option[0])

    def test_patterns_that_nothing_matches(self):
        path = self.make("t", "basic")
        for names in ("app:none", "app:be*,app:none", "app:none,app:be*"):
            for command_line in (("show",), ("list",), ("stat",), ("export", "--csv", "-"),
                                 ("stat", "--between", "app:begin,app:end")):
                self.expect(run("trace", *command_line, "--name", names, path), 1,
                            "there is no tracepoint 'app:none'")
        self.trace("show", "--name", "app:be*,unknown:*", path)
        self.trace("show", "--name", "app:be*", "--level", "1", path)
        self.trace("recover", "--name", "app:none", "--csv", "-", path)

    def test_chains(self):
        text = self.trace("show", self.make("t", "chains"))
        lines = text.splitlines()
        found = [line.split() for line in lines if "app:long" in line]
        self.assertEqual([(w[0], w[4]) for w in found],
                         [("0.000010000", "100"), ("0.000020000", "101"), ("0.000030000", "100"),
                          ("0.000060000", "101")])
        self.assertEqual([w[6] for w in found], [f'text="{LONG}"'] * 3 + [f'text="{LONG}"...'])
        self.assertEqual(sum("app:one" in line for line in lines), 12)
        times = [line.split()[0] for line in lines if line[0] != "#"]
        self.assertEqual(times, sorted(times))
        self.assertEqual(lines[-1],
                         "# 2 events of several records were lost with one of their parts")

    def numbers(self, path):
        return [int(line.rsplit("=")[-1]) for line in self.events(path)]

    def test_overwritten(self):
        path = self.make("t", "many", 50000)
        numbers = self.numbers(path)
        self.assertEqual(numbers, sorted(set(numbers)))
        # Of each ring three sub-buffers at least: 2730 events of 24 bytes each.
        by_ring = [[n for n in numbers if n % 7 % 2 == ring] for ring in (0, 1)]
        for ring, most in ((0, 49998), (1, 49999)):
            self.assertTrue(3 * 2730 <= len(by_ring[ring]) <= 4 * 2730)
            self.assertGreaterEqual(by_ring[ring][-1], most - 5)
            self.assertEqual(by_ring[ring], [n for n in range(by_ring[ring][0], 50000)
                                             if n % 7 % 2 == ring])
        self.assertIn("bytes of older events were overwritten", self.trace("show", path))

    def test_stopped(self):
        path = self.make("t", "many", 50000, 256, 1)
        numbers = self.numbers(path)
        self.assertEqual(numbers[:10], list(range(10)))
        self.assertEqual(len(numbers), 2 * 4 * 2730)
        self.assertIn(f"\n# {50000 - len(numbers)} events were discarded",
                      self.trace("show", path))

    def test_folder(self):
        os.mkdir(self.path("d"))
        for name in ("d/t10", "d/t9"):
            self.make(name, "basic")
        for name in ("other", "empty"):
            self.write(f"d/{name}", b"nothing" if name == "other" else b"")
        one = self.events(self.path("d/t9"))
        both = self.events(self.path("d"))
        self.assertEqual(len(both), 2 * len(one))
        self.assertEqual(sorted(both)[::2], sorted(both)[1::2])
        self.assertIn(" pid 4242 ", both[0])
        lines = self.trace("list", self.path("d")).splitlines()
        self.assertEqual([line.rsplit("/")[-1] for line in lines], ["t9", "t10"])
        for line in lines:
            self.assertRegex(line, r"^2023-11-1\d .* ended +4242  trace_file +4 tracepoints ")

    def test_folder_of_many_files(self):
        """All are read if the limit of open files can be raised; or none."""
        os.mkdir(self.path("d"))
        first = self.make("d/0", "many", 1)
        for i in range(1, 60):
            os.link(first, self.path(f"d/{i}"))

        def limit(hard):
            resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))
        result = run("trace", "stat", self.path("d"), preexec_fn=lambda: limit(128))
        self.expect(result, 0)
        self.assertEqual(result.stdout.split()[0], "60")
        result = run("trace", "stat", self.path("d"), preexec_fn=lambda: limit(32))
        self.expect(result, 1, "cannot open", "Too many open files")

    def test_list(self):
        text = self.trace("list", self.make("t", "basic"))
        for words in ("trace_file, process 4242, ended", "overwrites the oldest",
                      "2000.000000 MHz", "3 of 2 slots and 2 fallbacks, each 256 KiB",
                      "warning  app:begin(u32 job)  file.c:12"):
            self.assertIn(words, text)

    def test_stat(self):
        path = self.make("t", "basic")
        text = self.trace("stat", "--between", "app:begin,app:end", "--by", "job", path)
        counts = dict(reversed(line.split()) for line in text.splitlines()[1:5])
        self.assertEqual(counts, {"app:types": "1", "app:begin": "10", "app:end": "10",
                                  "app:nothing": "1"})
        self.assertIn("by job; 0 without the other one", text)
        self.assertRegex(text, r"\ncount 10  mean 55\d\d")
        self.assertEqual(sum(map(int, re.findall(r" ns +(\d+)  #", text))), 10)
        # Exact: not the edges of a histogram's buckets.
        self.assertIn("\ncount 10  mean 5500.0  min 1000  p50 5000  p90 9000  p99 10000  "
                      "p99.9 10000  max 10000\n", text)
        for pair, by, words in (("app:begin,app:stop", "job", "no tracepoint 'app:stop'"),
                                ("begin,app:end", "job", "no tracepoint 'begin'"),
                                ("app:begin,app:end", "result", "'app:begin' has no field")):
            for options in (("stat",), ("show", "--html", self.path("page"))):
                self.expect(run("trace", *options, "--between", pair, "--by", by, path), 1, words)
        self.assertFalse(os.path.exists(self.path("page")))
        # Tracepoints without events follow.
        text = self.trace("stat", "--tid", "102", path)
        self.assertEqual([line.split() for line in text.splitlines()[1:]],
                         [["5", "app:end"], ["1", "app:nothing"], ["0", "app:types"],
                          ["0", "app:begin"]])
        text = self.trace("stat", "--between", "app:begin,app:end", path)
        # Every second one ends on another thread.
        text = self.trace("stat", "--between", "app:begin,app:end", path)
        self.assertIn("by thread; 10 without the other one\ncount 5 ", text)

    def test_usage(self):
        path = self.make("t", "basic")
        for arguments, word in (([], "no subcommand"), (["look", path], "look"),
                                (["show"], "no file"), (["export", path], "--ctf"),
                                (["show", "--csv", "-", path], "export"),
                                (["export", "--csv", "-", "--ctf", "x", path], "one form"),
                                (["stat", "--between", "a", path], "FIRST,LAST"),
                                (["stat", "--by", "a", path], "--between"),
                                (["show", "--between", "a,b", path], "stat"),
                                *((["show", "--cpu", list, path], "--cpu")
                                  for list in ("x", "", ",", "1,", "0-", "-1", "3-1", "1-2-3")),
                                (["snapshot", "--tid", "3", "x", path], "no filter"),
                                (["enable", "--from", "1", "*", path], "no filter"),
                                (["disable", "--level", "info", "*", path], "goes with enable"),
                                (["show", "--tid", "0", path], "--tid"),
                                (["show", "--level", "x", path], "--level"),
                                (["show", "--from", "1.", path], "--from"),
                                (["show", "--to", "1.0000000001", path], "--to")):
            self.expect(run("trace", *arguments), 2, word)
        result = run("trace", "--help")
        self.expect(result, 0)
        self.assertEqual(run("trace", "show", "--help").stdout, result.stdout)
        for word in ("usage: nearcpu trace", "--ctf", "recover", "Exit"):
            self.assertIn(word, result.stdout)
        self.assertIn("  trace ", run("--help").stdout)

    def test_head(self):
        path = self.make("t", "many", 100000, 4096)
        with subprocess.Popen([command.TOOL, "trace", "show", path], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as show:
            self.assertEqual(show.stdout.readline()[0], "#")
            show.stdout.close()
            self.assertEqual(show.wait(), 1)
            self.assertIn("standard output was closed", show.stderr.read())


if __name__ == "__main__":
    MAKER = sys.argv.pop(2)
    command.main()
