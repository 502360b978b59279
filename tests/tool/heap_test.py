#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nearcpu heap: the messages that it makes of a known profile; damaged ones. pprof itself
reads them in tests/dropin/heap_pprof.

usage: heap_test.py NEARCPU [TEST...]
"""
import math
import os
import re
import subprocess
import unittest

import command
import terminal

HEAD = "heap profile: 7: 1700 [010: 1000] @ heapz_v2/%d\n"
SAMPLES = ("3: 300 [5: 500] @ 0x401001 0x401101 0x7f0000001001\n"
           "0: 0 [2: 64] @ 0x401101 0x402001\n"
           "4: 4 [4: 4] @ 0x401001\n")
MAPS = ("\nMAPPED_LIBRARIES:\n"
        "00400000-00401000 r--p 00000000 fe:00 12         /opt/a program\n"
        "00401000-00402000 r-xp 00001000 fe:00 12         /opt/a program\n"
        "7f0000000000-7f0000010000 rwxp 00000000 00:00 0 \n")
WHOLE = HEAD % 1 + SAMPLES + MAPS


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [value...]} of a message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        elif key & 7:
            raise AssertionError(f"wire type {key & 7}")
        found.setdefault(key >> 3, []).append(value)
    return found


class Profile:
    """What is in a converted file; that every text and id is there is checked on the way."""

    def __init__(self, data):
        all_ = fields(data)
        self.texts = [t.decode() for t in all_[6]]
        self.types = [self.kind(t) for t in all_[1]]
        self.drop, self.default = self.texts[all_[7][0]], self.texts[all_[14][0]]
        self.time, self.period = all_[9][0], all_[12][0]
        self.period_type = self.kind(all_[11][0])
        self.mappings, places = {}, {}
        for m in map(fields, all_.get(3, [])):
            self.mappings[m[1][0]] = (m[2][0], m[3][0], m.get(4, [0])[0],
                                      self.texts[m[5][0]], self.texts[m[6][0]])
        for place in map(fields, all_.get(4, [])):
            number = place.get(2, [0])[0]
            places[place[1][0]] = (place[3][0], self.mappings[number][3] if number else None)
        self.places = sorted(places.values())
        self.samples = []
        for s in map(fields, all_.get(2, [])):
            label, = map(fields, s[3])
            assert self.texts[label[1][0]] == "bytes"
            self.samples.append((s[2], label[3][0], [places[n] for n in s[1]]))

    def kind(self, message):
        message = fields(message)
        return self.texts[message[1][0]], self.texts[message[2][0]]


class Test(command.ScratchCase):
    def profile(self, text):
        return self.write("p.heap", text.encode(), 0o600)

    def convert(self, text):
        result = command.run("heap", self.profile(text), text=False)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return Profile(result.stdout)

    def test_a_known_profile(self):
        path = self.profile(WHOLE)
        os.utime(path, ns=(0, 1700000000123456789))
        p = Profile(command.run("heap", path, text=False).stdout)
        self.assertEqual(p.types, [("alloc_objects", "count"), ("alloc_space", "bytes"),
                                   ("inuse_objects", "count"), ("inuse_space", "bytes")])
        self.assertEqual((p.default, p.period, p.period_type, p.time),
                         ("inuse_space", 1, ("space", "bytes"), 1700000000123456789))
        first, second = (0x401000, "/opt/a program"), (0x401100, "/opt/a program")
        self.assertEqual(p.samples, [
            ([5, 500, 3, 300], 100, [first, second, (0x7f0000001000, "")]),
            ([2, 64, 0, 0], 32, [second, (0x402000, None)]),
            ([4, 4, 4, 4], 1, [first])])
        self.assertEqual(len(p.places), 4)
        self.assertEqual(p.mappings, {
            1: (0x401000, 0x402000, 0x1000, "/opt/a program", ""),
            2: (0x7f0000000000, 0x7f0000010000, 0, "", "")})

    def test_samples_are_scaled(self):
        scale = 1 / (1 - math.exp(-100 / 4096))
        p = self.convert(HEAD % 4096 + SAMPLES + MAPS)
        self.assertEqual(p.period, 4096)
        for value, sampled in zip(p.samples[0][0], (5, 500, 3, 300)):
            self.assertLessEqual(abs(value - sampled * scale), 1)

    def test_numbers_that_are_too_large(self):
        most = 2**63 - 1
        line = f"1: 1 [{most}: {most}] @ 0x2\n"
        p = self.convert(HEAD % most + line + MAPS)
        self.assertEqual(p.samples[0][0], [most, most, most, most])
        for line in (f"1: 1 [{most + 1}: 1] @ 0x1\n", f"1: {2**64} [1: 1] @ 0x1\n"):
            self.damaged(HEAD % 1 + line + MAPS, 2)

    def test_nothing_allocated(self):
        p = self.convert("heap profile: 0: 0 [00: 0] @ heapz_v2/524288\n" + MAPS)
        self.assertEqual((p.samples, p.places, len(p.mappings)), ([], [], 2))

    def test_frames_that_allocate_for_others(self):
        drop = re.compile(self.convert(WHOLE).drop)
        for name in ("operator new", "operator new[]", "std::__new_allocator<int>::allocate",
                     "__gnu_cxx::new_allocator::allocate", "std::_Vector_base::_M_allocate",
                     "std::allocator_traits::allocate", "std::__1::allocator::allocate"):
            self.assertTrue(drop.fullmatch(name), name)
        for name in ("main", "Pool::allocate", "std::vector::push_back", "allocate"):
            self.assertFalse(drop.fullmatch(name), name)

    def test_build_id(self):
        """Of a file that did not change since."""
        tool = os.path.realpath(command.TOOL)
        notes = subprocess.run(["readelf", "-n", tool], capture_output=True, check=True,
                               text=True).stdout
        found = re.search(r"Build ID: ([0-9a-f]+)", notes)
        ino = os.stat(tool).st_ino
        for inode, when, answer in ((ino, None, found[1] if found else ""),
                                    (ino + 1, None, ""), (ino, 1000000000, "")):
            path = self.profile(WHOLE + f"1000-2000 r-xp 0 0:0 {inode} {tool}\n")
            if when:
                os.utime(path, (when, when))
            p = Profile(command.run("heap", path, text=False).stdout)
            self.assertEqual(p.mappings[3], (0x1000, 0x2000, 0, tool, answer))

    def damaged(self, text, line=None):
        result = command.run("heap", self.profile(text))
        self.assertEqual(result.stdout, "")
        if line == 1:
            self.expect(result, 1, "is no heap profile of nearcpu-malloc")
        else:
            self.expect(result, 1, f"is damaged, in line {line or ''}")

    def test_damaged(self):
        for text in ("", "\n", "hello\n", "\0" * 100000, WHOLE[1:], HEAD % 0 + SAMPLES + MAPS,
                     WHOLE.replace("/1\n", "/1 x\n"),
                     WHOLE.replace("heapz_v2", "heap_v2")):
            self.damaged(text, 1)
        for bad in ("3: 300 [5: 500] @\n", "3: 300 [5: 500] @ 0x1\n", "0: 0 [0: 5] @ 0x2\n",
                    "3: 300 [5: 500] @ 0x0\n", "3: 300 [5: 500]\n",
                    "0: 300 [5: 500] @ 0x2\n", "6: 300 [5: 500] @ 0x2\n", "-1: 3 [5: 5] @ 0x2\n",
                    "3: 300 [5: 500] @ 0x2 x\n", "3: 300 [5: 500] @ 0x" + "f" * 17 + "\n",
                    "1: 1 [1: 1] @" + " 0x2" * 9999 + "\n", "1: 1 [1: 1] @ 0x2\0\n"):
            self.damaged(HEAD % 1 + bad + MAPS, 2)
        for bad in ("2000-1000 r-xp 0 0:0 1 x\n", "1000-2000 r-xp 0 0:0\n", "x\n", "\n"):
            self.damaged(WHOLE + bad, 10)

    def test_cut_off(self):
        """Anywhere but between two mappings, which cannot be known."""
        for n in range(1, len(WHOLE)):
            part = WHOLE[:n]
            if part.endswith("\n") and "MAPPED_LIBRARIES:\n" in part:
                self.convert(part)
            else:
                self.damaged(part, 1 if part.count("\n") == 0 else None)

    def test_output(self):
        path = self.profile(WHOLE)
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                self.expect(command.run("heap", path, stdout=full), 1, "No space left")
        reads, writes = os.pipe()
        os.close(reads)
        self.expect(command.run("heap", path, stdout=writes), 1, "closed before all was written")
        os.close(writes)

    def test_a_terminal_gets_nothing(self):
        ours, theirs = terminal.open_terminal(self)
        path = self.profile(WHOLE)
        self.expect(command.run("heap", path, stdout=theirs), 2, "redirect standard output")
        os.close(ours)
        os.close(theirs)

    def test_wrong_usage(self):
        self.expect(command.run("heap"), 2, "no file given")
        self.expect(command.run("heap", "a", "b"), 2, "one file at a time")
        self.expect(command.run("heap", "--no-such"), 2, "there is no option '--no-such'")
        self.expect(command.run("heap", self.path("none")), 1, "cannot open", "No such file")
        self.expect(command.run("heap", self.dir), 1, "cannot read", "Is a directory")
        self.assertIn("usage: nearcpu heap", command.run("heap", "--help").stdout)


if __name__ == "__main__":
    command.main()
