#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace on a program that traces: while it runs, after it was killed or has ended.

usage: trace_program_test.py NEARCPU TRACE_PROGRAM [TEST...]
"""
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import command
from command import Case, run

PROGRAM = ""
OVERWRITE, STOP, STREAM = "0", "1", "2"
RING_MASK = struct.pack("<Q", (1 << 20) - 1)
SUB_BUFFER = 65536
TEXT = 'text="' + "x" * 699 + '"'


class Killed(subprocess.Popen):
    """A process that does not outlive its block, whatever fails in that."""

    def __exit__(self, *args):
        self.kill()
        super().__exit__(*args)


class Program(Case):
    def setUp(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        scratch = tempfile.TemporaryDirectory(dir=memory)
        self.addCleanup(scratch.cleanup)
        self.dir = scratch.name
        self.file = os.path.join(self.dir, "trace")

    def program(self, *arguments):
        return Killed([PROGRAM, self.file, *map(str, arguments)], text=True,
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def trace(self, *arguments):
        result = run("trace", *arguments, self.file)
        self.expect(result, 0)
        return result.stdout

    def babeltrace(self):
        """What babeltrace2 prints of the session as CTF."""
        if not shutil.which("babeltrace2"):
            self.skipTest("no babeltrace2")
        folder = os.path.join(self.dir, "ctf")
        self.trace("export", "--ctf", folder)
        result = subprocess.run(["babeltrace2", folder], text=True, capture_output=True, check=True)
        self.assertEqual(result.stderr, "")
        return result.stdout

    def check(self, text, first=None):
        """The events of each thread are in their order; from the first on, if there is one,
        without a gap. Of those that are overwritten another ring may have the older ones."""
        last, count = {}, 0
        time = 0.
        for line in text.splitlines():
            if line[0] == "#":
                continue
            words = line.split()
            self.assertGreaterEqual(float(words[0]), time)
            time = float(words[0])
            count += 1
            thread = words[6]
            if words[5] == "test:handler":
                continue
            n = int(words[7][2:])
            self.assertEqual(words[5] == "test:text", n % 10 == 0)
            if n % 10 == 0:
                self.assertEqual(words[8], TEXT)
            if first is not None:
                self.assertEqual(n, last.get(thread, first - 1) + 1)
            self.assertGreater(n, last.get(thread, -1))
            last[thread] = n
        return last, count

    def test_ended(self):
        self.program(STOP, 2000).communicate()
        text = self.trace("show")
        last, count = self.check(text, 0)
        self.assertEqual(last, {"thread=1": 1999, "thread=2": 1999})
        self.assertEqual(count, 2 * (2000 + 32))
        self.assertIn("ended", self.trace("list"))
        self.assertEqual(len(self.babeltrace().splitlines()), count)

    def test_most_fields(self):
        """64 of them."""
        os.environ["TRACE_MOST"] = "1"
        self.addCleanup(os.environ.pop, "TRACE_MOST")
        self.program(STOP, 0).communicate()
        self.assertTrue(self.trace("show", "--name", "test:most").splitlines()[1].endswith(
            "test:most " + " ".join(
                f'{c}0={n} {c}1=-{n} {c}2="text" {c}3=0.5 {c}4={n} {c}5="78" {c}6=0x{n:x} '
                f"{c}7=[{n},{n + 1}]" for n, c in enumerate("abcdefgh", 1))))
        line = self.babeltrace()
        self.assertEqual(re.findall(r" ([a-h][0-7]) = ", line),
                         [c + str(i) for c in "abcdefgh" for i in range(8)])

    def test_overwritten(self):
        self.program(OVERWRITE, 50000).communicate()
        last, _ = self.check(self.trace("show"))
        # Of the thread that ends last; the other's may be in a ring that this one overwrote.
        self.assertIn(49999, last.values())

    def test_stream(self):
        self.file = os.path.join(self.dir, "folder")
        os.mkdir(self.file)
        self.program(STREAM, 300).communicate()
        last, count = self.check(self.trace("show"), 0)
        self.assertEqual(last, {"thread=1": 299, "thread=2": 299})
        self.assertEqual(count, 2 * (300 + 5))

    def on_a_full_disk(self, mode):
        """What show prints of a trace on a small disk, and what was lost. On one CPU, as a ring
        that begins on a full disk discards all."""
        one = min(os.sched_getaffinity(0))
        folder = os.path.join(self.dir, "mnt" + mode)
        os.mkdir(folder)
        script = "mount -t tmpfs -o size=700k none $1 && $2 $1 $3 40000 && $4 trace show $1"
        result = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", folder, PROGRAM, mode,
                                 command.TOOL], capture_output=True, text=True, check=False,
                                preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue("\n# the file system was full" in result.stdout)
        return result.stdout, [sum(map(int, re.findall(rf"\n# (\d+) {what}", result.stdout)))
                               for what in ("events were discarded", "long payloads were cut")]

    def test_stream_on_a_full_disk(self):
        """What is discarded counts once, by the session's file or by the last one of the stream."""
        text, (lost, cut) = self.on_a_full_disk(STREAM)
        count = sum(" cpu " in line for line in text.splitlines())
        self.assertGreater(lost, 0)
        # A payload of which a part was discarded is no event, and may be several of those.
        self.assertLessEqual(lost + count, 2 * (40000 + 625) + 2 * 4000)
        self.assertGreaterEqual(lost + count + cut, 2 * (40000 + 625))

    def test_overwritten_on_a_full_disk(self):
        """A ring that cannot grow overwrites what it has."""
        text, (lost, _) = self.on_a_full_disk(OVERWRITE)
        self.assertLess(lost, 800)  # of 80,000, without rseq: those that found the ring locked
        last, _ = self.check(text)
        self.assertIn(39999, last.values())

    def session_file(self):
        name, = (name for name in os.listdir(self.file) if name.endswith(".trace"))
        return os.path.join(self.file, name)

    def move_back(self):
        """In each ring of the session that has moved a sub-buffer to a stream's file: the last one
        counts as not moved. Returns how many there are."""
        count = 0
        with open(self.session_file(), "r+b") as file:
            data = file.read()
            at = data.find(RING_MASK)
            while at >= 0:
                read, = struct.unpack_from("<Q", data, at + 56)
                if 0 < read < 1 << 32:
                    file.seek(at + 56)
                    file.write(struct.pack("<Q", read - SUB_BUFFER))
                    count += 1
                at = data.find(RING_MASK, at + 8)
        return count

    def sorted_events(self):
        """Without times, which differ: the rate of the counter is known better by and by."""
        return sorted(re.findall(r" cpu .*", self.trace("show")))

    def test_stream_killed(self):
        """As if it was killed after a sub-buffer was moved, and before it was counted as moved."""
        self.file = os.path.join(self.dir, "folder")
        os.mkdir(self.file)
        with self.program(STREAM, 3000, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            self.expect(run("trace", "disable", "none", self.file), 0)
            program.kill()
        events = self.sorted_events()
        self.assertEqual(len(events), 2 * (3000 + 47))
        self.assertGreater(self.move_back(), 0)
        self.assertEqual(self.sorted_events(), events)

    def times(self):
        return {event: float(time) for time, event in
                re.findall(r"^([0-9.]+) cpu (.* n=.*)", self.trace("show"), re.M)}

    def test_stream_rates(self):
        """The rate of the counter is that of the file which knows it best. With two rates the
        records of a long payload that are in both files would have another order."""
        self.file = os.path.join(self.dir, "folder")
        os.mkdir(self.file)
        with self.program(STREAM, 3000, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            run("trace", "disable", "none", self.session_file())
            program.kill()
        times = self.times()
        with open(self.session_file() + ".1", "r+b") as file:
            at = file.read(1 << 20).find(struct.pack("<QQ", 1 << 27, (1 << 27) + 4096)) + 40
            file.seek(at)
            begin, *latest = struct.unpack("<12Q", file.read(96))[1::4]
            for i, time in enumerate(latest):
                file.seek(at + 32 * (i + 1) + 8)
                file.write(struct.pack("<Q", max(time, time + (time - begin) // 8)))
        for event, time in self.times().items():
            self.assertAlmostEqual(time, times[event], delta=time / 50)

    def wait_for_signals(self, pid):
        """Until a command catches SIGINT."""
        mask = 0
        while not mask >> signal.SIGINT - 1 & 1:
            with open(f"/proc/{pid}/status", encoding="ascii") as file:
                mask = int(re.search(r"SigCgt:\s*(\S+)", file.read())[1], 16)

    def test_orders(self):
        new = os.path.join(self.dir, "new")
        with self.program(STOP, 30, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            self.trace("snapshot", new)
            # Times differ: the rate of the counter is known better by and by.
            copied, events = (sorted(re.findall(r" cpu .*", run("trace", "show", file).stdout))
                              for file in (new, self.file))
            self.assertEqual(copied, events)
            self.assertEqual(len(events), 2 * (30 + 1))
            self.expect(run("trace", "snapshot", new, self.file), 1, new, "exists already")
            self.expect(run("trace", "snapshot", "x", self.file, self.file), 2, "of one file")
            self.expect(run("trace", "snapshot", "x", self.dir), 2, "of one file")
            program.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, program.pid, os.WSTOPPED)
            with subprocess.Popen([command.TOOL, "trace", "enable", "*", self.file],
                                  stderr=subprocess.PIPE, text=True) as enable:
                self.wait_for_signals(enable.pid)
                enable.send_signal(signal.SIGINT)
                self.assertIn("interrupted", enable.stderr.read())
                self.assertEqual(enable.wait(), 130)
            program.send_signal(signal.SIGCONT)
            self.trace("disable", "*")
            self.trace("enable", "--level", "warning", "test:*")
            program.stdin.write("n")
            self.expect(run("trace", "enable", "a b", self.file), 2, "no pattern")
            self.expect(run("trace", "enable", "*"), 2, "no file")
            self.expect(run("trace", "snapshot"), 2, "no new file")
            program.communicate()
        self.expect(run("trace", "enable", "*", self.file), 1, "does not trace any more")

    def test_order_given_up(self):
        """It is not carried out when the program comes to it."""
        new = os.path.join(self.dir, "new")
        with self.program(STOP, 30, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            program.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, program.pid, os.WSTOPPED)
            with subprocess.Popen([command.TOOL, "trace", "snapshot", new, self.file],
                                  stderr=subprocess.PIPE, text=True) as snapshot:
                given = False
                while not given:
                    with open(self.file, "rb") as file:
                        given = b"snapshot " + new.encode() in file.read()
                snapshot.send_signal(signal.SIGINT)
                self.assertEqual(snapshot.wait(), 130)
                snapshot.stderr.close()
            program.send_signal(signal.SIGCONT)
            self.trace("disable", "*")
            self.assertFalse(os.path.exists(new))

    def test_switched(self):
        with self.program(STOP, 30, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            self.trace("disable", "*")
            self.trace("enable", "--level", "warning", "test:*")
            program.stdin.write("g")
            program.stdin.flush()
            for _ in range(200):
                if "thread=3" in self.trace("show"):
                    break
            program.kill()
        names = {line.split()[5] for line in self.trace("show").splitlines() if "thread=3" in line}
        self.assertEqual(names, {"test:text"})

    def test_condition(self):
        with self.program(STOP, 30, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            self.trace("disable", "*")
            self.trace("enable", "--if", "n >= 50", "test:*")
            for condition, words in (("n", "a condition is"), ("none>1", "has such a field")):
                result = run("trace", "enable", "--if", condition, "test:*", self.file)
                self.expect(result, 1, words)
            self.expect(run("trace", "show", "--if", "n>1", self.file), 2, "goes with enable")
            program.stdin.write("g")
            program.stdin.flush()
            for _ in range(200):
                if "thread=3" in self.trace("show"):
                    break
            program.kill()
        numbers = [int(line.split()[7][2:]) for line in self.trace("show").splitlines()
                   if "thread=3" in line]
        self.assertEqual(numbers[:20], list(range(50, 50 + len(numbers[:20]))))

    def test_trigger(self):
        with self.program(OVERWRITE, 30, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            self.trace("trigger", "test:count if n>=1000 before 1m")
            for text, words in (("test:count now", "a trigger is such as"),
                                ("test:count if none>1", "has such a field")):
                self.expect(run("trace", "trigger", text, self.file), 1, words)
            self.expect(run("trace", "trigger", "x" * 1100, self.file), 2, "no pattern or name")
            self.expect(run("trace", "trigger"), 2, "no trigger given")
            program.stdin.write("g")
            program.stdin.flush()
            while not os.path.exists(self.file + ".snapshot-1"):
                time.sleep(.01)
            self.trace("trigger", "")  # after the snapshot, by the same thread
            program.kill()
        shown = run("trace", "show", self.file + ".snapshot-1").stdout
        # Without rseq a fence takes as long as the program takes to overwrite its rings.
        self.assertTrue("test:text thread=1 n=0" in shown or "overwritten" in shown)
        self.assertEqual(os.listdir(self.dir).count("trace.snapshot-2"), 0)
        self.assertNotIn("snapshot-1", run("trace", "list", self.dir).stdout)

    def test_record_with_a_context(self):
        """Every form has the fields."""
        self.file = os.path.join(self.dir, "folder")
        result = self.record("--output", self.file, "--context", "process,ids,nothing", "--",
                             PROGRAM, "-", "0", "30")
        self.assertIn("there is no trace_context 'nothing'", result.stderr)
        fields = r'trace_id="" span_id="" pid=\d+ pid_namespace=\d+ cgroup="'
        self.assertEqual(len(re.findall(r"test:(?:count|text) .*" + fields, self.trace("show"))),
                         2 * 30)
        self.assertIn("pid_namespace", self.trace("export", "--csv", "-").split("\n")[0])
        chrome = json.loads(self.trace("export", "--chrome", "-"))["traceEvents"]
        self.assertTrue(all("cgroup" in event["args"] for event in chrome
                            if event["name"] == "test:count"))
        self.assertRegex(self.trace("stat", "--between", "test:text,test:count", "--by",
                                    "trace_id"), "test:count")
        found = re.findall(r"test:(?:count|text): .*cgroup = ", self.babeltrace())
        self.assertEqual(len(found), 2 * 30)

    def test_record_with_call_stacks(self):
        """Every form but CTF has the functions, while the program's file is the one that ran."""
        self.file = os.path.join(self.dir, "folder")
        program = shutil.copy(PROGRAM, os.path.join(self.dir, "a program"))
        result = self.record("--output", self.file, "--context", "stack", "--", program, "-", "0",
                             "30")
        self.assertEqual(result.returncode, 0)
        shown = self.trace("show", "--name", "test:*")
        stacks = re.findall(r" test:\w+ .* stack=\[(.*)\]", shown)
        self.assertEqual(len(stacks), 2 * (30 + 1))
        if stacks[0]:
            self.assertEqual(len(re.findall(r"\btrace\+0x", "\n".join(stacks))), 2 * (30 + 1))
            self.assertEqual(shown.count("on_signal+0x"), 2)
            chrome = json.loads(self.trace("export", "--chrome", "-"))["traceEvents"]
            self.assertTrue(all(any(frame.startswith("trace+0x") for frame in e["args"]["stack"])
                                for e in chrome if e["name"] == "test:count"))
            self.assertIn("trace+0x", self.trace("export", "--csv", "-"))
            self.assertRegex(self.trace("show", "--html", "-"), r'"0x[0-9a-f]+":"trace\+0x')
        self.assertNotIn("near_trace:object", shown + self.trace("list") + self.trace("stat"))
        os.rename(program, program + " of then")
        shutil.copy(PROGRAM, program)
        changed = self.trace("show")
        self.assertNotIn("trace+0x", changed)
        if stacks[0]:
            self.assertIn("a?program+0x", changed)
        os.unlink(program)
        os.mkfifo(program)
        self.assertEqual(self.trace("show"), changed)

    def test_record_with_triggers(self):
        self.file = os.path.join(self.dir, "folder")
        result = self.record("--output", self.file, "--trigger", "test:text if n>=10 after 60m",
                             "--trigger", "test:text if thread==9", "--trigger", "test:count when",
                             "--", PROGRAM, "-", "0", "30")
        self.assertIn("NEAR_CONF: trigger 'test:count when': a trigger is such as", result.stderr)
        self.assertEqual(len([name for name in os.listdir(self.file) if "snapshot" in name]), 1)
        self.assertEqual(self.trace("show").count("test:text thread"), 2 * 3)
        for arguments in (["--trigger", "a,b"], ["--trigger", "a;b"], ["--trigger", "x" * 3000],
                          ["--mode", "stop", "--trigger", "a"]):
            self.assertEqual(self.record(*arguments, "true").returncode, 2)

    def test_triggers_on_a_full_disk(self):
        """A snapshot that finds no room leaves no file, and the program goes on."""
        folder = os.path.join(self.dir, "mnt")
        os.mkdir(folder)
        script = ("mount -t tmpfs -o size=700k none $1 && "
                  "$2 trace record --output $1 --trigger 'test:text if n>=39990' -- $3 - 0 40000; "
                  "ls $1; $2 trace show $1 | tail -20")
        result = subprocess.run(["unshare", "-rm", "sh", "-c", script, "sh", folder, command.TOOL,
                                 PROGRAM], capture_output=True, text=True, check=False)
        if "unshare" in result.stderr or "mount" in result.stderr:
            self.skipTest(result.stderr)
        self.assertNotIn("snapshot-1\n", result.stdout.split(" cpu ")[0])
        self.assertIn("# a snapshot of a trigger could not be made", result.stdout)
        self.assertIn("n=39999\n", result.stdout)

    def record(self, *arguments, **more):
        return run("trace", "record", *arguments, stdin=subprocess.DEVNULL, **more)

    def test_record(self):
        self.file = os.path.join(self.dir, "folder")
        result = self.record("--output", self.file, "--mode", "stop", "--name", "test:t*,*:handler",
                             "--ring", "512k", "--level", "info", PROGRAM, "none", "0", "30")
        self.assertEqual(result.stderr.splitlines()[0],
                         f"nearcpu trace: the events go to {self.file}")
        self.assertEqual(result.returncode, 1)
        self.assertIn("traces already", result.stderr)
        text = self.trace("list")
        for words in ("stops when full", "ended", "each 512 KiB"):
            self.assertIn(words, text)
        result = self.record("--output", self.file, "--", PROGRAM, "-", "0", "30")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(len(self.trace("list").splitlines()), 2)
        names = [line.split()[7] for line in self.trace("show").splitlines() if line[0] != "#"]
        self.assertEqual(names.count("test:count"), 2 * 27)
        result = self.record("--output", self.file, "--name", "a,b", "env",
                             env={"NEAR_CONF": "slot:cpu,trace_enable:x"})
        self.assertIn(f"NEAR_CONF=slot:cpu,trace_enable:x,trace:{self.file},trace_enable:a+b\n",
                      result.stdout)
        self.assertEqual(self.record("--output", self.file, "no_such_program").returncode, 127)
        for arguments in (["--mode", "x", "true"], ["--level", "x", "true"], [],
                          ["--ring", "x", "true"], ["--output", "a,b", "true"],
                          ["--max", "1t", "true"], ["--files", "2", "true"],
                          ["--mode", "stream", "--file-size", "-1", "true"]):
            self.assertEqual(self.record(*arguments).returncode, 2)

    def test_record_of_early_events(self):
        """Those of constructors are recorded or, before the tracepoint is registered, counted."""
        self.file = os.path.join(self.dir, "folder")
        self.record("--output", self.file, "--name", "test:early", "--", PROGRAM, "-", "0", "1",
                    env={"TRACE_EARLY": "1"})
        text = self.trace("show")
        self.assertEqual(re.findall(r"test:early n=(\d+)", text), ["2"])
        self.assertIn("\n# 1 events were discarded by the program: before its file was made", text)
        with Killed([PROGRAM, os.path.join(self.dir, "trace"), "0", "1"],
                    env={**os.environ, "TRACE_EARLY": "1"}) as program:
            program.wait()
        self.file = os.path.join(self.dir, "trace")
        self.assertNotIn("discarded", self.trace("show"))

    @unittest.skipUnless(os.access("/dev/shm", os.W_OK), "no /dev/shm, where the files would be")
    def test_record_without_tracepoints(self):
        result = self.record("--", "sh", "-c", "exit 3")
        self.assertEqual(result.returncode, 3)
        self.assertIn("no tracepoints", result.stderr.splitlines()[1])
        self.assertFalse(os.path.exists(result.stderr.splitlines()[0].split()[-1]))
        self.assertEqual(self.record("--", "sh", "-c", "kill -9 $$").returncode, 137)

    def test_record_with_bounds(self):
        self.file = os.path.join(self.dir, "stream")
        self.record("--output", self.file, "--mode", "stream", "--file-size", "256k", "--files",
                    "2", "--max", "2m", "--", PROGRAM, "-", "0", "40000")
        files = [os.path.join(self.file, name) for name in os.listdir(self.file)]
        self.assertEqual(len(files), 2)
        for file in files: # what the header, the tracepoints and the rings' heads take, besides
            self.assertLess(os.stat(file).st_blocks * 512, 512 << 10)
        self.file = os.path.join(self.dir, "small")
        result = self.record("--output", self.file, "--max", "1m", "--", PROGRAM, "-", "0", "30")
        self.assertIn("max_bytes is too small for a ring", result.stderr)
        self.record("--output", self.file, "--ring", "256k", "--max", "300k", "--mode", "stop",
                    "--", PROGRAM, "-", "0", "40000")
        file, = os.listdir(self.file)
        blocks = os.stat(os.path.join(self.file, file)).st_blocks
        self.assertLess(blocks * 512, 600 << 10)

    def test_record_to_a_disk(self):
        folder = self.folder()
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                              check=True).stdout
        result = self.record("--output", folder, "true")
        self.assertEqual("on a disk" in result.stderr, kind not in ("tmpfs\n", "ramfs\n"))

    def test_killed(self):
        for _ in range(5):
            with self.program(OVERWRITE, 3000, "wait") as program:
                self.assertEqual(program.stdout.readline(), "traced\n")
                program.stdin.write("g")
                program.stdin.flush()
                program.kill()
            last, _ = self.check(self.trace("show"))
            self.assertGreater(len(last), 0)
            text = self.trace("recover")
            self.assertIn("\n0 bytes are damaged\n", text)
            self.assertIn("killed", self.trace("list"))
            os.unlink(self.file)

    def test_running(self):
        """Events that are overwritten while they are read are dropped, and counted."""
        with self.program(OVERWRITE, 3000, "wait") as program:
            self.assertEqual(program.stdout.readline(), "traced\n")
            last, count = self.check(self.trace("show"), 0)
            self.assertEqual(set(last.values()), {2999})
            self.assertIn("running", self.trace("list"))
            program.stdin.write("g")
            program.stdin.flush()
            for _ in range(5):
                text = self.trace("recover")
                self.assertIn("\n0 bytes are damaged\n", text)
                self.assertIn("\n0 events were dropped", text)
            program.send_signal(signal.SIGKILL)
        self.assertGreater(count, 0)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv.pop(2))
    command.main()
