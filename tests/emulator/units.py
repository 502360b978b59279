# SPDX-License-Identifier: MIT
"""The keys of units: hashes of what their runs can depend on (record.py)."""

from content import digest
from kernel import Killed
from machine import Machine
from scenario import BY_CID, BY_CPU, BY_NODE, REFUSED, read_ops

# What the emulator calls. They index the tables, of which only the entries of a unit count; of
# the answers that `main` makes from them, those about a unit.
ENTRIES = ("main", "emu_return", "emu_reset", "emu_op", "emu_op_in_vfork", "emu_observe",
           "ops_enter")
TABLES = ("ops", "ops_count", "ops_kinds")
POINTER, OP = 8, 24
READS, WRITES, STORES = 1, 2, 4


class Units:
    def __init__(self, image, content, library, environment):
        """`library`: the C library's archive; `environment`: digest of what all units depend on."""
        self._image, self._content = image, content
        self._tables = [content.part_of(table) for table in TABLES]
        self._entries = [content.part_of(entry) for entry in ENTRIES] + content.replaced(library)
        self._begins = content.begins()
        self.ops = read_ops(image)
        self._environment = environment
        self._started = self._start()

    def _start(self):
        """The hash of what the process has executed until it has started, in each mode, with the
        data of that; and of all that can be reached by the pointers that it has left in the C
        library's memory. A variable of the program is from then on what it also points to."""
        blocks, roots = set(), set()
        # What each key has anyway need not be found: `main` runs many blocks.
        common = self._content.closure(self._entries, self._is_no_table)
        for mode in (BY_CID, BY_CPU, BY_NODE, REFUSED):
            machine = Machine(self._image, mode.nodes, mode.environment)
            for begin, end in self._content.code_without(common):
                machine.hook_blocks(begin, end, blocks.add)
            try:
                machine.boot(mode.refuse)
                roots |= self._pointers_left_by(machine)
            except Killed:
                pass  # the first scenario will say so
            finally:
                machine.close()
        executed = {self._content.part_at(block) for block in blocks} - {None}
        return self._content.hash_of(self._content.with_data(executed, self._tables) |
                                     self._content.closure(roots, self._is_no_table))

    def _pointers_left_by(self, machine):
        """What those point to that are not in a variable of the program."""
        roots = set()
        for address, word in machine.written_words():
            part, to = self._content.part_at(address), self._content.part_at(word)
            if part and to:
                self._content.add_pointer(part, to)
            elif to:
                roots.add(to)
        return roots

    def _is_no_table(self, part):
        return part not in self._tables

    def _parts(self, *ops):
        """What operations on one object can reach."""
        roots = list(self._entries) + self._content.pointers_in("ops_kinds", ops[0].object, POINTER)
        for op in ops:
            roots += [part for part in self._content.pointers_in("ops", op.number, OP)
                      if part[0].is_code]
        return self._content.closure(roots, self._is_no_table)

    def _of_program(self, *ops):
        """What a key has of the program, without its start."""
        texts = [f"{op.name} {op.object} {op.flags}" for op in ops]
        return self._content.hash_of(self._parts(*ops)), *texts

    def _key(self, ops, *more):
        return digest(self._environment, self._started, *self._of_program(*ops), *more)

    def traced(self, op, other):
        """`other`: the operation with which it must be able to run (trace.py)."""
        return self._key((op,), f"{other.object} {other.flags}")

    def played(self, a, b, knowledge):
        """`knowledge`: of all operations."""
        return self._key((a, b), *self._known(self._parts(a, b), knowledge))

    def _known(self, parts, knowledge):
        """What the schedules depend on, of what is in these parts or in the C library."""
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

    def differs(self, other, pair):
        """Whether this pair of names has another key in another program."""
        return self._of_pair(pair) != other._of_pair(pair) or self._started != other._started

    def _of_pair(self, pair):
        return self._of_program(*(op for name in pair for op in self.ops if op.name == name))

    def has_other_sequences(self, other):
        return self._sequences() != other._sequences()

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
