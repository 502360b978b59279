# SPDX-License-Identifier: MIT
"""The keys of units: hashes of what their runs can depend on (record.py)."""

from content import digest
from kernel import Killed
from machine import Machine
from scenario import BY_CID, BY_CPU, BY_NODE, REFUSED

# What the emulator calls. They go by the tables, of which only the entries of a unit count.
ENTRIES = ("main", "emu_return", "emu_reset", "emu_op", "emu_op_in_vfork", "emu_observe",
           "ops_enter")
TABLES = ("ops", "ops_kinds")
POINTER, OP = 8, 24
READS, WRITES, STORES = 1, 2, 4


class Units:
    def __init__(self, image, content, environment):
        """`environment`: digest of what all units depend on."""
        self._image, self._content = image, content
        self._tables = [content.part_of(table) for table in TABLES]
        self._entries = [content.part_of(entry) for entry in ENTRIES]
        self._begins = content.begins()
        self._environment = digest(environment, self._start())

    def _start(self):
        """The hash of what runs until the process has started, in each mode."""
        blocks = set()
        for mode in (BY_CID, BY_CPU, BY_NODE, REFUSED):
            machine = Machine(self._image, mode.nodes, mode.environment)
            machine.hook_blocks(blocks.add)
            try:
                machine.boot(mode.refuse)
            except Killed:
                pass  # the first scenario will say so
            finally:
                machine.close()
        parts = {self._content.part_at(block) for block in blocks} - {None}
        return self._content.hash_of(self._content.with_data(parts))

    def _parts(self, *ops):
        """What operations on one object can reach."""
        roots = list(self._entries) + self._content.pointers_in("ops_kinds", ops[0].object, POINTER)
        for op in ops:
            roots += [part for part in self._content.pointers_in("ops", op.number, OP)
                      if part[0].is_code]
        return self._content.closure(roots, lambda part: part not in self._tables)

    def _key(self, ops, *more):
        texts = [f"{op.name} {op.object} {op.flags}" for op in ops]
        return digest(self._environment, self._content.hash_of(self._parts(*ops)), *texts, *more)

    def traced(self, op):
        return self._key((op,))

    def played(self, a, b, knowledge):
        """`knowledge`: of all operations on the object."""
        return self._key((a, b), *self._known(self._parts(a, b), knowledge))

    def _known(self, parts, knowledge):
        """What the schedules go by, of what is in these parts or in the C library."""
        found = {f"event {self._content.position(pc)}" for pc in knowledge.events
                 if self._is_in(pc, parts)}
        found |= {f"{flags_of(i)} {i.size} {self._content.position(pc)}"
                  for pc, i in knowledge.instructions.items() if self._is_in(pc, parts)}
        return sorted(found)

    def _is_in(self, pc, parts):
        part = self._content.part_at(pc)
        return part is None or part in parts

    def rest(self, keys, uncovered):
        """Of what is played when all units were, at what is uncovered then."""
        return digest(*sorted(keys), *self._sequences(),
                      *sorted(str(self._content.position(pc)) for pc in uncovered))

    def _sequences(self):
        """Of all that there are, run by any operation or by none."""
        return sorted(self._content.hash_of([self._content.part_at(s.start)])
                      for s in self._image.sequences)

    def static(self, pairs):
        """Of each pair what its key has of the program's content; and of all sequences."""
        of_pairs = {(a.name, b.name): self._key((a, b)) for a, b in pairs}
        return {**of_pairs, "sequences": digest(*self._sequences())}

    # Addresses in the record: by section, since one has many.

    def pack(self, values):
        """Of {address: what is to be kept of it}."""
        packed = {}
        for pc, value in sorted(values.items()):
            label, offset = self._content.position(pc)
            packed.setdefault(label, []).append([offset, *value])
        return packed

    def unpack(self, packed):
        return {self._begins[label] + offset: value
                for label, entries in packed.items() for offset, *value in entries}


def flags_of(instruction):
    return (READS * instruction.reads | WRITES * instruction.writes | STORES * instruction.stores)
