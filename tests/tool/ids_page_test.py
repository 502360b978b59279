#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu ids --html: what a browser shows of the page, against the JSON of the same run.

usage: ids_page_test.py NEARCPU [TEST...]
"""
import json

import browser
import command
from ids_test import IdsCase, run

# Of each lane that is shown, how many pixels have a colour that is no shade of grey.
COLOURED = """lanes.slice(0, rows_shown()).map((lane, l) => {
    const r = devicePixelRatio, d = c.getImageData(label_width * r, (AXIS + l * ROW) * r,
        (chart_width() + 2) * r, ROW * r).data;
    let n = 0;
    for (let i = 0; i < d.length; i += 4)
        n += Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 60;
    return n;
})"""


class Page(browser.PageCase, IdsCase):
    def page(self, *program):
        """Runs the program, opens its page; returns the JSON."""
        page, path = self.path("page.html"), self.path("json")
        result = run("--html", page, "--json", path, "--", *program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.open_page(page)
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def choose(self, name, value):
        self.browser.value(f"element('{name}').value = '{value}'; choose()")
        return self.browser.value("lanes.map((l) => l.name)")

    def test_lanes(self):
        seen = self.page(self.program, "pinned", "3")
        process, = seen["processes"]
        name = f"{process['name']} {process['pid']}"
        self.assertEqual(self.choose("kind", "CPU"), [f"CPU {cpu}" for cpu in process["cpus"]])
        self.assertEqual(self.choose("kind", "cid"), [f"{name}, cid {c}" for c in process["cids"]])
        threads = self.choose("kind", "thread")
        self.assertEqual(len(threads), 4)
        self.assertEqual(threads[0], f"{name}, thread {process['pid']}")
        if process["cids"]:
            self.assertNotIn(0, self.browser.value(COLOURED))
        # What the spans show is what the summary has.
        for key in ("cpus", "cids", "nodes"):
            self.assertEqual(self.browser.value(
                f"[...new Set({key[:-1]})].filter((n) => n >= 0).sort((a, b) => a - b)"),
                process[key])
        self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"), 0)

    def test_tables(self):
        seen = self.page("sh", "-c", "true | cat; exit 0")
        rows = self.browser.value("[...element('data').rows].map((r) => "
                                  "[...r.cells].map((c) => c.textContent))")
        wanted = [[n["largest_process"], n["all_at_one_moment"]] for n in seen["copies"].values()]
        self.assertEqual([[row[1], row[3]] for row in rows],
                         [["unknown" if n is None else str(n) for n in pair] for pair in wanted])
        names = self.browser.value("[...element('processes').rows].map((r) => "
                                   "r.cells[1].textContent)")
        self.assertEqual(names, [p["name"] for p in seen["processes"]])
        self.assertIn("3 processes; 3 threads", self.browser.text("summary"))
        for i, process in enumerate(seen["processes"]):
            lanes = [name for name in self.choose("process", i) if not name.startswith("CPU")]
            self.assertEqual(len(lanes), 1 + len(process["cids"]))

    def test_window(self):
        self.page(self.program, "together", "3")
        width = "shown.to - shown.from"
        whole = self.browser.value(width)
        self.browser.value("element('in').click()")
        self.assertAlmostEqual(self.browser.value(width), whole / 2, delta=1)
        self.browser.value("for (let i = 0; i < 40; i++) zoom(.5)")
        self.assertAlmostEqual(self.browser.value(width), 100, delta=1)
        self.browser.value("move(1e6)")
        self.assertAlmostEqual(self.browser.value("shown.to"), whole, delta=1)
        self.browser.value("element('all').click()")
        self.assertAlmostEqual(self.browser.value(width), whole, delta=1)
        left, top, across = self.browser.value(
            "(({left, top}) => [left + label_width, top + AXIS, chart_width()])"
            "(canvas.getBoundingClientRect())")
        self.browser.mouse("mousePressed", left + across / 4, top + 5, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", left + across / 2, top + 5, button="left", buttons=1)
        self.browser.mouse("mouseReleased", left + across / 2, top + 5, button="left",
                           clickCount=1)
        self.assertAlmostEqual(self.browser.value(width) / whole, .25, delta=.02)
        # The middle of the first span of the first lane.
        self.browser.value("show_all()")
        x, y = self.browser.value("(({left, top}) => [left + x_of((begin[lanes[0].ids[0]] + "
                                  "end[lanes[0].ids[0]]) / 2), top + AXIS + 4])"
                                  "(canvas.getBoundingClientRect())")
        self.browser.mouse("mouseMoved", x, y)
        self.assertRegex(self.browser.text("tip"), r"thread \d+.*\ncid \S+, CPU \d+, node \S+\n")

    def test_thousand_threads(self):
        seen = self.page(self.program, "turns", "1000")
        self.assertEqual(seen["threads_ever"], 1001)
        self.assertEqual(len(self.choose("kind", "thread")), 1001)
        self.browser.value("element('scroll').scrollTop = 1e6; element('scroll').onscroll()")
        self.assertGreater(self.browser.value("top_lane() + rows_shown()"), 1000)
        self.assertIn("turn", self.browser.value("lanes[1000].name"))
        # How much is drawn depends on the pixels.
        self.choose("kind", "CPU")
        self.browser.value("var drawn = 0; for (let l = 0; l < lanes.length; l++) "
                           "each_span(lanes[l], () => drawn++)")
        self.assertLessEqual(self.browser.value("drawn"),
                             self.browser.value("lanes.length * chart_width()"))

    def test_hostile_texts(self):
        """Nothing that the program names is markup."""
        self.page(self.program, "markup", "1", "</script><script>bad()/*<!--")
        self.assertIn("</script><script>bad()/*<!--", self.browser.text("summary"))
        self.assertIn("</script><b>", self.choose("kind", "thread")[1])
        self.assertEqual(self.browser.value("document.scripts.length"), 3)


if __name__ == "__main__":
    command.main()
