# SPDX-License-Identifier: MIT
"""What all schedules share: where to stop a thread, what must come out, what was covered."""

from collections import Counter
from dataclasses import dataclass

from scenario import NOT_LIVE, WAITS


class Enough(Exception):
    """There are failures enough to show."""


@dataclass(frozen=True)
class Way:
    """How A's operation is run."""
    name: str = "a thread"
    thread: str = "a"  # of Scenario
    function: str = "emu_op"


THREAD = Way()
VFORK_CHILD = Way("the child of a vfork", function="emu_op_in_vfork")
REFUSED_THREAD = Way("a thread that is not registered", thread="refused")


def nowhere(_pc, _size):
    return False


class Explorer:
    """Over all scenarios of one program."""

    def __init__(self, image, knowledge, max_failures):
        self.image, self.knowledge, self.max_failures = image, knowledge, max_failures
        # A sequence's end is a boundary too: there, nothing may be undone any more.
        self.inside = {pc: s for s in image.sequences for pc in range(s.start, s.end + 1)}
        self.aborted = set()  # addresses, by all schedules or what the record has
        self.aborts = {}  # those of each pair that was played
        self.harassed = None  # addresses; A is aborted besides, once, where it comes to one
        self.failures = []
        self.failed = None  # the pair that the last failure is of
        self.runs = Counter()
        self.runs_of = Counter()  # by pair

    def hook(self, machine):
        """Makes the machine call back before each instruction of functions with sequences, and
        before each that touches per-CPU data."""
        ranges = sorted({self.image.function_at(s.start) for s in self.image.sequences})
        for start, end in ranges:
            machine.hook_code(start, end)
        for pc in sorted(self.knowledge.events):
            if not any(start <= pc < end for start, end in ranges):
                machine.hook_code(pc, pc + 1)

    def uncovered(self):
        """Boundaries at which no sequence was ever aborted: also those behind a gap, where nothing
        was executed yet."""
        pcs = set(self.knowledge.instructions)
        for sequence in self.image.sequences:
            _, gap = self.knowledge.boundaries(sequence)
            if gap is not None:
                pcs.add(gap)
        return pcs.difference(self.aborted, *self.aborts.values())

    # Where to stop: functions for Machine.on_code and on_fence. n counts from 0.

    def at_boundary(self, n):
        def on_code(pc, size):
            nonlocal n
            sequence = self.inside.get(pc)
            if not sequence:
                return False
            if pc < sequence.end:
                self.knowledge.learn(pc, size, sequence)
            n -= 1
            return n < 0
        return on_code

    def outside(self, n):
        """Before the n-th instruction that is in no sequence."""
        def on_code(pc, _size):
            nonlocal n
            if pc in self.inside:
                return False
            n -= 1
            return n < 0
        return on_code

    def at_commit(self):
        def on_code(pc, size):
            sequence = self.inside.get(pc)
            return sequence is not None and pc + size == sequence.end
        return on_code

    def at_event(self, n):
        """Before B's n-th access to per-CPU data, or membarrier."""
        def on_fence():
            nonlocal n
            n -= 1
            return n < 0

        def on_code(pc, _size):
            return pc in self.knowledge.events and on_fence()
        return on_code, on_fence

    def or_harassed(self, other):
        def on_code(pc, size):
            sequence = self.inside.get(pc)
            if sequence and pc < sequence.end:
                if pc not in self.knowledge.instructions:
                    self.harassed.add(pc)
                self.knowledge.learn(pc, size, sequence)
            return pc in self.harassed or other(pc, size)
        return on_code

    def fail(self, text):
        self.failures.append(text)
        if len(self.failures) >= self.max_failures:
            raise Enough

    def describe(self, pc):
        sequence = self.inside.get(pc)
        return f"{pc:#x} ({sequence.name})" if sequence else f"{pc:#x}"


