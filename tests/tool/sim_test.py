#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu sim: its tables, JSON and plot, equal results for equal seeds, wrong options.

usage: sim_test.py NEARCPU [TEST...]
"""
import json
import os
import re
import xml.etree.ElementTree

import command
from command import Case, run

QUICK = ("--switches", "10000", "--prefer", "off")
ROWS = {"single", "transfer", "hit", "eviction", "discard", "allocation", "removal_exit",
        "removal_migration", "release"}
FIGURES = {"policy": str, "switches": int, "switches_to_threads": int, "profile_percent": dict,
           "atomics_per_switch": float, "kept_percent": float, "node_change_percent": float,
           "ids_mean": float, "ids_most": int, "id_highest": int, "processes": int, "copies": dict,
           "bytes": dict, "migrations": int, "node_migrations": int, "ms": float, "wait_us": float,
           "work_per_ms": float, "violations": int}
LOADS = ["processes", "threads", "two", "ten", "pipe", "server", "servers"]
POLICIES = ["2022", "2022-single", "2022-trans", "2022-cache", "2022-all", "6.4", "6.13",
            "6.19", "idspace"]


class Sim(Case):
    def sim(self, *arguments):
        result = run("sim", *arguments)
        self.expect(result, 0)
        return result.stdout

    def figures(self, *arguments):
        return json.loads(self.sim(*arguments, "--json", "-"))

    def wrong(self, *arguments, words=()):
        result = run("sim", *arguments)
        self.expect(result, 2, *words)
        self.assertEqual(result.stdout, "")

    def test_list(self):
        words = [line.split()[0] for line in self.sim("--list").splitlines()]
        self.assertEqual(words, ["loads:", *LOADS, "policies:", *POLICIES])

    def test_table(self):
        text = self.sim(*QUICK)
        for word in (*LOADS, "cache eviction", "atomic ops per switch", "bytes per (node, cid)"):
            self.assertIn(word, text)
        self.assertTrue(all(len(line) <= 100 for line in text.splitlines()))
        self.assertNotIn("Should a migration", text)

    def test_seed(self):
        first = self.sim(*QUICK, "--load", "threads,server")
        self.assertEqual(first, self.sim(*QUICK, "--load", "threads,server", "--seed", "1"))
        other = self.sim(*QUICK, "--load", "threads,server", "--seed", "2")
        self.assertNotEqual(first.splitlines()[2:], other.splitlines()[2:])

    def test_json(self):
        data = self.figures(*QUICK, "--cpus", "8", "--nodes", "2", "--size", "100")
        self.assertEqual(data["cpuset"], list(range(8)))
        self.assertEqual([entry["load"] for entry in data["loads"]], LOADS)
        for entry in data["loads"]:
            self.assertEqual([p["policy"] for p in entry["policies"]], POLICIES)
            # The policy changes ids, not what runs where.
            self.assertEqual(len({(p["switches"], p["migrations"], p["ms"])
                                  for p in entry["policies"]}), 1)
            for policy in entry["policies"]:
                self.assertEqual({k: type(v) for k, v in policy.items()}, FIGURES)
                self.assertEqual(set(policy["profile_percent"]), ROWS)
                self.assertAlmostEqual(sum(policy["profile_percent"].values()), 100)
                self.assertEqual(policy["violations"], 0)
                self.assertLess(policy["id_highest"], 8)
                for key, copies in policy["copies"].items():
                    self.assertEqual(policy["bytes"][key], copies * 100)

    def test_question(self):
        data = self.figures("--switches", "5000", "--load", "ten,pipe", "--policy", "2022,6.19")
        rows = data["question"]["rows"]
        self.assertEqual([(r["load"], r["policy"]) for r in rows],
                         [("ten", "2022"), ("ten", "6.19")])
        self.assertEqual(set(rows[0]["with"]), set(rows[0]["without"]))
        self.assertIn("Answer: ", data["question"]["answer"])
        text = self.sim("--switches", "5000", "--load", "ten", "--policy", "2022")
        self.assertIn("Should a migration prefer nodes", text)
        self.assertIn("Answer: ", " ".join(text.split()))

    def test_cpuset(self):
        data = self.figures(*QUICK, "--cpus", "64", "--cpuset", "2,8-11", "--load", "threads",
                            "--policy", "2022,6.13,6.19")
        self.assertEqual(data["cpuset"], [2, 8, 9, 10, 11])
        for policy in data["loads"][0]["policies"]:
            self.assertLessEqual(policy["copies"]["cpu"], 5)
            self.assertLess(policy["id_highest"], 7)

    def test_sizes(self):
        for cpus, nodes in ((1, 1), (3, 3), (4096, 64)):
            for policy in self.figures(*QUICK, "--cpus", str(cpus), "--nodes", str(nodes), "--load",
                                       "server")["loads"][0]["policies"]:
                self.assertEqual(policy["violations"], 0)

    def test_large(self):
        data = self.figures("--cpus", "4096", "--nodes", "8", "--switches", "1000000", "--load",
                            "server", "--policy", "6.19", "--prefer", "off")
        policy = data["loads"][0]["policies"][0]
        self.assertGreaterEqual(policy["switches"], 1000000)
        self.assertEqual(policy["violations"], 0)
        self.assertLess(policy["id_highest"], 4096)

    def test_plot(self):
        """A row for each policy, with a point for each load, in the order of the figures; and the
        load that has the most."""
        path = os.path.join(self.folder(), "plot.svg")
        data = self.figures(*QUICK, "--load", "threads,two,ten", "--plot", path)
        svg = "{http://www.w3.org/2000/svg}"
        root = xml.etree.ElementTree.parse(path).getroot()
        height = float(root.get("viewBox").split()[3])
        points, texts = ([], []), [text.text for text in root.iter(svg + "text")]
        for point in root.iter(svg + "circle"):
            x, y = float(point.get("cx")), float(point.get("cy"))
            self.assertTrue(100 < x < 900 and 90 < y < height - 60)
            points[x > 500].append((y, x))
        for panel, figure in enumerate((lambda p: p["atomics_per_switch"],
                                        lambda p: p["copies"]["node_cid"] / p["copies"]["cpu"])):
            rows = [points[panel][i:i + 4] for i in range(0, len(points[panel]), 4)]
            self.assertEqual(len(rows), len(data["loads"][0]["policies"]))
            for i, row in enumerate(rows):
                values = [figure(load["policies"][i]) for load in data["loads"]]
                most = max(range(3), key=lambda k: values[k])
                self.assertEqual(len({y for y, _ in row}), 1)
                self.assertEqual(row[3], row[most])
                for a in range(3):
                    for b in range(3):
                        if values[a] < values[b]:
                            self.assertLessEqual(row[a][1], row[b][1])
        for policy in data["loads"][0]["policies"]:
            self.assertIn(policy["policy"], texts)
        named = [text for text in texts if re.fullmatch(r"(threads|two|ten) [-+.e0-9]+( %)?", text)]
        self.assertEqual(len(named), 2 * len(data["loads"][0]["policies"]))

    def test_wrong(self):
        for name, value in (("cpus", "0"), ("cpus", "4097"), ("cpus", "x"), ("nodes", "65"),
                            ("nodes", "0"), ("switches", "0"), ("seed", "-1"), ("size", "0"),
                            ("groups", "0"), ("threads", "0"), ("prefer", "maybe")):
            self.wrong("--" + name, value, words=("--" + name, value))
        self.wrong("--cpus", "4", "--nodes", "5", words=("--nodes", "from 1 to 4"))
        for value in ("", "24", "3-1", "1,", "1-", "a", "0-24", "-1", "1--2"):
            self.wrong("--cpuset=" + value, words=("--cpuset", value))
        self.wrong("--load", "nothing", words=("there is no load 'nothing'", "--list"))
        self.wrong("--policy", "6.4,7", words=("there is no policy '7'", "--list"))
        self.wrong("--policy", "", words=("there is no policy ''",))
        self.wrong("more", words=("unexpected argument 'more'",))
        self.wrong("--seconds", "2", words=("--kernel",))
        self.wrong("--kernel", "--seconds", "0", words=("--seconds",))
        self.wrong("--kernel", "--cpus", "2", words=("--cpus",))

    def test_output(self):
        self.expect(run("sim", *QUICK, "--json", "/nonexistent/file"), 1, "/nonexistent/file")
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.expect(run("sim", *QUICK, "--load", "pipe", stdout=full), 1, "standard output")

    def test_kernel(self):
        """Where it cannot trace, it reports why."""
        result = run("sim", "--kernel", "--json", "-")
        if result.returncode:
            self.expect(result, 1, "cannot compare")
            return
        data = json.loads(result.stdout)
        self.assertGreater(data["compared"], 0)
        self.assertEqual(set(data["kernel"]), set(data["simulated"]))


if __name__ == "__main__":
    command.main()
