#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace record --sched: what the scheduler did, beside and between a program's events.

usage: trace_sched_test.py NEARCPU TRACE_SCHED [TEST...]
"""
import ctypes
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

import browser
import command
from command import ScratchCase, run

PROGRAM = ""
# LeakSanitizer makes a process at the end.
SANITIZED = "TOOL_TEST_SANITIZED" in os.environ
LINE = re.compile(r"([\d.]+) cpu (\d+)(?: pid (\d+))? tid (\d+) (\S+) ?(.*)")
RUNS = ("--between", "sched:run,sched:stop")
# Of perf_event_open, and what seccomp(2) compares it with.
CALLS = {"x86_64": (298, 0xc000003e), "aarch64": (241, 0xc00000b7), "riscv64": (241, 0xc00000f3)}


def refuse_perf():
    """In a child: perf_event_open fails with EACCES, as with a paranoid kernel."""
    call, machine = CALLS[platform.machine()]
    code = [(0x20, 0, 0, 4), (0x15, 0, 3, machine), (0x20, 0, 0, 0), (0x15, 0, 1, call),
            (0x06, 0, 0, 0x50000 | 13), (0x06, 0, 0, 0x7fff0000)]
    program = b"".join(struct.pack("=HBBI", *line) for line in code)
    text = ctypes.create_string_buffer(program)
    filters = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(text)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, filters, 0, 0):
        os._exit(99)


class Recorded(ScratchCase):
    def setUp(self):
        super().setUp()
        self.out = self.path("out")

    def record(self, *arguments, option="--sched", code=0, **more):
        """Records the program; sets the events that show prints, and what else it does."""
        result = run("trace", "record", option, "--output", self.out, *arguments, **more)
        if result.returncode == 1 and re.search(rf"{option}: .*: it needs", result.stderr):
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, code, result.stderr)
        self.load()

    def load(self):
        text = self.trace("show", self.out)
        self.comments = [line for line in text.splitlines() if line[0] == "#"]
        self.events = [LINE.match(line).groups() for line in text.splitlines() if line[0] != "#"]

    def trace(self, *arguments):
        result = run("trace", *arguments)
        self.expect(result, 0)
        return result.stdout

    def sched_file(self):
        name, = (name for name in os.listdir(self.out) if name.startswith("sched-"))
        return os.path.join(self.out, name)

    def check_naps(self, count):
        """Between the two events of a nap its thread has stopped, and runs again; and nothing else
        of it is there. Returns its process and thread."""
        tid, = {event[3] for event in self.events if event[4] == "nap:begin"}
        names = [(name, fields) for _, _, _, t, name, fields in self.events if t == tid]
        begins = [i for i, (name, _) in enumerate(names) if name == "nap:begin"]
        self.assertEqual(len(begins), count)
        for i in begins:
            end = next(k for k in range(i, len(names)) if names[k][0] == "nap:end")
            between = [(name, fields) for name, fields in names[i + 1:end]
                       if (name, fields[-9:]) != ("sched:stop", "preempted") and
                       name != "sched:wake"]
            stops = [name for name, _ in between].count("sched:stop")
            self.assertEqual(stops, 1, names[i:end + 1])
            self.assertEqual([name for name, _ in between][-1], "sched:run", names[i:end + 1])
        process, = {pid for _, _, pid, t, _, _ in self.events if t == tid}
        return process, tid


class Sched(Recorded):
    def test_order(self):
        self.record(PROGRAM, "200")
        process, tid = self.check_naps(200)
        own = [(name, fields) for _, _, _, t, name, fields in self.events if t == tid]
        self.assertIn(("sched:run", f'process={process} task={tid} thread="sleeper"'), own)
        self.assertEqual(own[-1], ("sched:stop", f"process={process} why=ended"))
        times = [float(event[0]) for event in self.events]
        self.assertEqual(times, sorted(times))
        # Only its own threads, and those from the begin on.
        if not SANITIZED:
            self.assertEqual({pid for _, _, pid, *_ in self.events}, {process})
        first = next(fields for *_, name, fields in self.events if name == "sched:run")
        self.assertIn('thread="trace_sched"', first)
        self.assertNotIn("stepped back", "".join(self.comments))
        self.assertRegex(self.comments[0], r"/sched-(\d+)\.trace: nearcpu, process \1,")
        self.assertIn(f"trace_sched, process {process},", self.comments[1])

    def test_runs_on_a_cpu_exclude_each_other(self):
        self.record(PROGRAM, "50")
        running = {}
        for _, cpu, _, tid, name, _ in self.events:
            if name == "sched:run":
                self.assertEqual(running.setdefault(cpu, tid), tid)
            elif name == "sched:stop":
                running.pop(cpu, None)
            elif name.startswith("nap:"):
                self.assertEqual(running.get(cpu), tid)

    def test_child(self):
        self.record(PROGRAM, "20", "child")
        process, _ = self.check_naps(20)
        parents = {pid for _, _, pid, _, name, _ in self.events if name == "sched:run"} - {process}
        self.assertTrue(parents if SANITIZED else len(parents) == 1, parents)

    def test_killed(self):
        self.record(PROGRAM, "20", "kill", code=137)
        self.check_naps(20)
        self.assertRegex(self.trace("list", self.out), r"ended .*/sched-")

    def popen(self, *arguments, option="--sched"):
        self.record("true", option=option)  # skips
        shutil.rmtree(self.out)
        process = subprocess.Popen([command.TOOL, "trace", "record", option, "--output", self.out,
                                    *arguments], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=self.on_one_cpu)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def on_one_cpu():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        process.stdin.close()
        process.stdout.close()

    def test_interrupted(self):
        process = self.popen(PROGRAM, "20", "wait")
        self.events = []
        while "sched:run" not in {event[4] for event in self.events}:  # while it runs
            self.assertEqual(process.stdout.readline(), "slept\n")
            self.load()
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.load()
        self.assertEqual(self.events[-1][4:], ("sched:stop", f"process={self.events[0][2]} "
                                               "why=ended"))

    def test_command_killed(self):
        process = self.popen(PROGRAM, "20", "wait")
        for _ in range(5):
            self.assertEqual(process.stdout.readline(), "slept\n")
        process.kill()
        os.killpg(process.pid, signal.SIGKILL)
        self.assertIn("\n0 bytes are damaged\n", self.trace("recover", self.sched_file()))
        self.load()
        self.assertIn("sched:stop", {event[4] for event in self.events})

    def test_lost(self):
        """The kernel's buffer is full while this command does not run."""
        process = self.popen(PROGRAM, "40000", "storm")
        self.assertEqual(process.stdout.readline(), "ready\n")
        os.kill(process.pid, signal.SIGSTOP)
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "stormed\n")
        os.kill(process.pid, signal.SIGCONT)
        self.events, count = [], -1
        while len(self.events) < 1000 or len(self.events) != count:  # the buffers are empty again
            count = len(self.events)
            time.sleep(.1)
            self.load()
        process.stdin.write("\n")
        process.stdin.close()
        self.assertEqual(process.wait(), 0)
        self.load()
        lost = re.search(r"# (\d+) events of the scheduler were lost", "\n".join(self.comments))
        self.assertGreater(int(lost[1]), 1000)
        self.check_naps(1)

    def test_bounded(self):
        """The newest stay."""
        self.record("--ring", "256k", PROGRAM, "15000", "storm", input="\n", stdin=None)
        self.assertLess(os.stat(self.sched_file()).st_size,
                        (os.cpu_count() + 2) * (256 << 10) + (1 << 20))
        self.assertRegex("\n".join(self.comments), r"# \d+ bytes of older events were overwritten")
        self.check_naps(1)
        self.assertGreater(len(self.events), 1000)

    def test_all(self):
        self.record(PROGRAM, "50", option="--sched-all")
        process, tid = self.check_naps(50)
        # Its end wakes the thread that joins it. Kernels do not report all wake-ups of idle CPUs.
        self.assertTrue(any((t, name) == (tid, "sched:wake") and
                            fields == f'process={process} task={process} thread="trace_sched"'
                            for *_, t, name, fields in self.events))
        self.assertGreater(len({pid for _, _, pid, *_ in self.events} - {process}), 0)
        text = self.trace("stat", "--between", "sched:wake,sched:run", "--by", "task", self.out)
        self.assertGreater(int(re.search(r"\ncount (\d+)", text)[1]), 0)

    def test_exports(self):
        self.record(PROGRAM, "20", "child")
        count = len(self.events)
        rows = self.trace("export", "--csv", "-", self.out).splitlines()
        self.assertEqual([row.split(",")[1:5] for row in rows[1:]],
                         [list(event[1:5]) for event in self.events])
        chrome = json.loads(self.trace("export", "--chrome", "-", *RUNS, self.out))["traceEvents"]
        slices = [event for event in chrome if event["ph"] == "X"]
        stops = sum(event[4] == "sched:stop" for event in self.events)
        self.assertTrue(stops - 2 <= len(slices) <= stops)
        self.assertEqual({str(event["pid"]) for event in slices},
                         {pid for _, _, pid, _, name, _ in self.events if name == "sched:run"})
        self.trace("export", "--perfetto", self.path("perfetto"), *RUNS, self.out)
        folder = self.path("ctf")
        self.trace("export", "--ctf", folder, self.out)
        if shutil.which("babeltrace2"):
            result = subprocess.run(["babeltrace2", folder], text=True, capture_output=True,
                                    check=True)
            self.assertEqual(len(result.stdout.splitlines()), count)

    def test_follow(self):
        """All that show prints, once."""
        process = self.popen(PROGRAM, "20", "wait")
        self.assertEqual(process.stdout.readline(), "slept\n")
        follower = subprocess.Popen([command.TOOL, "trace", "show", "--follow", self.out],
                                    stdout=subprocess.PIPE, text=True)
        for _ in range(20):
            self.assertEqual(process.stdout.readline(), "slept\n")
        os.killpg(process.pid, signal.SIGINT)
        text = follower.communicate()[0]
        self.load()
        lines = [line for line in text.splitlines() if line[0] != "#"]
        self.assertEqual(len(lines), len(self.events))
        self.assertEqual(sorted(LINE.match(line).groups()[1:] for line in lines),
                         sorted(event[1:] for event in self.events))

    def test_orders(self):
        """The file takes none, and those to a folder pass it by."""
        process = self.popen(PROGRAM, "20", "wait")
        self.assertEqual(process.stdout.readline(), "slept\n")
        self.expect(run("trace", "disable", "nap:*", self.out), 0)
        self.expect(run("trace", "disable", "nap:*", self.sched_file()), 1, "takes no orders")

    def test_refused(self):
        """The program does not begin."""
        if platform.machine() not in CALLS:
            self.skipTest("the number of perf_event_open is not known here")
        made = self.path("made")
        for option in ("--sched", "--sched-all"):
            result = run("trace", "record", option, "--output", self.path("refused" + option),
                         "touch", made, preexec_fn=refuse_perf)
            self.assertEqual(result.returncode, 1)
            self.assertRegex(result.stderr, rf"^nearcpu trace: {option}: Permission denied "
                             r"\(kernel.perf_event_paranoid is -?\d+\): it needs .*\n$")
            self.assertFalse(os.path.exists(made))

    def test_not_found(self):
        result = run("trace", "record", "--sched", "--output", self.out, "./no_such_program")
        if "it needs" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 127)
        self.assertEqual(os.listdir(self.out), [])


