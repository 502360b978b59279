#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NEAR_CONF=malloc_region: what processes publish, whose it is, and what ended ones leave.

usage: malloc_region_test.py NEARCPU PROGRAM [TEST...]
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import command
from command import ScratchCase, run

PROGRAM = ""
IN_USE = "near_malloc_in_use_bytes"
SLOW = "near_malloc_slow_calls_total"
PLACES = 256


class Case(ScratchCase):
    def setUp(self):
        super().setUp()
        self.region = self.path("region")

    def begin(self, *commands, region=None):
        """The program, which obeys the lines that it is sent, and answers each."""
        process = subprocess.Popen(
            [command.TOOL, "run", "--region", region or self.region, PROGRAM], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        for line in commands:
            self.send(process, line)
        return process

    def send(self, process, line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().split()
        self.assertTrue(answer and answer[0] == "done", line)
        return [int(n) for n in answer[1:]]

    def finish(self, process, code=0):
        """Returns what it wrote to standard error."""
        _, errors = process.communicate("", timeout=20)
        self.assertEqual(process.returncode, code, errors)
        return errors

    def stats(self, *options):
        result = run("stats", *options, self.region)
        self.expect(result, 0)
        return result.stdout

    def places(self, name, **labels):
        """{(index, pid or None): value}"""
        for o in json.loads(self.stats("--json"))["objects"]:
            if (o["name"], o["labels"]) == (name, labels):
                return {(p["index"], p["pid"]): p["value"] for p in o["places"]}
        self.fail(name)

    def total(self, name=SLOW):
        return sum(self.places(name).values())


class Published(Case):
    def test_what_the_program_has(self):
        process = self.begin("keep 1000 1000000", "publish")
        self.assertEqual(list(self.places(IN_USE)), [(0, process.pid)])
        value, = self.places(IN_USE).values()
        self.assertGreaterEqual(value, 1000 * 1000000)
        self.assertLess(value, 1100 * 1000000)
        large = self.places("near_malloc_large_calls_total")
        self.assertGreaterEqual(large[0, None], 1000)
        self.send(process, "keep 50000 100")
        self.send(process, "publish")
        small, = self.places("near_malloc_small_in_use_bytes", size="112").values()
        self.assertGreaterEqual(small, 50000 * 112)
        slow, = self.places("near_malloc_small_slow_calls_total", size="112").values()
        self.assertGreaterEqual(slow, 50000 // 128)
        stamp, = self.places("near_malloc_published_timestamp_seconds").values()
        self.assertLessEqual(abs(stamp - time.time()), 60)

    def test_large_blocks_alone(self):
        """No other slow path publishes."""
        process = self.begin("keep 200 1000000")
        time.sleep(.3)
        self.send(process, "keep 1 1000000")
        self.assertGreaterEqual(self.places(IN_USE)[0, process.pid], 200 * 1000000)

    def test_at_the_end_counts_stay(self):
        process = self.begin("keep 50000 100")
        self.assertEqual(self.finish(process), "")
        self.assertEqual(self.places(IN_USE), {})
        self.assertGreaterEqual(self.total(), 50000 // 128)

    def test_returned(self):
        process = self.begin("keep 1000 100000", "drop", "trim", "publish")
        returned, = self.places("near_malloc_returned_bytes_total").values()
        self.assertGreaterEqual(returned, 90 * 1000000)
        self.assertLess(self.places(IN_USE)[0, process.pid], 10 * 1000000)

    def test_forms(self):
        process = self.begin("keep 1000 1000000", "publish")
        text = self.stats("--prometheus")
        self.assertIn(f"# TYPE {IN_USE} gauge\n", text)
        self.assertIn(f"# TYPE {SLOW} counter\n", text)
        self.assertRegex(text, rf'(?m)^{IN_USE}{{index="0",pid="{process.pid}"}} \d{{10}}$')
        self.assertRegex(text, rf'(?m)^{SLOW}{{index="0"}} \d+$')
        self.assertRegex(text, r'(?m)^near_malloc_small_in_use_bytes{size="64",index="0",pid=')
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertEqual((check.returncode, check.stdout), (0, ""))
        metrics, = json.loads(self.stats("--otlp"))["resourceMetrics"][0]["scopeMetrics"]
        metrics = {m["name"]: m for m in metrics["metrics"]}
        self.assertEqual(metrics[IN_USE]["unit"], "By")
        point, = metrics[IN_USE]["gauge"]["dataPoints"]
        self.assertGreaterEqual(int(point["asInt"]), 1000 * 1000000)
        self.assertEqual({a["key"]: a["value"]["stringValue"] for a in point["attributes"]},
                         {"index": "0", "pid": str(process.pid)})
        self.assertIs(metrics[SLOW]["sum"]["isMonotonic"], True)
        lines = self.stats().splitlines()
        self.assertFalse([line for line in lines[6:] if line.split()[0] == "0"])
        values = [line.split()[1] for line in lines[6:]]
        self.assertLess(values.index(f'{SLOW}{{index="0"}}'),
                        min(i for i, v in enumerate(values) if "size=" in v))  # totals first

    def test_prometheus_native(self):
        self.begin("publish")
        native = subprocess.run([command.TOOL, "stats", "--prometheus-native", self.region],
                                stdout=subprocess.PIPE, check=True).stdout
        at = native.index(IN_USE.encode()) + len(IN_USE)
        self.assertEqual(native[at:at + 2], b"\x18\x01")  # the type of the family: a gauge

    def test_watch(self):
        self.begin("publish")
        with subprocess.Popen([command.TOOL, "stats", "--watch", "1", self.region], text=True,
                              stdout=subprocess.PIPE) as watch:
            heads = 0
            while heads < 2:
                heads += watch.stdout.readline().startswith("region ")
            watch.send_signal(signal.SIGINT)
            self.assertEqual(watch.wait(), -signal.SIGINT)
        self.expect(run("stats", "--watch", "0", self.region), 2, "--watch")


class Places(Case):
    def test_a_child(self):
        process = self.begin("keep 1000 100000", "publish")
        before = self.total("near_malloc_large_calls_total")
        child, = self.send(process, "fork")
        self.send(process, "publish")
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid), (1, child)})
        # What the parent counted is not counted twice.
        after = self.total("near_malloc_large_calls_total")
        self.assertLess(after, before + 500)
        self.send(process, "end")
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid)})

    def test_places_of_killed_workers_are_used_again(self):
        process = self.begin("publish")
        seen, total = set(), 0
        for _ in range(5):
            child, = self.send(process, "fork")
            places = self.places(IN_USE)
            self.assertIn((1, child), places)
            seen.update(index for index, _ in places)
            self.assertGreaterEqual(self.total(), total)
            total = self.total()
            self.send(process, "kill")
            self.assertEqual(set(self.places(IN_USE)), {(0, process.pid)})
        self.assertEqual(seen, {0, 1})

    def test_exec_keeps_the_place(self):
        process = self.begin("keep 50000 100", "publish")
        total = self.total()
        self.send(process, "exec")
        self.send(process, "publish")
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid)})
        self.assertGreaterEqual(self.total(), total)

    def test_full(self):
        self.begin("publish").kill()
        first = self.begin("publish")
        with open(self.region, "r+b") as file:  # the words are the first of the common area
            data = file.read()
            word = next(i for i in range(0, len(data), 8) if int.from_bytes(
                data[i:i + 8], sys.byteorder) >> 42 == first.pid)
            begin = word & ~4095
            file.seek(begin)
            file.write(data[word:word + 8] * PLACES)
        second = self.begin("publish")
        self.assertEqual(self.finish(second).count("256 processes"), 1)
        with open(self.region, "r+b") as file:
            file.seek(begin)
            file.write(bytes(8 * PLACES))
        self.send(first, "publish")  # it has lost its place, and takes one
        self.assertEqual(set(self.places(IN_USE)), {(0, first.pid)})

    def test_another_pid_namespace(self):
        process = self.begin("keep 50000 100", "publish")
        with open(self.region, "r+b") as file:
            data = file.read()
            word = next(i for i in range(0, len(data), 8) if int.from_bytes(
                data[i:i + 8], sys.byteorder) >> 42 == process.pid)
            other = int.from_bytes(data[word:word + 8], sys.byteorder) ^ 1
            file.seek(word)
            file.write(other.to_bytes(8, sys.byteorder))
        process.kill()
        process.wait()
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid)})  # not known to have ended
        self.assertEqual({i for i, _ in self.places(SLOW)}, {0})
        second = self.begin("publish")
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid), (1, second.pid)})

    def test_without_descriptors(self):
        process = self.begin("publish", "close", "keep 1000 1000000", "publish")
        self.assertGreaterEqual(self.places(IN_USE)[0, process.pid], 1000 * 1000000)

    def test_without_a_root(self):
        if os.geteuid():
            self.skipTest("needs root")
        process = self.begin("publish", "chroot " + self.dir, "keep 1000 1000000", "publish")
        self.assertGreaterEqual(self.places(IN_USE)[0, process.pid], 1000 * 1000000)
        child, = self.send(process, "fork")
        self.assertIn(child, {pid for _, pid in self.places(IN_USE)})

    def test_vfork(self):
        process = self.begin("vfork", "publish")
        self.assertEqual(set(self.places(IN_USE)), {(0, process.pid)})


