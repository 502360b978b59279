#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu bench --html: what a browser shows of the page, against the JSON of the same run.

usage: bench_page_test.py NEARCPU [TEST...]
"""
import json

import browser
import command
from command import FEW

# Of each bar in `where`: its label, its length in parts of the longest, what is written beside it.
BARS = """((where) => { const bars = [...document.querySelectorAll(`${where} .line`)].map((l) => [
    l.querySelector('.label').textContent, l.querySelector('.bar').getBoundingClientRect().width,
    l.querySelector('.value').textContent, l.querySelector('.bar').className]),
    most = Math.max(...bars.map((b) => b[1]));
    return bars.map((b) => [b[0], b[1] / most, b[2], b[3]]); })"""
CELLS = "((rows) => [...rows].map((r) => [...r.cells].map((c) => c.textContent)))"


def cost(row):
    return (row.get("bytes_each") or row["cpu_ns_per_op"])["median"]


class Page(browser.PageCase, command.ScratchCase):
    def page(self, *args, change=None, **more):
        """Runs the benchmarks, opens their page, whose JSON `change` may have changed."""
        page = self.path("page.html")
        result = command.run("bench", *args, "--html", page, "--json", self.path("json"), **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(self.path("json"), encoding="utf-8") as file:
            run = json.load(file)
        if change:
            change(run)
            with open(page, encoding="utf-8") as file:
                before, rest = file.read().split('type="application/json">\n', 1)
            text = json.dumps(run).replace("<", "\\u003c")
            with open(page, "w", encoding="utf-8") as file:
                file.write(f'{before}type="application/json">\n{text}\n'
                           + rest[rest.index("</script>"):])
        self.open_page(page)
        return run

    def measured(self, table):
        return [row for row in table["rows"] if "samples" in row]

    def test_bars_are_linear(self):
        run = self.page("refcount", "memory", "--threads", "2", *FEW)
        for i, table in enumerate(run["tables"]):
            rows = self.measured(table)
            most = max(map(cost, rows))
            bars = self.browser.value(f"{BARS}('#t{i}')")
            self.assertEqual(len(bars), len(rows))
            for row, (label, length, _, kind) in zip(rows, bars):
                self.assertEqual(label.removesuffix(" *"), row["label"])
                self.assertIn(row["role"], kind)
                self.assertAlmostEqual(length, max(cost(row) / most, .0015), delta=.006)

    def test_gains_come_first(self):
        run = self.page("refcount", "list", "--threads", "1,2", *FEW)
        gains = {}
        for table in run["tables"]:
            own = next(row for row in table["rows"] if row["name"] == table["default"])
            if "best_other" in own:
                gains[table["heading"]] = own["ratio_to_best_other"], own["decided"]
        bars = self.browser.value(f"{BARS}('#gain-chart')")
        self.assertEqual([bar[0] for bar in bars], list(gains))
        most = max(gain for gain, _ in gains.values())
        for label, length, text, kind in bars:
            gain, decided = gains[label]
            self.assertAlmostEqual(length, gain / most, delta=.006)
            self.assertAlmostEqual(float(text.split()[0]) / gain, 1, delta=.01)
            self.assertEqual(kind.split()[1], "even" if not decided else
                             "gain" if gain > 1 else "loss")
        order = self.browser.value("['gains', 'summary', 'about', 'tables'].map((name) => "
                                   "element(name).getBoundingClientRect().top)")
        self.assertEqual(order, sorted(order))
        self.assertLess(order[0], 300)

    def test_fits_its_column(self):
        """At 1,300 pixels nothing has to be scrolled sideways."""
        run = self.page("refcount", "cpuid", "sem", "--quick", "--iterations", "2000", "--repeat",
                        "2", "--threads", "2")
        self.assertEqual(self.browser.value("innerWidth"), 1300)
        self.assertEqual(self.browser.value(
            "[...document.querySelectorAll('.scroll, #summary table, #summary, body')]"
            ".filter((e) => e.scrollWidth > e.clientWidth + 1).length"), 0)
        rows = self.browser.value(f"{CELLS}(element('summary').querySelectorAll('tbody tr'))")
        defaults = [t for t in run["tables"] if not t["apart"] and t.get("default")]
        self.assertEqual([row[0] for row in rows], [t["heading"] for t in defaults])
        self.assertGreater(len(rows), 2)
        self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"), 0)

    def verdicts(self, quiet, gain, decided):
        def change(run):
            run["load"]["quiet"] = quiet
            for table in run["tables"]:
                for figure in table["figures"]:
                    figure["reached"] = False
                for row in table["rows"]:
                    row["decided"] = decided
                    row["ratio_to_best_other"] = gain if row["name"] == table["default"] else .5

        self.page("refcount", "--threads", "1", *FEW, change=change)
        red = "getComputedStyle(document.querySelector('%s')).color"
        return (self.browser.value("document.querySelector('.verdict').className.split(' ')[1]"),
                self.browser.value(red % ".figures span") ==
                self.browser.value("getComputedStyle(element('error')).color"))

    def test_a_verdict_is_that_of_the_default(self):
        """Whatever a row without rseq loses; and a miss on a busy machine is not red."""
        self.assertEqual(self.verdicts(True, 3, True), ("gain", True))
        self.assertEqual(self.verdicts(False, 3, True), ("gain", False))
        self.assertEqual(self.verdicts(True, .6, True), ("loss", True))
        self.assertEqual(self.verdicts(True, .6, False), ("even", True))
        self.assertEqual(self.browser.value("element('notice').hidden"), True)

    def test_hostile_texts(self):
        def change(run):
            run["tables"][0]["text"] = run["machine"]["processor"] = "</script><img src=x>"

        self.page("refcount", "--threads", "1", *FEW, change=change,
                  env={"NEAR_CONF": "x:<b>&\"</dl>"})
        self.assertIn("x:<b>&\"</dl>", self.browser.text("machine"))
        self.assertIn("</script><img src=x>", self.browser.text("t0"))
        self.assertEqual(self.browser.value("document.querySelectorAll('img, b b').length"), 0)

    def test_suite(self):
        if command.run("bench", "atomic", "--only", "24-load", "--threads", "1", "--quick",
                       "--repeat", "1").returncode:
            self.skipTest("libatomic cannot be measured here")
        run = self.page("atomic", "--only", "24-load,24-cas", "--threads", "1,2", "--quick",
                        "--repeat", "1")
        rows = self.browser.value(f"{CELLS}(document.querySelectorAll('#atomic table')[0].rows)")
        self.assertEqual(len(rows), 1 + 4 + 3)
        for table, cells in zip(run["tables"], rows[1:]):
            self.assertEqual(cells[:2], [table["part"], str(table["threads"])])
            for row, cell in zip(table["rows"][1:], cells[3:]):
                if "samples" in row and row["ratio_to_first"].get("wall"):
                    gain = 1 / row["ratio_to_first"]["wall"]["median"]
                    self.assertAlmostEqual(float(cell) / gain, 1, delta=.01)


if __name__ == "__main__":
    command.main()