class Page(browser.PageCase, Recorded):
    def test_page(self):
        self.record(PROGRAM, "20")
        _, tid = self.check_naps(20)
        page = self.path("page.html")
        self.trace("show", "--html", page, self.out)
        self.open_page(page)
        lanes = self.browser.value("lanes")
        self.assertIn(f"sleeper {tid}", lanes)
        runs = self.browser.value("runs.begins.map((b, k) => [b, runs.ends[k]])")
        for begin, end in runs:
            self.assertEqual(self.events[begin][4], "sched:run")
            self.assertEqual(self.events[begin][1], self.events[end][1])
        stops = sum(event[4] == "sched:stop" for event in self.events)
        self.assertGreaterEqual(len(runs), stops)
        # While it runs there are strips in its lane and that of the CPU, and no marks.
        begin, end = next(run for run in runs if self.events[run[0]][3] == tid)
        self.browser.value(f"set_window(time[{begin}], time[{end}])")
        strips = self.browser.value("""(async () => {
            await new Promise((done) => setTimeout(done, 50));
            const {left, top, width} = chart.bbox, row = 24 * uPlot.pxRatio;
            return lanes.map((name, lane) => {
                const d = chart.ctx.getImageData(left, top + (lane + .95) * row, width, 1).data;
                let n = 0;
                for (let i = 0; i < d.length; i += 4)
                    n += Math.max(d[i], d[i + 1], d[i + 2]) -
                        Math.min(d[i], d[i + 1], d[i + 2]) > 60;
                return n / width;
            });
        })()""")
        for lane in f"sleeper {tid}", f"CPU {self.events[begin][1]}":
            self.assertGreater(strips[lanes.index(lane)], .3, lane)
        self.assertEqual(self.browser.value("plain.found.length"), 2 * 20)
        self.assertEqual(self.browser.value("all.found.length"), len(self.events))


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
