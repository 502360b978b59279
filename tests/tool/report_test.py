#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench --report, and docs/measured.py: a text that can be published, and whose figures are
those of the JSON.

usage: report_test.py NEARCPU [TEST...]
"""
import json
import os
import pwd
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import command
import terminal

FEW = ["--iterations", "2000", "--repeat", "3"]
MEASURED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/measured.py")
TABLES = ["hitcounter", "list", "refcount", "counter", "across"]


def user_name():
    """Empty where nobody gave the user one."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return ""


def run(*args, **more):
    return subprocess.run([sys.executable, MEASURED, "report", command.TOOL, *args], text=True,
                          check=False, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE,
                                          **more})


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def number(text):
    """Of a ratio, a share or a cost: 0.125, 3 %, 12.0 ns."""
    return float(text.split()[0].lstrip(">"))


class Text:
    """The report, taken apart: by name of the benchmark a list of lines {head: cell}."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.tables, head, name = {}, None, None
        for line in self.lines:
            if found := re.match(r"\*\*(\w+)\*\*:", line):
                name, head = found.group(1), None
            elif not line.startswith("|"):
                head = None
            elif head is None:
                head = cells(line)
                self.tables[name] = []
            elif not set(line) <= set("|-:"):
                assert len(cells(line)) == len(head), line
                self.tables[name].append(dict(zip(head, cells(line))))


class Report(command.Case):
    def report(self, *args, **more):
        result = run(*args, **more)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return Text(result.stdout)

    def test_whole(self):
        text = self.report("--threads", "1,2,3", *FEW)
        self.assertEqual(text.lines[0], "### nearcpu bench --report")
        self.assertEqual(list(text.tables), TABLES)
        for before, line in zip(text.lines, text.lines[1:]):
            self.assertFalse(line.startswith("**") and before, "would be part of the list above")
        for name, lines in text.tables.items():
            self.assertEqual([line["threads"] for line in lines],
                             ["1"] if name == "counter" else ["1", "2", "3"])
        self.assertRegex(" ".join(text.lines), r"\*\*memory\*\*: of a counter, one of 2,000, 2 "
                                               r"threads:\s.*atomic \d+\.?\d* bytes")
        self.assertRegex(" ".join(text.lines), r"\*\*calls\*\*: CPU time, 1 thread: cpu \d.* "
                                               r"lock \d")

    def test_fits_into_an_issue(self):
        lines = self.report("--threads", "1,2,3,4,5,6,7,8,9", "--iterations", "20", "--repeat",
                            "1").lines
        self.assertLessEqual(max(map(len, lines)), 100)
        self.assertLessEqual(len(lines), 90)

    def test_thread_counts(self):
        cpus = len(os.sched_getaffinity(0))
        wanted = sorted({1 << i for i in range(14) if 1 << i < cpus} | {cpus})
        text = self.report("refcount", *FEW)
        self.assertEqual([int(line["threads"]) for line in text.tables["refcount"]], wanted)

    def test_says_what_machine(self):
        text = " ".join(self.report("counter", *FEW).lines)
        uname = os.uname()
        info = command.run("info", "--json")
        info = json.loads(info.stdout)
        for words in (f"{uname.sysname} {uname.release} {uname.machine}", info["libc"],
                      info["processor"], "load average", "governor",
                      f"CPUs: {info['cpus']['online']['count']} online",
                      f"slots: {info['slots']['count']} by {info['slots']['by']}",
                      "rseq: live" if info["rseq"]["live"] else "rseq: not live",
                      "`nearcpu bench --report counter --iterations 2000 --repeat 3`"):
            self.assertIn(words, text)

    def test_tells_nothing_private(self):
        with tempfile.TemporaryDirectory(prefix="secret") as folder:
            result = run("counter", *FEW, "--json", os.path.join(folder, "private.json"))
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(os.listdir(folder), ["private.json"])
        words = ["secret", "private", os.getcwd(), os.path.dirname(command.TOOL),
                 os.path.expanduser("~")]
        # Names that our words contain.
        ours = "".join(command.run("bench", option).stdout for option in ("--help", "--list"))
        words += [w for w in (socket.gethostname(), user_name()) if len(w) > 4 and w not in ours]
        for word in words:
            if len(word) > 1:
                self.assertNotIn(word, result.stdout)

    def test_figures_are_those_of_the_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "r.json")
            text = self.report("hitcounter", "--threads", "2", "--iterations", "50000", "--repeat",
                               "3", "--json", path)
            with open(path, encoding="utf-8") as file:
                table = json.load(file)["tables"][0]
        rows = {row["name"]: row.get("samples") for row in table["rows"]}
        ours = [row["name"] for row in table["rows"] if row["role"] == "ours" and "samples" in row]
        base = rows.pop(ours[-1])
        line = text.tables["hitcounter"][0]
        cost = statistics.median((s["user_ns"] + s["system_ns"]) / s["ops"] for s in base)
        self.assertAlmostEqual(float(line["ns/op"]), cost, delta=0.006)
        for name, samples in rows.items():
            if not samples:
                self.assertEqual(line[name], "-")
                continue
            ratio = statistics.median(a["wall_ns"] / b["wall_ns"] for a, b in zip(samples, base))
            self.assertAlmostEqual(number(line[name]) / ratio, 1, delta=0.01)

    def test_rows_that_are_missing_are_explained(self):
        text = self.report("list", *FEW, env={**os.environ, "NEAR_CONF": "rseq:off"})
        self.assertEqual({line["near"] for line in text.tables["list"]}, {"-"})
        # A CPU for which no sequences are known reports that first.
        self.assertRegex(" ".join(text.lines),
                         r"- not measured: (switched off by NEAR_CONF=rseq:off|this CPU has no "
                         r"sequences.*): rows \(threads\)\s+list near")

    def test_a_long_word_stays_whole(self):
        word = "glibc.malloc.tcache_count=0:" * 4 + "glibc.pthread.stack_cache_size=100000"
        text = self.report("counter", *FEW, env={**os.environ, "GLIBC_TUNABLES": word})
        self.assertIn(f"GLIBC_TUNABLES={word}", " ".join(text.lines))

    def test_json_on_standard_output_is_alone(self):
        result = command.run("bench", "--report", "counter", *FEW, "--json", "-")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["tables"][0]["benchmark"], "counter")

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = run("counter", *FEW, stdout=full)
        self.assertEqual(result.returncode, 1)
        self.assertIn("No space left", result.stderr)

    def interrupt(self, progress, sig, *args):
        """Once the terminal shows this, the signal. Returns exit code, output, the terminal's."""
        master, slave = terminal.open_terminal(self)
        tool = subprocess.Popen([command.TOOL, "bench", "--report", *args], stdout=subprocess.PIPE,
                                stderr=slave, text=True)
        self.addCleanup(tool.kill)
        os.close(slave)
        seen = b""
        while progress not in seen:
            seen += os.read(master, 4096)
        tool.send_signal(sig)
        out, _ = tool.communicate(timeout=60)
        try:
            while chunk := os.read(master, 4096):
                seen += chunk
        except OSError:  # nobody has the other end any more
            pass
        os.close(master)
        return tool.returncode, out, seen.decode()

    def test_interrupted(self):
        code, text, seen = self.interrupt(b"refcount, 1 thread", signal.SIGINT, "refcount",
                                          "--iterations", str(1 << 40))
        self.assertEqual(code, 128 + signal.SIGINT)
        self.assertIn("interrupted; no file was written", seen)
        self.assertEqual(text, "")

    def test_interrupted_after_a_table(self):
        code, text, _ = self.interrupt(b"memory, 2 threads", signal.SIGTERM, "refcount", "memory",
                                       "--threads", "1", "--repeat", "3")
        self.assertEqual(code, 128 + signal.SIGTERM)
        self.assertIn("Reference count", text)
        self.assertNotIn("Memory of", text)