class Refused(Case):
    def refused(self, region, *words, **more):
        result = run("run", "--region", region, PROGRAM, stdin=None, input="keep 1 1\n",
                     drop=["LD_PRELOAD"], **more)
        self.assertEqual((result.returncode, result.stdout), (0, "done\n"))
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        for word in ("nearcpu-malloc: ", region, *words):
            self.assertIn(word, result.stderr)

    def test_where_it_cannot_be(self):
        self.refused(self.path(""), "Is a directory")
        self.refused("/nonexistent/x", "No such file or directory")
        self.refused(self.write("other", b"x" * 100000), "no region")
        with open(self.path("other"), "rb") as file:
            self.assertEqual(file.read(), b"x" * 100000)
        self.refused("/dev/full", "no region")
        os.symlink(self.path("nothing"), self.path("link"))
        self.refused(self.path("link"), "symbolic link to nothing")
        self.refused(self.path("x" * 300), "name too long")

    def test_file_size(self):
        limited = f"ulimit -f 10; exec '{command.TOOL}' run --region '{self.region}' '{PROGRAM}'"
        result = subprocess.run(["sh", "-c", limited], input="keep 1 1\n", text=True, check=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertIn("RLIMIT_FSIZE", result.stderr)
        self.assertFalse(os.path.exists(self.region))

    def test_another_users(self):
        if os.geteuid():
            self.skipTest("needs root")
        self.finish(self.begin("publish"))
        os.chown(self.region, 65534, 65534)
        self.refused(self.region, "another user")

    def test_another_region(self):
        self.finish(self.begin("publish"))
        with open(self.region, "r+b") as file:  # about[1] of the first object
            file.seek(file.read().index(b"near_malloc_processes") - 56 + 24 + 8)
            file.write(b"\x01")
        self.refused(self.region, "another program")

    def test_damaged(self):
        """A reader that finds owners beyond the area shows values without one."""
        self.begin("keep 1 200000", "publish")
        with open(self.region, "r+b") as file:
            data = file.read()
            entry = data.index(IN_USE.encode()) - 56
            file.seek(entry + 24 + 8)
            file.write((1 << 40).to_bytes(8, sys.byteorder))
        self.assertIn(f'{IN_USE}{{index="0"}}', self.stats())
        self.assertIn(f'{IN_USE}{{index="255"}} 0', self.stats("--prometheus"))

    def test_setting_of_the_command(self):
        self.expect(run("run", "--region", "a,b", PROGRAM), 2, "comma")
        self.expect(run("run", "--atomic", "--region", "a", PROGRAM), 2, "--malloc")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(2)
    command.main()
