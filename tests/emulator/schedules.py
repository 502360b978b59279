# SPDX-License-Identifier: MIT
"""The schedules: where operation A is stopped, what B does then, and where both continue.

A boundary is a place before an instruction of a sequence, or right behind its commit. An event is a
place before an instruction that touches per-CPU data, or before a membarrier."""

from itertools import count

from kernel import Killed
from scenario import FENCES, NOT_LIVE, STACK, TRACE, Deadlock

HARRIED_LIMIT = 2000
LAST = 1 << 30  # an event that does not come


def each(kind, case, play):
    """Plays n = 0, 1, 2 ... until play() finds no n-th place to stop at. Returns whether there was
    one at all."""
    for n in count():
        try:
            if not play(n):
                return n > 0
        except (Killed, Deadlock) as error:
            case.explorer.runs[kind] += 1
            case.fail(kind, str(error))


def both_here(case):
    """The two orders on one slot, if A is one step."""
    here = case.scenario.here
    if case.b.flags & FENCES and case.a.object == TRACE and not case.is_live():
        return None  # the end of a session drops events that are in C code
    return ((here, here), (here, here)) if case.scenario.is_one_step(case.a) else None


def preempted(case, back):
    """A is preempted at a boundary, B runs on the same slot, A goes on at `back`."""
    scenario = case.scenario
    orders = both_here(case) and ((scenario.here, scenario.here), (back, scenario.here))

    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.at_boundary(n)):
            return False
        case.preempt_a()
        case.all_of_b(scenario.here)
        case.move_a(back)
        case.finish()
        case.check("preempted", orders)
        return True
    return each("preempted", case, play)


def signalled(case):
    """A signal handler of A's own thread runs B at a boundary."""
    scenario = case.scenario
    # A handler over a thread that is not live is not live either, which no order shows.
    orders = None if case.a.flags & NOT_LIVE else both_here(case)

    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.at_boundary(n)):
            return False
        case.preempt_a()
        handler = scenario.machine.handler_over(case.task_a)
        case.start_b(handler)
        scenario.finish(handler)
        scenario.finish(case.task_a)
        case.check("signalled", orders)
        return True
    return each("signalled", case, play)


def taken(case):
    """At a boundary, A's thread loses its registration; B runs on the same slot before it goes on.
    """
    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.at_boundary(n)):
            return False
        case.take_a()
        case.all_of_b(case.scenario.here)
        case.finish()
        case.check("taken")
        return True
    return each("taken", case, play)


def unwatched(case):
    """A's thread has lost its registration before. B runs at a boundary, on the slot that the ids
    which the kernel left behind name: nothing aborts A."""
    def play(n):
        case.begin()
        case.take_a()
        if not case.stop_a(case.explorer.at_boundary(n)):
            return False
        case.all_of_b(case.scenario.here)
        case.finish()
        case.check("unwatched")
        return True
    return each("unwatched", case, play)


def twice(case):
    """A is aborted at its first boundary; B comes at a boundary of what it does then."""
    orders = both_here(case)

    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.at_boundary(0)):
            return False
        case.preempt_a()
        if not case.stop_a(case.explorer.at_boundary(n)):
            return False
        case.preempt_a()
        case.all_of_b(case.scenario.here)
        case.finish()
        case.check("twice", orders)
        return True
    return each("twice", case, play)


def moved(case):
    """A is preempted outside of sequences and continues elsewhere. When it is about to commit
    there, B runs on the slot that A left: what A has loaded from that slot is outdated then."""
    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.outside(n)):
            return False
        case.preempt_a(case.scenario.elsewhere)
        if case.stop_a(case.explorer.at_commit()):
            case.b_until_it_waits(case.scenario.here)
        case.finish()
        case.check("moved")
        return True
    return each("moved", case, play)


def between(case):
    """A is preempted outside of sequences, B runs on the same slot, and A goes on there: what it is
    about to rely on has changed."""
    def play(n):
        case.begin()
        if not case.stop_a(case.explorer.outside(n)):
            return False
        case.preempt_a()
        case.b_until_it_waits(case.scenario.here)
        case.finish()
        case.check("between")
        return True
    return each("between", case, play)


def pairs_of_places(kind, case, play_to):
    """Plays play_to(n, event) for all n and, for each, all events. It returns None: there is no
    n-th place in A; False: B came to its end before the event."""
    def play(n):
        for event in count():
            played = play_to(n, event)
            if not played:
                return played is not None
    return each(kind, case, play)


