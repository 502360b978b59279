# SPDX-License-Identifier: MIT
"""Faults that are put in: each must be found, and must change the key of a unit, so that the record
does not hide it."""

from build import addr2line, program
from content import Content, digest
from cpu import CPUS
from explore import Enough
from image import Image
from scenario import read_ops
from suite import Suite
from units import Units

# On the first CPU all of them, on the others those that depend on how the CPU's header spells its
# operations.
ALL = ("two_stores", "commit_not_last", "index_outside", "no_live_check", "no_registration_check",
       "no_state_check", "no_gate_check", "passes_closed_gate", "no_first_fence",
       "no_second_fence", "forgotten")
OF_A_HEADER = ("two_stores", "commit_not_last", "no_live_check", "passes_closed_gate")


class Fault:
    def __init__(self, cpu, compiler, directory, name, record):
        self._cpu, self._compiler, self._directory = cpu, compiler, directory
        self.name, self._record = name, record
        built = program(compiler, directory, name)
        self._image = Image(built.path, CPUS[cpu], addr2line(compiler))
        self._content = Content(built)

    def changes_a_key(self, sound):
        return self._static(self._image, self._content) != sound

    @staticmethod
    def _static(image, content):
        ops = read_ops(image)
        pairs = [(a, b) for a in ops for b in ops if a.object == b.object]
        return Units(image, content, "").static(pairs)

    @classmethod
    def sound(cls, cpu, compiler, directory):
        """What the same has without a fault."""
        built = program(compiler, directory)
        return cls._static(Image(built.path, CPUS[cpu], addr2line(compiler)), Content(built))

    def find(self, explores):
        """What found it, or None. `explores`: also if the record has this program."""
        key = digest(self._record.environment, self._content.hash_of(self._content.all_parts()))
        unit = ["fault", self._cpu, self.name]
        entry = self._record.find(unit, key)
        if not entry or explores:
            before = self._record.old.get(tuple(unit), {}).get("by")
            entry = {"unit": unit, "key": key, **self._explore(before)}
        if entry["found"]:
            self._record.keep(entry)
        return entry["found"]

    def _explore(self, before):
        """`before`: the pair that found it when it was recorded, which comes first."""
        suite = Suite(self._image, None, max_failures=1)
        failures = suite.explorer.failures
        try:
            for problem in self._image.problems:
                suite.explorer.fail(problem)
            for known in suite.trace(suite.ops).values():
                suite.knowledge.add(known)
            suite.check_table()
            pairs = suite.pairs()
            suite.play([p for p in pairs if [p[0].name, p[1].name] == before])
            suite.play(pairs)
            suite.play_stragglers(pairs)
            suite.check_coverage()
        except Enough:
            pass
        by = suite.explorer.failed
        return {"found": failures[0] if failures else None, "by": by and [op.name for op in by]}