class Case:
    """Operations A and B in a scenario."""

    def __init__(self, explorer, scenario, a, b, way=THREAD):
        self.explorer, self.scenario, self.a, self.b, self.way = explorer, scenario, a, b, way
        self.task_a, self.task_b = getattr(scenario, way.thread), scenario.b
        self.at = []  # where threads were stopped
        self._orders = {}
        scenario.kernel.aborted = explorer.aborts.setdefault((a, b), set())

    def start_a(self):
        self.scenario.start(self.task_a, 0, self.a, self.way.function)

    def start_b(self, task=None):
        self.scenario.start(task or self.task_b, 1, self.b)

    def begin(self):
        self.scenario.begin()
        self.at = []
        self.start_a()

    def stop_a(self, on_code):
        """Runs A up to there. False: it came to its end before."""
        return self._run_a(on_code) == "held" and self._note_a()

    def stop_a_at_event(self, n):
        stopped = self.scenario.run(self.task_a, *self.explorer.at_event(n)) == "held"
        return stopped and self._note_a()

    def _note_a(self):
        self.at.append(self.task_a.active().pc)
        return True

    def _run_a(self, on_code):
        """Runs A, aborting it at harassed addresses."""
        harassed = self.explorer.harassed
        if not harassed:
            return self.scenario.run(self.task_a, on_code)
        on_code = self.explorer.or_harassed(on_code)
        while (why := self.scenario.run(self.task_a, on_code)) == "held":
            pc = self.task_a.active().pc
            if pc not in harassed:
                break
            harassed.discard(pc)
            self.scenario.switch(self.task_a)
        return why

    def take_a(self):
        """Another part of the program ends the registration of A's thread: by a signal handler,
        which aborts a sequence."""
        self.scenario.switch(self.task_a)
        self.scenario.kernel.unregister(self.task_a)

    def preempt_a(self, place=None):
        aborted = self.scenario.switch(self.task_a)
        self.move_a(place)
        return aborted

    def move_a(self, place):
        if place:
            self.scenario.kernel.move(self.task_a.active(), place)

    def all_of_b(self, place):
        """Runs B on another place than where it waits, after a context switch. Only an operation
        that is meant to wait may wait for A, which is in a sequence and so holds no lock."""
        self.b_until_it_waits(place)
        if not self.b.flags & WAITS:
            self.scenario.finish(self.task_b)

    def b_until_it_waits(self, place):
        """The same where A may hold a lock: B then stays at it, unless it finds that it need not
        wait."""
        self.scenario.switch(self.task_b, place)
        self.start_b()
        self.scenario.run(self.task_b)

    def finish(self):
        """Both go on to their ends, A first."""
        if self.explorer.harassed and self.task_a.started:
            self._run_a(nowhere)
        self.scenario.finish(self.task_a, self.task_b)

    def is_live(self):
        """Whether A runs sequences that the kernel watches."""
        return self.way is THREAD and not self.a.flags & NOT_LIVE

    def has_sequences(self, op):
        return op in self.explorer.knowledge.with_sequences

    # What must come out.

    def check(self, kind, orders=None):
        """`orders`: for the two orders of complete operations, the places of A and B; None if only
        conservation can be checked."""
        self.explorer.runs[kind] += 1
        self.explorer.runs_of[self.a, self.b] += 1
        text, problem = self.scenario.outcome(describe=bool(orders))
        if not problem and orders:
            wanted = [self._order(first, *places) for first, places in zip("AB", orders)]
            if text not in wanted:
                problem = "neither order of the two gives this, but\n    " + "\n    ".join(wanted)
        if problem:
            self.fail(kind, f"{problem}\n  It is\n    {text or self.scenario.outcome()[0]}")

    def fail(self, kind, what):
        self.explorer.failed = self.a, self.b
        where = " and ".join(self.explorer.describe(pc) for pc in self.at)
        self.explorer.fail(f"{kind}: {self.a.name} by {self.way.name}, with {self.b.name}, "
                           f"stopped at {where or 'nothing'}\n  ({self.scenario.name}): {what}")

    def _order(self, first, place_a, place_b):
        """What two complete operations give, one after the other."""
        key = (first, place_a, place_b)
        if key not in self._orders:
            self.scenario.begin()
            for actor in "AB" if first == "A" else "BA":
                task, place = (self.task_a, place_a) if actor == "A" else (self.task_b, place_b)
                self.scenario.switch(task, place)
                self.start_a() if actor == "A" else self.start_b()
                self.scenario.finish(task)
            self._orders[key] = self.scenario.outcome()[0]
        return self._orders[key]
