#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu trace export --perfetto, read by the messages of Perfetto's own package (PyPI's
perfetto), against show and stat.

usage: trace_perfetto_test.py NEARCPU TRACE_FILE [TEST...]
"""
import os
import re
import sys

import command
import trace_show_test
from command import run
from trace_show_test import TraceCase

try:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
except ImportError:
    print("no module perfetto.protos of Perfetto's package")
    sys.exit(77)

PAIR = ("--between", "app:begin,app:end")
INSTANT = protos.TrackEvent.TYPE_INSTANT
BEGIN = protos.TrackEvent.TYPE_SLICE_BEGIN
END = protos.TrackEvent.TYPE_SLICE_END


class Perfetto(TraceCase):
    def export(self, path, *options):
        """Sets tracks and events, each as (ns, type, track, name, arguments, flows)."""
        out = self.path("perfetto")
        self.trace("export", "--perfetto", out, *options, path)
        trace = protos.Trace()
        with open(out, "rb") as file:
            trace.ParseFromString(file.read())
        self.tracks, self.events_read, names, arguments = {}, [], {}, {}
        clocks = {c.clock_id: c.timestamp for c in trace.packet[0].clock_snapshot.clocks}
        self.begin, self.date = clocks[3], clocks[1]
        self.assertEqual(trace.packet[1].trace_packet_defaults.timestamp_clock_id, 3)
        self.assertEqual(trace.packet[1].sequence_flags, 1)
        for p in trace.packet:
            self.assertEqual(p.trusted_packet_sequence_id, 1)
            for of, known in ((p.interned_data.event_names, names),
                              (p.interned_data.debug_annotation_names, arguments)):
                for n in of:
                    self.assertNotIn(n.iid, known)
                    known[n.iid] = n.name
            if p.HasField("track_descriptor"):
                self.assertNotIn(p.track_descriptor.uuid, self.tracks)
                self.tracks[p.track_descriptor.uuid] = p.track_descriptor
            if p.HasField("track_event"):
                e = p.track_event
                self.assertEqual(p.sequence_flags, 2)
                self.assertIn(e.track_uuid, self.tracks)
                args = {arguments[a.name_iid]: getattr(a, a.WhichOneof("value"))
                        for a in e.debug_annotations}
                self.events_read.append((p.timestamp - self.begin, e.type, e.track_uuid,
                                         names[e.name_iid] if e.name_iid else None, args,
                                         list(e.flow_ids)))

    def lines(self):
        """What show has of the instants: time, CPU, thread and name."""
        return [f"{ns // 10**9}.{ns % 10**9:09} cpu {args['cpu']} "
                f"tid {self.tracks[track].thread.tid} {name}"
                for ns, kind, track, name, args, _ in self.events_read if kind == INSTANT]

    def slices(self):
        """The lengths of slices, as a reader forms them: it sorts by the time, and keeps the order
        of equal times; on a track nothing overlaps."""
        is_open, lengths = {}, []
        for ns, kind, track, *_ in sorted(self.events_read, key=lambda e: e[0]):
            if kind == BEGIN:
                self.assertNotIn(track, is_open)
                is_open[track] = ns
            elif kind == END:
                lengths.append(ns - is_open.pop(track))
        self.assertEqual(is_open, {})
        return sorted(lengths)

    def test_events(self):
        for scenario in ("basic", "chains", "floats", "large", "stacks"):
            path = self.make(scenario, scenario)
            self.export(path)
            wanted = [" ".join(line.split()[:6]) for line in self.events(path)]
            self.assertEqual(self.lines(), wanted)
            self.assertEqual(self.slices(), [])
            pids = {t.process.pid for t in self.tracks.values() if t.HasField("process")}
            self.assertEqual(pids, {4242})

    def test_values(self):
        self.export(self.make("t", "basic"))
        self.assertEqual(self.date, 1700000000 * 10**9)
        self.assertEqual(self.events_read[0][4], {
            "cpu": 1, "b": True, "a8": 255, "a16": 65535, "a32": 4294967295,
            "a64": 2**64 - 1, "s8": -1, "s16": -300, "s32": -70000, "s64": -2**63,
            "hex": 0xdeadbeef, "f": 1.5, "string": -2.25, "p": 0x1000, "c": "blue",
            "text": 'a "b"\\,\né\ufffd', "raw": "01fe", "numbers": "[1,2,4000000000]",
            "halves": "[0.5,-1.25]", "empty": ""})

    def test_pairs(self):
        path = self.make("t", "basic")
        for by in ((), ("--by", "job")):
            self.export(path, *PAIR, *by)
            stat = self.trace("stat", *PAIR, *by, "--slowest", "1000", path)
            wanted = re.findall(r"^ +(\d+)  \d+\.\d+ cpu", stat, re.M)
            self.assertEqual(self.slices(), sorted(map(int, wanted)))
            self.assertGreater(len(wanted), 4)
            kinds = {self.tracks[e[2]].WhichOneof("static_or_dynamic_name") for e in
                     self.events_read if e[1] == BEGIN}
            self.assertEqual(kinds, {"name"} if by else {None})

    def test_pairs_without_a_gap(self):
        path = self.make("t", "many", 1000)
        self.export(path, "--between", "app:tick,app:tick")
        stat = self.trace("stat", "--between", "app:tick,app:tick", path)
        self.assertEqual(str(len(self.slices())), re.search(r"\ncount (\d+)", stat)[1])

    def test_flows(self):
        self.export(self.make("t", "basic"), "--flow", "job")
        flows = {}
        for *_, args, ids in self.events_read:
            self.assertEqual(len(ids), "job" in args)
            if ids:
                flows.setdefault(args["job"], set()).update(ids)
        self.assertEqual(len(flows), 10)
        self.assertEqual(len(set().union(*flows.values())), 10)

    def test_usage(self):
        path, out = self.make("t", "basic"), self.path("out")
        for arguments, code, word in (
                (["stat", "--flow", "job", path], 2, "--flow goes with"),
                (["export", "--perfetto", out, "--flow", "none", path], 1, "no tracepoint has"),
                (["export", "--perfetto", out, "--between", "a,b", path], 1, "no tracepoint"),
                (["export", "--perfetto", "/dev/full", path], 1, "No space"),
                (["export", "--csv", out, "--perfetto", out, path], 2, "one form")):
            self.expect(run("trace", *arguments), code, word)
        self.assertEqual(os.listdir(self.dir), ["t"])


if __name__ == "__main__":
    trace_show_test.MAKER = sys.argv.pop(2)
    command.main()
