#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu stats: the forms of HdrHistogram, OpenTelemetry and Prometheus, decoded here, against the
values that were recorded and the errors that are stated.

usage: stats_forms_test.py TOOL REGION-MAKER
"""
import base64
import json
import os
import re
import struct
import subprocess
import sys
import unittest
import zlib

import command
from command import Case, run

MAKER = ""
GREATEST = 2**64 - 1
LABELS = {"op": "get", "path": "/a \"b\\c"}
VALUES = {
    "get": sorted([i * i * 7 % 1000003 for i in range(1000)] + [GREATEST]),
    "put": [2 * i for i in range(1000)],
}
MAXIMUM = {"get": GREATEST, "put": 1003}


def stated_error(text):
    return float(re.search(r"at most (\S+) % outside", text).group(1)) / 100


# ---- decoders ----

def zigzag(n):
    return n >> 1 ^ -(n & 1)


def hdr_numbers(data):
    """Of seven bits a byte, but eight in a ninth."""
    value = shift = 0
    for byte in data:
        value |= (byte if shift == 56 else byte & 127) << shift
        if byte & 128 and shift < 56:
            shift += 7
            continue
        yield zigzag(value)
        value = shift = 0


def hdr_buckets(payload):
    """The (least, greatest, count) of buckets of an encoded histogram."""
    cookie, size = struct.unpack(">ii", payload[:8])
    assert cookie == 0x1c849314 and size == len(payload) - 8
    plain = zlib.decompress(payload[8:])
    cookie, size, offset, digits, least, greatest, ratio = struct.unpack(">iiiiqqd", plain[:40])
    assert (cookie, size) == (0x1c849313, len(plain) - 40)
    assert (offset, least, ratio) == (0, 1, 1.0) and greatest >= 2
    magnitude = {1: 4, 2: 7, 3: 10}[digits]
    index = 0
    for count in hdr_numbers(plain[40:]):
        if count <= 0:
            index += -count or 1
            continue
        shift = max((index >> magnitude) - 1, 0)
        low = (index - (shift << magnitude)) << shift
        assert low <= greatest
        yield low, low + (1 << shift) - 1, count
        index += 1


def fields(data):
    """The (number, value) pairs of a protobuf message; fixed numbers are doubles."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            at += 8
            yield key >> 3, struct.unpack("<d", data[at - 8:at])[0]
        else:
            assert key & 7 == 2
            size = varint()
            at += size
            yield key >> 3, data[at - size:at]


def delimited(data):
    """Messages behind their lengths: the fields of one that has them all as number 1."""
    while data:
        size = shift = at = 0
        while True:
            size |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        yield list(fields(data[at:at + size]))
        data = data[at + size:]


def all_of(pairs, number):
    return [value for key, value in pairs if key == number]


def one_of(pairs, number):
    value, = all_of(pairs, number)
    return value


def native_buckets(histogram):
    """The (least, greatest, count) of buckets of a native histogram."""
    base = 2**(2**-zigzag(one_of(histogram, 5)))
    deltas = iter(all_of(histogram, 13))
    index = count = 0
    yield 0, 0, one_of(histogram, 7)
    for span in all_of(histogram, 12):
        span = list(fields(span))
        index += zigzag(one_of(span, 1))
        for _ in range(one_of(span, 2)):
            count += zigzag(next(deltas))
            yield base**(index - 1), base**index, count
            index += 1
    assert next(deltas, None) is None


