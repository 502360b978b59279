#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace show --html: what a browser shows of the page, against show and stat.

usage: trace_page_test.py NEARCPU TRACE_FILE [TEST...]
"""
import json
import os
import re
import struct
import subprocess
import sys

import browser
import command
import trace_show_test
from command import run
from trace_show_test import TraceCase

PAIR = ("--between", "app:begin,app:end")
ROWS = """[...document.querySelectorAll('#rows tr')].map((row) => {
    const c = [...row.cells].map((cell) => cell.textContent);
    return `${c[0]} cpu ${c[1]} tid ${c[2]} ${c[3]} ${c[4]}`.trim();
})"""
# Of each lane, how many pixels have a colour that is no shade of grey.
COLOURED = """lanes.map((name, lane) => {
    const {left, top, width} = chart.bbox, row = 24 * uPlot.pxRatio;
    const d = chart.ctx.getImageData(left, top + lane * row, width, row).data;
    let n = 0;
    for (let i = 0; i < d.length; i += 4)
        n += Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 60;
    return n;
})"""


class Page(browser.PageCase, TraceCase):
    def page(self, path, *options, sub="show"):
        """Makes and opens the page of a trace."""
        page = self.path("page.html")
        self.trace(sub, "--html", page, *options, path)
        self.open_page(page)
        return page

    def rows(self):
        return self.browser.value(ROWS)

    def shown(self):
        """Begin and end of the window, and how many events are in it."""
        found = re.match(r"([\d.]+) to ([\d.]+) s .*: (\d+) events?$", self.browser.text("shown"))
        return found[1], found[2], int(found[3])

    def check_counts(self, path):
        counts = self.browser.value("[...element('points').rows].map((row) => "
                                    "row.cells[0].textContent + row.cells[2].textContent)")
        stat = self.trace("stat", path).splitlines()[1:]
        self.assertEqual(sorted(counts), sorted("".join(line.split()) for line in stat))

    def search(self, words):
        self.browser.value(f"element('query').value = {json.dumps(words)}; start_search()")
        return self.browser.text("found")

    def test_events(self):
        for scenario in ("basic", "chains"):
            path = self.make(scenario, scenario)
            page = self.page(path)
            events = self.events(path)
            self.assertEqual(self.rows(), events)
            threads = sorted({line.split()[4] for line in events})
            cpus = sorted({line.split()[2] for line in events})
            self.assertEqual(self.browser.value("lanes"), [f"CPU {cpu}" for cpu in cpus] +
                             [f"thread {tid}" for tid in threads])
            self.assertRegex(self.browser.text("count"), rf"^{len(events)} events in .* s, "
                             rf"{len(cpus)} CPUs?, {len(threads)} threads")
            self.assertEqual(self.shown()[2], len(events))
            self.assertRegex(self.browser.text("files"),
                             r"process 4242, 2023-11-14T22:13:20\.000\+00:00")
            self.check_counts(path)
            losses = [line[2:] for line in self.trace("show", path).splitlines()[1:]
                      if line[0] == "#"]
            self.assertEqual(self.browser.text("losses").splitlines(), losses)
            self.assertNotIn(0, self.browser.value(COLOURED))
            # It needs nothing but itself.
            self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"),
                             0)
            with open(page, encoding="utf-8") as file:
                text = file.read()
            self.assertIn("Copyright (c) 2022 Leon Sorokin", text)
            self.assertNotRegex(text, r"""(src|href)\s*=\s*["']?http""")

    def test_floats_and_call_stacks(self):
        for scenario in ("floats", "stacks"):
            path = self.make(scenario, scenario)
            self.page(path)
            self.assertEqual(self.rows(), self.events(path))
            self.check_counts(path)

    def test_filters(self):
        path = self.make("t", "basic")
        for option in (("--name", "app:t*,*:end"), ("--tid", "102"), ("--from", "0.002")):
            self.page(path, *option)
            self.assertEqual(self.rows(), self.events(*option, path))

    def test_search(self):
        path = self.make("t", "basic")
        self.page(path)
        events = self.events(path)
        for words in ("app:end", "JOB=3", "tid 101", 'é\\xff" raw', "c=blue", "cpu 1", "none"):
            wanted = [line for line in events if words.lower() in line.lower()]
            self.assertEqual(self.search(words), f"{len(wanted)} of {len(events)} events", words)
            self.assertEqual(self.rows(), wanted, words)
            self.assertEqual(self.shown()[2], len(wanted))
        self.search("app:types")
        self.assertEqual([n > 0 for n in self.browser.value(COLOURED)],
                         [False, True, True, False, False])
        self.search("app:begin")
        begins = [line for line in events if "app:begin" in line]
        for button, wanted in (("next", 0), ("next", 1), ("next", 2), ("previous", 1)):
            self.browser.value(f"element('{button}').click()")
            self.assertEqual(self.browser.value("document.querySelector('.selected')"
                                                ".cells[0].textContent"), begins[wanted].split()[0])
        self.assertEqual(self.search(""), "")
        self.assertEqual(self.rows(), events)

    def test_processes(self):
        folder = self.path("d")
        os.mkdir(folder)
        for name in ("d/a", "d/b"):
            path = self.make(name, "basic")
        with open(path, "r+b") as file:
            content = file.read()
            file.seek(content.index(struct.pack("<QQQ", 4242, 0, 1)))
            file.write(struct.pack("<Q", 4243))
        self.page(folder, *PAIR)
        events = self.events(folder)
        self.assertEqual(self.browser.value("lanes.length"), 2 + 2 * 3)
        self.assertEqual(self.browser.value("[...time.keys()].map((i) => "
                                            "seconds(time[i]) + ' ' + line(i))"), events)
        wanted = sum("pid 4243 tid 101" in line for line in events)
        self.assertEqual(self.search("pid 4243 tid 101"), f"{wanted} of {len(events)} events")
        self.assertIn("4243/101", self.rows()[0])
        stat = self.trace("stat", *PAIR, folder)
        self.check_counts(folder)
        counts = [line.split() for line in stat.splitlines()[1:5]]
        self.assertEqual(counts, [["2", "app:types"], ["20", "app:begin"], ["20", "app:end"],
                                  ["2", "app:nothing"]])
        self.assertEqual(self.browser.value("new Set(points.map((p) => p.hue)).size"), 4)
        count = re.search(r"\ncount (\d+) ", stat)[1]
        self.assertTrue(self.browser.text("latency").startswith(f"count {count} "))

    def expect_window(self, path):
        begin, end, count = self.shown()
        events = self.events("--from", begin, "--to", end, path)
        self.assertEqual(count, len(events))
        self.assertEqual(self.rows(), events)
        return count

    def test_zoom(self):
        path = self.make("t", "basic")
        self.page(path)
        box = self.browser.value("(({left, top, width, height}) => ({left, top, width, height}))"
                                 "(chart.over.getBoundingClientRect())")
        counts = [self.expect_window(path)]
        at, y = box["left"] + box["width"] * .35, box["top"] + 10
        self.browser.mouse("mousePressed", at, y, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", at + 50, y, button="left")
        self.browser.mouse("mouseMoved", at + 300, y, button="left")
        self.browser.mouse("mouseReleased", at + 300, y, button="left", clickCount=1)
        counts.append(self.expect_window(path))
        self.browser.value("element('out').click()")
        counts.append(self.expect_window(path))
        self.assertTrue(0 < counts[1] < counts[2] < counts[0], counts)
        self.browser.mouse("mouseWheel", at, y, deltaX=0, deltaY=-100, modifiers=2)
        self.browser.wait(f"parseInt(element('shown').innerText.split(': ')[1]) < {counts[2]}")
        self.expect_window(path)
        self.browser.value("element('all').click()")
        self.assertEqual(self.expect_window(path), counts[0])
        # A click selects the nearest event of the lane.
        at = self.browser.value("chart.valToPos(time[1], 'x')") + box["left"]
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.browser.mouse(kind, at + 3, y, button="left", clickCount=1)
        self.assertEqual(self.browser.value("[selected, element('tip').innerText]"),
                         [2, self.events(path)[2]])

    def test_latencies(self):
        path = self.make("t", "basic")
        for by in ("job", ""):
            options = (*PAIR, "--by", by) if by else PAIR
            stat = self.trace("stat", *options, path)
            self.page(path, *options)
            text = self.browser.text("latency")
            count = re.search(r"\ncount (\d+) ", stat)[1]
            unmatched = re.search(r"(\d+) without", stat)[1]
            self.assertTrue(text.startswith(f"count {count} "), text)
            self.assertIn(f" {unmatched} without", text)
            for name in ("p50", "p90", "p99", "max"):
                shown = re.search(rf"{name} ([\d.]+) (ns|µs|ms)", text)
                ns = float(shown[1]) * {"ns": 1, "µs": 1e3, "ms": 1e6}[shown[2]]
                self.assertAlmostEqual(ns / float(re.search(rf"{name} (\d+)", stat)[1]), 1,
                                       delta=1 / 16)
            wanted = dict(re.findall(r" (\d+) ns +(\d+)  #", stat))
            bars = {}
            for bucket, n in zip(*self.browser.value("[[...histogram.data[0]], histogram.counts]")):
                low = self.browser.value(f"bucket_low({bucket})")
                if n:
                    low = str(1 << int(low).bit_length() - 1)
                    bars[low] = bars.get(low, 0) + n
            self.assertEqual(bars, {low: int(n) for low, n in wanted.items()})
        # Of what is shown alone.
        self.browser.value("element('within').click(); set_window(1.5e6, 3.5e6)")
        self.assertTrue(self.browser.text("latency").startswith("count 1 "))

    def test_pairs_are_bars(self):
        self.page(self.make("t", "basic"), *PAIR, "--by", "job")
        taken = """(async (first) => {
            element('first').value = first;
            change_pair();
            await new Promise((done) => setTimeout(done, 50));
            const {left, top, width} = chart.bbox, row = 24 * uPlot.pxRatio;
            const at = lanes.indexOf('thread 101');
            const d = chart.ctx.getImageData(left, top + (at + .2) * row, width, 1).data;
            return d.filter((v, i) => i % 4 === 1 && v - d[i - 1] > 20).length / width;
        })"""
        self.browser.value("set_window(9.995e6, 10.015e6)")
        # A pair of 10 us in a window of 20.
        self.assertTrue(.4 < self.browser.value(taken + "('app:begin')") < .6)
        self.assertEqual(self.browser.value(taken + "('')"), 0)

    def test_last_lane(self):
        """Where lanes are scrolled, the last one can be seen whole."""
        self.page(self.make("t", "basic"))
        hidden = self.browser.value("""(() => {
            lanes.push(...Array(95).fill('lane'));
            element('rest').style.height = (lanes.length - 5) * ROW + 'px';
            const box = element('scroll');
            box.scrollTop = 1e9;
            return lanes.length * ROW - box.scrollTop - 5 * ROW;
        })()""")
        self.assertEqual(hidden, 0)

    def test_latencies_by_long_keys(self):
        self.page(self.make("t", "large", 0, 1024), *PAIR, "--by", "key")
        self.assertTrue(self.browser.text("latency").startswith("count 1   mean 1 µs"))

    def test_damaged(self):
        path = self.make("t", "basic")
        with open(path, "r+b") as file:
            content = file.read()
            first = content.index(struct.pack("<Q", (256 << 10) - 1)) - 8 + 128
            head, = struct.unpack_from("<Q", content, first)
            file.seek(first + 8 * (head >> 52 & 63))
            file.write(b"\xff" * 8)
        page = self.path("page.html")
        result = run("trace", "show", "--html", page, path)
        self.expect(result, 1, "damaged")
        self.browser.open(page)
        self.assertEqual(self.browser.text("losses"), "24 bytes are damaged")
        self.assertEqual(len(self.rows()), 21)
        os.unlink(page)
        os.truncate(path, 300)
        self.expect(run("trace", "show", "--html", page, path), 1, "damaged")
        self.assertEqual(os.listdir(self.dir), ["t"])
        self.page(path, sub="recover")
        self.assertIn("no events", self.browser.text("charts"))
        self.assertIn("header of the file is damaged", self.browser.text("losses"))

    def test_incomplete_page(self):
        page = self.page(self.make("t", "basic"))
        for size in (8000, os.path.getsize(page) // 2):
            os.truncate(page, size)
            self.browser.open(page)
            self.assertIn("incomplete", self.browser.text("error"))
            self.assertEqual(self.browser.value("document.getElementById('page').hidden"), True)

    def test_losses(self):
        path = self.make("t", "many", 50000, 256, 1)
        self.page(path)
        discarded = 50000 - 2 * 4 * 2730
        self.assertTrue(self.browser.text("losses")
                        .startswith(f"{discarded} events were discarded"))
        self.page(self.make("none", "many", 0))
        self.assertIn("no events", self.browser.text("charts"))

    def test_hostile_texts(self):
        """Nothing of a trace is markup."""
        os.mkdir(self.path("d<"))
        maker, path = self.path("<!--<script>"), self.path("d</script>")
        os.symlink(trace_show_test.MAKER, maker)
        subprocess.run([maker, path, "chains"], check=True)
        markup = b"</script><script>bad()/*<!--"
        with open(path, "r+b") as file:
            content = file.read()
            alphabet = bytes(range(ord("a"), ord("z") + 1)) + b"ab"
            self.assertEqual(len(markup), len(alphabet))
            file.seek(0)
            file.write(content.replace(alphabet, markup))
        self.page(path)
        self.assertEqual(self.rows(), self.events(path))
        self.assertIn(markup.decode(), self.rows()[0])
        self.assertIn("<!--<script>, process 4242", self.browser.text("files"))
        self.assertEqual(self.browser.value("document.scripts.length"), 5)

    def test_million(self):
        path = self.make("t", "many", 1000000, 32768)
        self.page(path, "--between", "app:tick,app:tick")
        self.assertIn("1000000 events in 0.099999900 s, 2 CPUs, 7 threads",
                      self.browser.text("count"))
        self.assertTrue(self.browser.text("latency").startswith("count 999993   mean 700 ns"))
        self.assertNotIn(0, self.browser.value(COLOURED))
        # How much is drawn depends on the pixels.
        self.browser.value("var drawn = 0; columns(all, 0, 1e8 / 1000, () => drawn++)")
        self.assertLessEqual(self.browser.value("drawn"), 1010)
        self.assertEqual(self.search("n=99999"), "11 of 1000000 events")
        self.browser.value("element('next').click()")
        self.browser.value("element('in').click()")
        self.assertIn("n=99999", self.rows()[0])

    def test_output(self):
        path = self.make("t", "basic")
        page = self.page(path)
        with open(page, encoding="utf-8") as file:
            self.assertEqual(self.trace("show", "--html", "-", path), file.read())
        self.expect(run("trace", "show", "--html", self.path("none/page"), path), 1, "No such file")
        for arguments, word in ((["stat", "--html", "x", path], "--html goes with"),
                                (["recover", "--html", "x", "--csv", "y", path], "one form"),
                                (["show", *PAIR, path], "--between and --by")):
            self.expect(run("trace", *arguments), 2, word)


if __name__ == "__main__":
    trace_show_test.MAKER = sys.argv.pop(2)
    command.main()