class Chart(command.Case):
    """The README's picture."""

    def chart(self, path, *args):
        return subprocess.run([sys.executable, MEASURED, "chart", command.TOOL, path, *args],
                              text=True, check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, env={**os.environ, "NEAR_CONF": ""})

    def test_has_all_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.chart(f"{folder}/svg", "--iterations", "1000", "--repeat", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            svg = xml.etree.ElementTree.parse(f"{folder}/svg").getroot()
        texts = [text for text in svg.iter() if text.tag.endswith("}text")]
        labels = [text.text for text in texts if not text.get("class")]
        values = [float(text.text) for text in texts if "value" in text.get("class", "")]
        self.assertEqual(labels[:4], ["Nearcpu", "sharded by sched_getcpu", "one atomic",
                                      "one mutex"])
        self.assertEqual(len(labels), 4 + 6)
        # Four rows have a mutex, all but two copies by CPU; one may be missing: ck's list.
        self.assertIn(len(values), (19, 20))
        self.assertGreater(min(values), 0)
        described = [float(word.rstrip(".")) for word in re.findall(
            r" (\.?\d[\d.]*)(?=[,;.])", svg.find("{*}desc").text.split(". ", 1)[1])]
        self.assertEqual(sorted(described), sorted(values))

    def test_a_folder_that_is_not_there(self):
        done = self.chart("/nonexistent/svg", "--iterations", "1000", "--repeat", "1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/svg: No such file or directory", done.stderr)


if __name__ == "__main__":
    command.main()