class Forms(Case):
    def setUp(self):
        self.region = os.path.join(self.folder(), "region")
        subprocess.run([MAKER, self.region], check=True)

    def stats(self, *form, **more):
        result = run("stats", *form, self.region, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def check(self, name, buckets, error):
        """The values, in their order, are in the buckets, in theirs."""
        values = VALUES[name]
        placed = [bucket for bucket in buckets for _ in range(bucket[2])]
        self.assertEqual(len(placed), len(values))
        for value, (low, high, _) in zip(values, placed):
            value = min(value, MAXIMUM[name] + 1)
            if value < 2**63:
                self.assertLessEqual(low * (1 - error), value * 1.000001)
                self.assertGreaterEqual(high * (1 + error), value * .999999)

    def test_one_form_at_a_time(self):
        self.expect(run("stats", "--hdr", "--otlp", self.region), 2, "one form")

    def test_hdr(self):
        result = run("stats", "--hdr", self.region)
        if "zlib" in result.stderr:
            self.skipTest("built without zlib")
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "#[Histogram log format version 1.3]")
        self.assertRegex(lines[1], r"^#\[StartTime: \d+\.\d{3} ")
        self.assertTrue(lines[3].startswith('"StartTimestamp"'))
        tags = []
        for comment, line in zip(lines[4::2], lines[5::2]):
            tag, start, _, _, payload = line.split(",")
            buckets = list(hdr_buckets(base64.b64decode(payload, validate=True)))
            tags.append(tag)
            self.assertEqual(float(start), 0)
            if "op=" in tag:
                self.check(tag[19:22], buckets, stated_error(comment))
            else:
                self.assertEqual(buckets, [])
        self.assertEqual(tags, [r'Tag=latency_ns{op="get";path="/a_\"b\\c"}',
                                'Tag=latency_ns{op="put"}', "Tag=sizes"])
        self.assertIn("498 above the maximum", lines[6])

    def test_fewer_buckets(self):
        for most in (5, 12, 160):
            self.check_otlp(most, "--buckets", str(most))
            self.check_native(most, "--buckets", str(most))
        for arguments in (["--otlp", "--buckets", "4"], ["--otlp", "--buckets", "x"],
                          ["--json", "--buckets", "9"]):
            self.expect(run("stats", *arguments, self.region), 2, "--buckets")

    def test_otlp(self):
        self.assertLess(self.check_otlp(65536), 1 / 32)

    def check_otlp(self, most, *options):
        """Returns the error that it states."""
        resource, = json.loads(self.stats("--otlp", *options))["resourceMetrics"]
        latency, requests, sizes = resource["scopeMetrics"][0]["metrics"]
        error = stated_error(latency["description"])
        for point in latency["exponentialHistogram"]["dataPoints"]:
            attributes = {a["key"]: a["value"]["stringValue"] for a in point["attributes"]}
            name = attributes["op"]
            self.assertEqual(attributes, LABELS if name == "get" else {"op": "put"})
            base, offset = 2**(2**-point["scale"]), point["positive"]["offset"]
            buckets = [(base**(offset + i), base**(offset + i + 1), int(count))
                       for i, count in enumerate(point["positive"]["bucketCounts"])]
            self.assertLessEqual(len(buckets), most)
            self.check(name, [(0, 0, int(point["zeroCount"])), *buckets], error)
            self.assertEqual(int(point["count"]), len(VALUES[name]))
            self.assertEqual(point["min"], 0)
        self.assertEqual(point["sum"], 999000)
        self.assertEqual([(p["asInt"], p["attributes"][0]["value"]["stringValue"])
                          for p in requests["sum"]["dataPoints"]], [("500", "0"), ("500", "1")])
        self.assertEqual(sizes["exponentialHistogram"]["dataPoints"][0]["count"], "0")
        return error

    def test_prometheus_native(self):
        self.check_native(65536)

    def check_native(self, most, *options):
        latency, requests, sizes = delimited(self.stats("--prometheus-native", *options,
                                                        text=False))
        self.assertEqual([one_of(f, 1) for f in (latency, requests, sizes)],
                         [b"latency_ns", b"requests", b"sizes"])
        self.assertEqual([one_of(f, 3) for f in (latency, requests, sizes)], [4, 0, 4])
        error = stated_error(one_of(latency, 2).decode())
        for metric in all_of(latency, 4):
            metric = list(fields(metric))
            labels = [list(fields(label)) for label in all_of(metric, 1)]
            labels = {one_of(l, 1).decode(): one_of(l, 2).decode() for l in labels}
            self.assertEqual(labels, LABELS if labels["op"] == "get" else {"op": "put"})
            histogram = list(fields(one_of(metric, 7)))
            self.assertEqual(one_of(histogram, 1), len(VALUES[labels["op"]]))
            buckets = list(native_buckets(histogram))
            self.assertLessEqual(len(buckets) - 1, most)
            self.check(labels["op"], buckets, error)
        self.assertEqual(one_of(histogram, 2), 999000)
        self.assertEqual(len(all_of(requests, 4)), 2)
        empty = list(fields(one_of(list(fields(one_of(sizes, 4))), 7)))
        self.assertEqual(list(native_buckets(empty)), [(0, 0, 0)])
        self.assertEqual(len(all_of(empty, 12)), 1)

    def test_json_has_great_values(self):
        objects = json.loads(self.stats("--json"))["objects"]
        self.assertEqual(objects[0]["histogram"]["max"], 2.0**64)


if __name__ == "__main__":
    command.TOOL, MAKER = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
