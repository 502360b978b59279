#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The text of metrics, read by the parsers of prometheus_client, by promtool and by a Prometheus
server: that of the command for a region, and that of a program which is scraped.

usage: metrics_text_test.py NEARCPU REGION_SEED EXAMPLE_METRICS [TEST...]
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import command
from command import ScratchCase, run

try:
    from prometheus_client import parser
    from prometheus_client.openmetrics import parser as open_parser
except ImportError:
    parser = open_parser = None

SEED = EXAMPLE = ""
OPEN = "application/openmetrics-text; version=1.0.0"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url, accept="*/*"):
    """The body and its type, as soon as the server answers."""
    request = urllib.request.Request(url, headers={"Accept": accept})
    while True:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.read().decode(), answer.headers["Content-Type"]
        except (urllib.error.URLError, ConnectionError):
            time.sleep(.05)


def need_parser(test):
    return unittest.skipUnless(parser, "no prometheus_client")(test)


def need(program):
    return unittest.skipUnless(shutil.which(program), f"no {program}")


def families(text, which):
    """{name: (type, unit, documentation, {(sample, labels): value})}"""
    return {f.name: (f.type, f.unit, f.documentation,
                     {(s.name, tuple(sorted(s.labels.items()))): s.value for s in f.samples})
            for f in which.text_string_to_metric_families(text)}


class Metrics(ScratchCase):
    def setUp(self):
        super().setUp()
        self.region = self.path("region")
        subprocess.run([SEED, self.region], check=True)

    def stats(self, option):
        result = run("stats", option, self.region)
        self.expect(result, 0)
        return result.stdout

    def start_example(self):
        port = free_port()
        program = subprocess.Popen([EXAMPLE, str(port)])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return f"127.0.0.1:{port}"

    @need_parser
    def test_region(self):
        for option, which in (("--prometheus", parser), ("--openmetrics", open_parser)):
            found = families(self.stats(option), which)
            self.assertEqual(sorted(found), ["latency", "many", "requests"])
            self.assertEqual(found["latency"][0], "histogram")
            self.assertEqual(found["requests"][0],
                             "unknown" if which is open_parser else "counter")
            samples = found["requests"][3]
            name = "requests" if which is open_parser else "requests_total"
            self.assertIn(("code", "500"), [l for _, labels in samples for l in labels])
            self.assertTrue(all(n in ("requests", name) for n, _ in samples), samples)
            self.assertEqual(found["latency"][3]["latency_count", (("path", "/a"),)], 100)

    def check_example(self, text, which):
        found = families(text, which)
        kind, _, documentation, samples = found["shop_orders"]
        self.assertEqual((kind, documentation), ("counter", "Orders that were paid."))
        self.assertEqual(samples["shop_orders_total", ()], 1000)
        self.assertEqual(found["shop_stock"][0], "gauge")
        self.assertEqual(found["shop_stock"][3]["shop_stock", ()], 4000)
        samples = {tuple(dict(labels).values()): value
                   for (_, labels), value in found["shop_payments"][3].items()}
        self.assertEqual(samples, {("cash", "ok"): 96, ("cash", "refused"): 4, ("card", "ok"): 900,
                                   ("_other_", "_other_"): 2})
        kind, unit, _, samples = found["shop_latency_seconds"]
        self.assertEqual((kind, unit), ("histogram", "seconds" if which is open_parser else ""))
        bounds = [float(dict(labels)["le"]) for name, labels in samples if name.endswith("_bucket")]
        self.assertEqual(bounds, sorted(bounds))
        self.assertEqual(bounds[-1], float("inf"))
        self.assertEqual(samples["shop_latency_seconds_count", ()], 1001)
        self.assertAlmostEqual(samples["shop_latency_seconds_sum", ()], 49.6, delta=1.5)

    @need_parser
    def test_program(self):
        address = self.start_example()
        text, kind = get(f"http://{address}/metrics")
        self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
        self.check_example(text, parser)
        text, kind = get(f"http://{address}/metrics", OPEN)
        self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.assertTrue(text.endswith("# EOF\n"))
        self.check_example(text, open_parser)
        exemplars = [s.exemplar for f in open_parser.text_string_to_metric_families(text)
                     for s in f.samples if s.exemplar]
        self.assertEqual([(e.labels, e.value) for e in exemplars],
                         [({"trace_id": "4bf92f3577b34da6a3ce929d0e0e4736"}, .1)])
        self.assertAlmostEqual(float(exemplars[0].timestamp), time.time(), delta=60)

    @need("promtool")
    def test_promtool(self):
        """It parses, and only complains about names."""
        address = self.start_example()
        result = subprocess.run(["promtool", "check", "metrics"], text=True, capture_output=True,
                                input=get(f"http://{address}/metrics")[0], check=False)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = subprocess.run(["promtool", "check", "metrics"], text=True, capture_output=True,
                                input=self.stats("--prometheus"), check=False)
        self.assertNotIn("error while linting", result.stderr)
        for line in result.stderr.splitlines():
            self.assertIn('"_total" suffix', line)

    @need("prometheus")
    def test_server(self):
        address, own = self.start_example(), f"127.0.0.1:{free_port()}"
        with open(self.path("config"), "w", encoding="ascii") as file:
            file.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: shop\n"
                       f"  static_configs: [{{targets: ['{address}']}}]\n")
        get(f"http://{address}/metrics")
        with open(self.path("log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                ["prometheus", f"--config.file={self.path('config')}",
                 f"--storage.tsdb.path={self.path('data')}", f"--web.listen-address={own}"],
                stdout=log, stderr=log)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        found = []
        while not found:
            answer = get(f"http://{own}/api/v1/query?query=shop_orders_total")[0]
            found = json.loads(answer)["data"]["result"]
            time.sleep(.1)
        self.assertEqual(found[0]["value"][1], "1000")
        text = get(f"http://{own}/api/v1/metadata?metric=shop_latency_seconds")[0]
        self.assertEqual(json.loads(text)["data"]["shop_latency_seconds"],
                         [{"type": "histogram", "unit": "seconds",
                           "help": "From order to answer."}])
        target, = json.loads(get(f"http://{own}/api/v1/targets")[0])["data"]["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))


if __name__ == "__main__":
    if not parser and not shutil.which("promtool") and not shutil.which("prometheus"):
        print("skipped: no prometheus_client, promtool nor prometheus")
        sys.exit(77)
    SEED, EXAMPLE = os.path.abspath(sys.argv.pop(2)), os.path.abspath(sys.argv.pop(2))
    command.main()
