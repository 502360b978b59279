#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu locks --html: what a browser shows of the page, against the JSON of the same run.

usage: locks_page_test.py NEARCPU [TEST...]
"""
import json

import browser
import command
from locks_test import LocksCase, run


class Page(browser.PageCase, LocksCase):
    def page(self, *program):
        page, path = self.path("page.html"), self.path("json")
        result = run("--html", page, "--json", path, "--", *program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.open_page(page)
        with open(path, encoding="utf-8") as file:
            return json.load(file)["processes"]

    def rows(self, table):
        return self.browser.value(f"[...element('{table}').rows].map((r) => "
                                  "[...r.cells].map((c) => c.textContent))")

    def choose(self, kind):
        self.browser.value(f"element('kind').value = '{kind}'; element('kind').onchange()")
        return self.browser.value("lanes.map((l) => [l.tid, l.events.length])")

    def test_page(self):
        process, = self.page(self.program, "mutex")
        waiters = [t["tid"] for t in process["threads"] if "mutex" in t]
        self.assertEqual(sorted(self.choose("mutex")), sorted([tid, 1] for tid in waiters))
        self.assertEqual(self.choose("held"), [[process["pid"], 3]])
        self.assertEqual(self.choose("sem"), [])
        self.assertEqual(len(self.choose("")), 4)
        places = self.rows("places")
        self.assertEqual([(r[0], r[1]) for r in places], [("mutex", "3"), ("held", "3")])
        self.assertEqual(places[0][7], f"{process['pid']}: 3")
        self.assertEqual(places[0][8].split("+")[0], "mutex_place")
        self.assertEqual(len(self.rows("threads")), 4)
        # A row shows its waits alone.
        self.browser.value("element('places').rows[1].onclick()")
        self.assertEqual(self.browser.value("lanes.map((l) => l.tid)"), [process["pid"]])
        self.assertEqual(self.browser.value("performance.getEntriesByType('resource').length"), 0)

    def test_processes(self):
        processes = self.page(self.program, "forks")
        for i, process in enumerate(processes):
            self.browser.value(f"element('process').value = {i}; element('process').onchange()")
            self.assertEqual(self.rows("places")[0][1], "2")
            self.assertEqual(len(self.rows("threads")), len(process["threads"]))

    def test_nothing(self):
        self.assertEqual(self.page(self.program, "free"), [])
        self.assertEqual(self.browser.value("element('nothing').textContent"),
                         "No process has waited.")


if __name__ == "__main__":
    command.main()