def concurrent(case):
    """A is at a boundary. B, on another CPU and slot, runs up to an event, so that its fences
    abort A, but nothing else does. Then A runs to its end, and B after it."""
    scenario, explorer = case.scenario, case.explorer
    fences = case.b.flags & FENCES
    strict = scenario.is_one_step(case.a) and case.a.object != STACK and not fences
    orders = ((scenario.here, scenario.elsewhere),) * 2 if strict else None
    # A commit on another slot, or in a fallback slot, does not interleave with A's sequence.
    interleaves = fences or not (case.has_sequences(case.b) or case.b.flags & NOT_LIVE)

    def first_event():
        """Between two accesses of A to per-CPU data, a B that is stopped midway cannot observe
        where A is: the last of these boundaries is enough. A whole B runs at each."""
        pc = case.task_a.active().pc
        touches = pc in explorer.knowledge.events or pc == explorer.inside[pc].end
        return 0 if interleaves and touches else LAST

    def play_to(n, event):
        case.begin()
        if not case.stop_a(explorer.at_boundary(n)):
            return None
        event = max(event, first_event())
        case.start_b()
        ended = scenario.run(case.task_b, *explorer.at_event(event)) != "held"
        case.at.append(case.task_b.pc)
        case.finish()
        case.check("concurrent", orders)
        return not ended
    return pairs_of_places("concurrent", case, play_to)


def crossed(case):
    """C code against C code: A and B, on two CPUs, are each at an event; A continues first."""
    def play_to(n, event):
        case.begin()
        if not case.stop_a_at_event(n):
            return None
        case.start_b()
        ended = case.scenario.run(case.task_b, *case.explorer.at_event(event)) != "held"
        case.at.append(case.task_b.pc)
        case.finish()
        case.check("crossed")
        return not ended
    return pairs_of_places("crossed", case, play_to)


def harried(case):
    """A is aborted at every boundary that it comes to, as by a debugger that steps: it must come to
    an end all the same."""
    def play(n):
        if n:
            return False
        case.begin()
        aborts = 0
        while case.stop_a(case.explorer.at_boundary(0)):
            aborts += case.preempt_a()
            if len(case.at) > HARRIED_LIMIT:
                del case.at[2:]
                case.fail("harried", f"no end after {aborts} aborts")
                return True
        case.check("harried")
        return aborts > 0
    return each("harried", case, play)


class StaleLoad:
    """Makes the instruction at `pc` load the content of per-CPU memory at the time of `old`,
    once, and only in the sequence that has begun: another attempt loads again."""

    def __init__(self, case, sequence, pc, old):
        self._memory, self._sequence, self._pc = case.scenario.machine.memory, sequence, pc
        self._old = old
        self._due = False
        self._undo = None
        case.scenario.machine.on_access = self._access

    def on_code(self, pc, _size):
        if self._undo:
            self._memory.write(*self._undo)
            self._undo = None
        if pc not in self._sequence:
            self._pc = None
        self._due = pc == self._pc
        return False

    def _access(self, is_write, address, size):
        # Called before the access takes place: what is written here is what will be loaded.
        if not self._due or is_write:
            return
        for start, old in self._old.items():
            if start <= address < start + len(old):
                self._due, self._pc = False, None
                self._undo = address, bytes(self._memory.view[address:address + size])
                self._memory.write(address, old[address - start:address - start + size])


def stale(case):
    """A weakly ordered CPU. B runs to an event; A's sequence begins, and one of its loads is done
    first, ahead of all before it. B runs on to a later event, and A continues with what it loaded,
    unless a fence of B aborted it. Loads whose address comes from another load are not moved."""
    scenario, explorer = case.scenario, case.explorer
    seen = None

    def begin(n):
        case.begin()
        case.start_b()
        return (scenario.run(case.task_b, *explorer.at_event(n)) == "held" and
                case.stop_a(explorer.at_boundary(0)))

    def play_load(n, load, later):
        begin(n)
        begun = case.task_a.pc
        old = StaleLoad(case, explorer.inside[begun], load, scenario.slot_contents(scenario.here))
        ended = scenario.run(case.task_b, *explorer.at_event(later)) != "held"
        if case.task_a.pc != begun:
            return False
        case.at += [load, case.task_b.pc]
        scenario.run(case.task_a, old.on_code)
        case.finish()
        case.check("stale")
        return not ended

    def play(n):
        nonlocal seen
        if not begin(n):
            return False
        # Where B neither wrote nor fenced since the last n, this one shows nothing new.
        state = scenario.kernel.fences, scenario.slot_contents(scenario.here)
        if state != seen:
            seen = state
            for load in explorer.knowledge.loads(explorer.inside[case.task_a.pc]):
                later = count()
                while play_load(n, load, next(later)):
                    pass
        return True
    return each("stale", case, play)
