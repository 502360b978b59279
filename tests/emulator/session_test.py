#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a session keeps in the record: after each change, the session that follows explores nothing
and finds everything covered. The suite is played by rule: each pair covers a set of addresses, and
the stragglers cover what is left, if they can.

    session_test.py

Exit status: 0 as it should be, 1 not so, 77 something is missing."""

import random
import sys
from collections import Counter, namedtuple
from types import SimpleNamespace

from emu_test import missing

ADDRESSES = range(40)
Op = namedtuple("Op", "name")


class Explorer:
    def __init__(self):
        self.aborted, self.aborts, self.runs_of, self.failures = set(), {}, Counter(), []
        self.inside = {}

    def uncovered(self):
        return set(ADDRESSES).difference(self.aborted, *self.aborts.values())

    def fail(self, text):
        self.failures.append(text)


class Suite:
    """`world`: {pair: (addresses that it covers, addresses that it covers as a straggler)}."""

    def __init__(self, world):
        self.world, self.explorer = world, Explorer()

    def _cover(self, pair, addresses, runs):
        self.explorer.aborts.setdefault(pair, set()).update(addresses)
        self.explorer.runs_of[pair] += runs

    def play(self, pairs):
        for pair in pairs:
            self._cover(pair, self.world[pair][0], 7)

    def play_stragglers(self, pairs):
        for pair in pairs:
            self._cover(pair, self.world[pair][1] & self.explorer.uncovered(), 1)

    def pairs(self):
        return list(self.world)

    def check_table(self):
        pass

    def check_coverage(self):
        if self.explorer.uncovered():
            self.explorer.fail("uncovered")


class Units:
    pack = staticmethod(lambda values: [[pc, *value] for pc, value in sorted(values.items())])
    unpack = staticmethod(lambda packed: {pc: value for pc, *value in packed})
    rest = staticmethod(lambda keys, uncovered: f"{sorted(keys)} {sorted(uncovered)}")

    def __init__(self, world):
        self._world = world

    def played(self, a, b, _):
        return str(self._world[a, b])


def run(world, entries, turn=None):
    """A session that begins with the record's entries. Returns it, and those that it leaves."""
    from record import Record
    from session import Session

    class Played(Session):
        def __init__(self):
            self.suite, self._units, self._record = Suite(world), Units(world), record
            self.explorer, self._covered, self._by_rest = self.suite.explorer, set(), set()
            self.knowledge = SimpleNamespace(instructions={})
            self.again, self.explored = 0, False

        def _trace(self, turn):
            pass

    record = Record.__new__(Record)
    record.old, record.new = entries, {}
    session = Played()
    session._play_new(turn)
    return session, record.new if session.explored else entries


def change(world, dice):
    """Another world, with the same things covered: by one pair the less, by another the more."""
    world, pairs = dict(world), list(world)
    lost, won = dice.sample(pairs, 2)
    moved = set(dice.sample(ADDRESSES, 12))
    world[lost] = (world[lost][0] - moved, world[lost][1] - moved)
    world[won] = (world[won][0], world[won][1] | moved)
    return world


def check(seed):
    dice = random.Random(seed)
    ops = [Op(name) for name in "abcd"]
    world = {(a, b): (set(dice.sample(ADDRESSES, 12)), set(dice.sample(ADDRESSES, 12)))
             for a, b in zip(ops, ops[1:] + ops[:1])}
    left = set(ADDRESSES).difference(*(covered | rest for covered, rest in world.values()))
    world[ops[0], ops[1]][1].update(left)
    entries = {}
    for step in range(4):
        session, entries = run(world, entries, dice.choice([None, step]))
        if session.explorer.failures:
            return f"seed {seed}, change {step}: {session.explorer.failures}"
        session, entries = run(world, entries)
        if session.explored or session.explorer.failures:
            return f"seed {seed}, after change {step}: explored again {session.explorer.failures}"
        world = change(world, dice)
    return None


def main():
    lacks = missing([])
    if lacks:
        print(f"skipped: {lacks}")
        return 77
    wrong = [text for text in map(check, range(300)) if text]
    for text in wrong[:5]:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
