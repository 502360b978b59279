# SPDX-License-Identifier: MIT
"""A run of the suite, which plays again only what the record does not have."""

from content import Content
from explore import Enough
from kernel import Killed
from scenario import Deadlock
from suite import Suite
from trace import Instruction, Knowledge
from units import READS, STORES, WRITES, Units, flags_of

TURNS = 8  # of which each explores its part of the record again
REST = ("rest",)  # the unit of what is uncovered when all pairs have been played


class Session:
    def __init__(self, image, program, record, inline_sequences=None, max_failures=4):
        self.suite = Suite(image, inline_sequences, max_failures)
        self.explorer, self.knowledge = self.suite.explorer, self.suite.knowledge
        self._by_start = {s.start: s for s in image.sequences}
        self._image, self._record = image, record
        self._content, self._library = Content(program), program.library
        self._units = None
        self._covered = set()  # by what is in the record, or goes into it
        self._by_rest = set()  # of these, what no pair covers
        self.again = 0  # units that the record has and that were explored all the same
        self.explored = False  # whether anything was that the record does not have

    def run(self, turn=None):
        """True: nothing is wrong. `turn`: a number, "all", or None: none of the record again."""
        try:
            for problem in self._image.problems:
                self.explorer.fail(problem)
            self._units = Units(self._image, self._content, self._library,
                                self._record.environment)
            if turn is None and not self._record.has_these_tools():
                self._play_some()
            else:
                self._play_new(turn)
        except Enough:
            pass
        except (Killed, Deadlock) as error:
            self.explorer.failures.append(f"before anything was stopped anywhere: {error}")
        return not self.explorer.failures

    # With other compilers or libraries than those of the record.

    def _play_some(self):
        self._learn(self.suite.trace(self.suite.ops))
        self.suite.check_table()
        pairs = [(a, b) for a, b in self.suite.pairs() if a is b]
        self.suite.play(pairs)
        print(f"{self._image.cpu.name}: each operation with itself only: "
              f"{self._record.other_tools()}")

    # Units.

    def _play_new(self, turn):
        self._trace(turn)
        self.suite.check_table()
        pairs = self.suite.pairs()
        keys = {pair: self._units.played(*pair, self.knowledge) for pair in pairs}
        to_play = [pair for i, pair in enumerate(pairs)
                  if not self._recall(self._name(pair), keys[pair]) or is_turn(i, turn)]
        self._play(to_play, keys)
        self._play_rest(pairs, keys, turn)
        left = [pair for pair in pairs if pair not in to_play]
        if to_play and self.explorer.uncovered():
            self._play(left, keys)  # what covered it in the record does not exist any more
            self._play_rest(pairs, keys, "all")
        self.suite.check_coverage()

    @staticmethod
    def _name(pair):
        return ("pair", pair[0].name, pair[1].name)

    def _trace(self, turn):
        """Of each operation what the record has, or a trace."""
        keys = {op: self._units.traced(op, self.suite.ops[0]) for op in self.suite.ops}
        known = {op: self._record.find(("trace", op.name), keys[op]) for op in self.suite.ops}
        lacks = [op for op in self.suite.ops if not known[op]]
        again = [op for op in self.suite.ops if known[op] and is_turn(op.number, turn)]
        self.explored = bool(lacks)
        traced = self.suite.trace(lacks + again)
        for op in self.suite.ops:
            entry = known[op] or self._entry_of(op, keys[op], traced[op])
            if op in again and self._entry_of(op, keys[op], traced[op]) != entry:
                self.explorer.fail(f"the record of {op.name} is not what its trace shows")
            self._record.keep(entry)
            self._learn({op: self._knowledge_in(op, entry)})
        self.again += len(again)

    def _learn(self, known):
        for one in known.values():
            self.knowledge.add(one)

    def _entry_of(self, op, key, knowledge):
        pack = self._units.pack
        return {"unit": ["trace", op.name], "key": key,
                "begun": pack({s.start: () for s in knowledge.begun.get(op, ())}),
                "commits": op in knowledge.with_sequences,
                "events": pack({pc: () for pc in knowledge.events}),
                "instructions": pack({pc: (i.size, flags_of(i))
                                      for pc, i in knowledge.instructions.items()})}

    def _knowledge_in(self, op, entry):
        unpack, k = self._units.unpack, Knowledge()
        k.begun[op] = {self._by_start[pc] for pc in unpack(entry["begun"])}
        k.with_sequences = {op} if entry["commits"] else set()
        k.events = set(unpack(entry["events"]))
        for pc, (size, flags) in unpack(entry["instructions"]).items():
            k.instructions[pc] = Instruction(size, self.explorer.inside[pc], bool(flags & READS),
                                             bool(flags & WRITES), bool(flags & STORES))
        return k

    def _recall(self, name, key):
        """Whether the record has it; then it counts as covered."""
        entry = self._record.find(name, key)
        if entry:
            covered = self._units.unpack(entry["covered"])
            for pc, (size,) in covered.items():
                if size:
                    self.knowledge.learn(pc, size, self.explorer.inside[pc])
            self._covered |= set(covered)
            self.explorer.aborted |= self._covered
            self._record.keep(entry)
            if name == REST:
                self._by_rest |= set(covered)
        return bool(entry)

    def _play(self, to_play, keys):
        before = self.explorer.runs_of.copy()  # play_stragglers counts, too
        self.suite.play(to_play)
        for pair in to_play:
            entry = self._record.find(self._name(pair), keys[pair])
            runs = self.explorer.runs_of[pair] - before[pair]
            aborts = self.explorer.aborts.get(pair, set())
            if not entry:
                self._keep(self._name(pair), keys[pair], aborts, runs=runs)
                continue
            self.again += 1
            recorded = set(self._units.unpack(entry["covered"]))
            if runs != entry["runs"] or not aborts.issuperset(recorded):
                self.explorer.fail(f"the record of {pair[0].name} with {pair[1].name} is not what "
                                   f"happens: {runs} runs, not {entry['runs']}")
            elif aborts - self._covered:  # what covered it in the record does not exist any more
                self._keep(self._name(pair), keys[pair], aborts, recorded, runs=runs)

    def _keep(self, name, key, aborts, recorded=frozenset(), **more):
        """In the record, with what it covered there and what nothing before it covered."""
        self.explored = True
        new = aborts - self._covered
        self._covered |= new
        sizes = {pc: self.knowledge.instructions.get(pc) for pc in new | recorded}
        covered = self._units.pack({pc: (i.size if i else 0,) for pc, i in sizes.items()})
        self._record.keep({"unit": list(name), "key": key, "covered": covered, **more})
        return new

    def _play_rest(self, pairs, keys, turn):
        """It depends on what no pair covers, and so on everything. What an earlier call of this run
        has found stays in the record: the next run, which has the pairs from there, needs both."""
        key = self._units.rest(keys.values(), self.explorer.uncovered() | self._by_rest)
        if turn != "all" and self._recall(REST, key):
            return
        before = set().union(*self.explorer.aborts.values())
        if self.explorer.uncovered():
            self.suite.play_stragglers(pairs)
        found = set().union(*self.explorer.aborts.values()) - before
        self._by_rest |= self._keep(REST, key, found, frozenset(self._by_rest))


def is_turn(number, turn):
    return turn == "all" or (turn is not None and number % TURNS == turn % TURNS)
