# SPDX-License-Identifier: MIT
"""Which schedules are played where, and what must be true of the whole."""

import schedules
from explore import REFUSED_THREAD, THREAD, VFORK_CHILD, Case, Enough, Explorer
from scenario import (BY_CID, BY_CPU, BY_NODE, FENCES, LONG, NOT_LIVE, REFCOUNT, REFUSED,
                   SIGNAL_SAFE, STACK, TRACE, TWIN, Scenario, read_ops)
from trace import Knowledge, Tracer, broken_rules

OPEN, FALLBACK, EMPTY, KILLED = range(4)
ONLY = {EMPTY: (STACK, TRACE), KILLED: (REFCOUNT, TRACE)}  # what is different in these setups


class Suite:
    def __init__(self, image, inline_sequences, max_failures):
        """`inline_sequences`: names of functions in headers that must be among those run here."""
        self.image = image
        self.inline_sequences = inline_sequences or ()
        self.ops = read_ops(image)
        self.objects = sorted({op.object for op in self.ops})
        self.knowledge = Knowledge()
        self.explorer = Explorer(image, self.knowledge, max_failures)
        self._playing = None  # pairs

    def trace(self, ops):
        """{operation: what it showed}"""
        tracer, known = Tracer(self.image), {op: Knowledge() for op in ops}
        for obj in self.objects:
            of_object = {op: k for op, k in known.items() if op.object == obj}
            for setup in (OPEN, FALLBACK, EMPTY, KILLED) if of_object else ():
                tracer.trace(BY_CID, setup, of_object, self.ops[0])
        return known

    def check_table(self):
        """That the operations run all sequences."""
        run = set().union(*self.knowledge.begun.values())
        idle = [str(sequence) for sequence in self.image.sequences if sequence not in run]
        idle += sorted(set(self.inline_sequences) - {s.name.partition(" ")[0] for s in run})
        for name in idle:
            self.explorer.fail(f"no operation of the table runs the sequence {name}")
        if idle:
            raise Enough

    def check_coverage(self):
        """Of all that was played, now or before."""
        for problem in broken_rules(self.image, self.knowledge):
            self.explorer.fail(problem)
        never = sorted(self.explorer.uncovered())
        if never:
            self.explorer.fail("no abort was tried at\n  " +
                               "\n  ".join(self.explorer.describe(pc) for pc in never))

    def pairs(self):
        """All that may be played."""
        return [(a, b) for a in self.ops for b in self.ops if a.object == b.object]

    def _valid_pairs(self, scenario):
        for a, b in self._playing:
            if a.object == scenario.object and scenario.is_valid(a, b):
                yield a, b

    def _pairs(self, scenario):
        for a, b in self._valid_pairs(scenario):
            if a is b or not (b.flags & TWIN or a.flags & LONG):
                yield a, b

    def _scenarios(self, mode, setup, hook=None):
        """One for each object."""
        for obj in sorted({a.object for a, _ in self._playing}):
            if setup in ONLY and obj not in ONLY[setup]:
                continue
            scenario = Scenario(self.image, mode, setup, obj, hook or self.explorer.hook)
            try:
                yield scenario
            finally:
                scenario.close()

    # The schedules, the quickest to find a fault first.

    def play(self, pairs):
        """All schedules of the pairs."""
        self._playing = pairs
        self._play_stale()
        self._play(BY_CID, OPEN, self._meet)
        for setup in (FALLBACK, EMPTY, KILLED):
            self._play(BY_CID, setup, self._meet)
        for setup in (OPEN, FALLBACK, KILLED):
            self._play(BY_CID, setup, self._meet_in_c)
        for mode in (BY_NODE, BY_CPU):
            for setup in (OPEN, FALLBACK, EMPTY, KILLED):
                self._play(mode, setup, self._meet_itself)
        self._play(REFUSED, OPEN, self._meet_refused)

    def _play(self, mode, setup, meet):
        for scenario in self._scenarios(mode, setup):
            for a, b in self._pairs(scenario):
                meet(scenario, a, b)

    def _case(self, scenario, a, b, way=THREAD):
        return Case(self.explorer, scenario, a, b, way)

    def _meet(self, scenario, a, b):
        case = self._case(scenario, a, b)
        if not schedules.preempted(case, scenario.here):
            return
        if (a.flags | b.flags) & LONG:
            if a is b:
                schedules.taken(case)  # no other operation runs its sequences without a slot
            return
        if b.flags & SIGNAL_SAFE:
            schedules.signalled(case)
        if scenario.setup == OPEN:
            schedules.preempted(case, scenario.elsewhere)
            schedules.twice(case)
            schedules.preempted(self._case(scenario, a, b, VFORK_CHILD), scenario.here)
            schedules.unwatched(case)
        if a is b:
            schedules.moved(case)
            schedules.harried(case)
            schedules.taken(case)
        if scenario.setup == OPEN or b.flags & FENCES:
            schedules.concurrent(case)

    def _meet_in_c(self, scenario, a, b):
        """The slow paths and the closers against each other."""
        if a.object == TRACE and (scenario.setup != OPEN or a.flags & FENCES):
            return  # they take longer than others
        if b.flags & (FENCES | NOT_LIVE) and a.flags & (FENCES | NOT_LIVE | TWIN):
            schedules.crossed(self._case(scenario, a, b))

    def _meet_itself(self, scenario, a, b):
        if a is b and not a.flags & LONG:
            case = self._case(scenario, a, b)
            schedules.preempted(case, scenario.here)
            if scenario.setup == OPEN:
                schedules.preempted(case, scenario.elsewhere)
                schedules.moved(case)
                schedules.unwatched(case)

    def _meet_refused(self, scenario, a, b):
        schedules.preempted(self._case(scenario, a, b, REFUSED_THREAD), scenario.here)
        if a is b:
            schedules.preempted(self._case(scenario, a, b), scenario.here)

    def _play_stale(self):
        def hook(machine):
            self.explorer.hook(machine)
            machine.hook_accesses()
        for scenario in self._scenarios(BY_CID, OPEN, hook):
            for a, b in self._pairs(scenario):
                if b.flags & FENCES and a.object != TRACE:  # its loads depend on each other
                    schedules.stale(self._case(scenario, a, b))

    # Coverage.

    def play_stragglers(self, pairs):
        """A boundary that only a special interleaving leads to, such as the branch behind a gate
        that was just closed: A is aborted there when it reaches it."""
        self._playing = pairs
        for mode in (BY_CID, BY_NODE):
            for setup in (FALLBACK, OPEN, EMPTY, KILLED):
                self.explorer.harassed = self.explorer.uncovered()
                if not self.explorer.harassed:
                    return
                for scenario in self._scenarios(mode, setup):
                    self._harass(scenario)
        self.explorer.harassed = None

    def _harass(self, scenario):
        for a, b in self._valid_pairs(scenario):
            case = self._case(scenario, a, b)
            for schedule, is_useful in ((lambda: schedules.preempted(case, scenario.here), True),
                                        (lambda: schedules.moved(case), a is b),
                                        (lambda: schedules.concurrent(case), b.flags & FENCES),
                                        (lambda: schedules.between(case), b.flags & FENCES)):
                if is_useful and self._is_left(a):
                    schedule()
                    self.explorer.harassed &= self.explorer.uncovered()

    def _is_left(self, a):
        """Whether A comes to a sequence that has harassed boundaries."""
        begun = self.knowledge.begun.get(a, ())
        return any(self.explorer.inside[pc] in begun for pc in self.explorer.harassed)

    # What was done.

    def summary(self):
        boundaries = sum(len(self.knowledge.boundaries(s)[0]) for s in self.image.sequences)
        aborted = self.explorer.aborted.union(*self.explorer.aborts.values())
        runs = self.explorer.runs
        kinds = ", ".join(f"{kind} {runs[kind]}" for kind in sorted(runs))
        return (f"{self.image.cpu.name}: {len(self.image.sequences)} sequences, "
                f"{boundaries} boundaries, aborts at {len(aborted)}; "
                f"{sum(runs.values())} runs{f' ({kinds})' if kinds else ''}")
