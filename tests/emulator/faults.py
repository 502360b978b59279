# SPDX-License-Identifier: MIT
"""Faults that are put in: each must be found, and must change the key of the unit that finds it, so
that the record does not hide it."""

import build
from content import Content, digest
from cpu import CPUS
from explore import Enough
from image import Image
from kernel import Killed
from scenario import Deadlock
from suite import Suite
from units import Units

# On the first CPU all of them, on the others those that depend on how the CPU's header spells its
# operations.
ALL = ("two_stores", "commit_not_last", "index_outside", "no_live_check", "no_registration_check",
       "no_state_check", "no_gate_check", "passes_closed_gate", "no_first_fence",
       "no_second_fence", "forgotten")
OF_A_HEADER = ("two_stores", "commit_not_last", "no_live_check", "passes_closed_gate")


def _load(cpu, compiler, directory, name=None):
    """(image, content, units) of the program with this fault, or without any."""
    program = build.program(compiler, directory, name)
    image, content = Image(program.path, CPUS[cpu], build.addr2line(compiler)), Content(program)
    return image, content, Units(image, content, program.library, "")


def sound(cpu, compiler, directory):
    """The units of the program without a fault."""
    return _load(cpu, compiler, directory)[2]


class Fault:
    def __init__(self, cpu, compiler, directory, name, record):
        self.name, self._record = name, record
        self._image, content, self._units = _load(cpu, compiler, directory, name)
        key = digest(record.environment, content.hash_of(content.all_parts()))
        self._unit = {"unit": ["fault", cpu, name], "key": key}
        self._entry = self._recorded = record.find(self._unit["unit"], key)
        self.explored = False

    def explore(self, again, some=False):
        """Unless the record has it. `again`: all the same. `some`: no pair that did not find it
        when it was recorded, but each operation with itself. Returns what found it, or None."""
        if again or not self._entry:
            self.explored = True
            self._entry = {**self._unit, **self._explore(some)}
        if self._entry["found"] and not some:
            self._record.keep(self._entry)
        return self._entry["found"]

    def is_as_recorded(self):
        return self._recorded in (None, self._entry)

    def is_hidden(self, sound_units):
        """Whether the unit that found it has the same key without it. Where no pair did, it was a
        check of all sequences."""
        if self._entry["by"]:
            return not self._units.differs(sound_units, self._entry["by"])
        return not self._units.has_other_sequences(sound_units)

    def _explore(self, some):
        suite = Suite(self._image, None, max_failures=1)
        failures = suite.explorer.failures
        try:
            self._play(suite, some)
        except Enough:
            pass
        except (Killed, Deadlock) as error:
            failures.append(f"before anything was stopped anywhere: {error}")
        by = suite.explorer.failed
        return {"found": failures[0] if failures else None, "by": by and [op.name for op in by]}

    def _play(self, suite, some):
        for problem in self._image.problems:
            suite.explorer.fail(problem)
        for known in suite.trace(suite.ops).values():
            suite.knowledge.add(known)
        suite.check_table()
        pairs = suite.pairs()
        before = self._record.old.get(tuple(self._unit["unit"]), {}).get("by")
        suite.play([p for p in pairs if [p[0].name, p[1].name] == before])
        suite.play([(a, b) for a, b in pairs if a is b or not some])
        if not some:
            suite.play_stragglers(pairs)
            suite.check_coverage()
