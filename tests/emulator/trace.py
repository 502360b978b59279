# SPDX-License-Identifier: MIT
"""What one run of each operation shows about the code: where instructions begin, which of them
touch per-CPU data, and whether sequences keep the rules that only a run can show."""

from dataclasses import dataclass, field

from kernel import Killed
from scenario import HEADER, MIB, Scenario

CELLS = 7  # of ops_cells


@dataclass
class Instruction:
    size: int
    sequence: object
    reads: bool = False  # per-CPU data
    writes: bool = False
    stores: bool = False  # anywhere


@dataclass
class Knowledge:
    """About one program; grows with each trace."""
    instructions: dict = field(default_factory=dict)  # in sequences: pc -> Instruction
    events: set = field(default_factory=set)  # pc of each instruction that touches per-CPU data
    begun: dict = field(default_factory=dict)  # operation -> sequences that it enters
    with_sequences: set = field(default_factory=set)  # operations that commit by a sequence

    def learn(self, pc, size, sequence):
        if pc not in self.instructions:
            self.instructions[pc] = Instruction(size, sequence)
        return self.instructions[pc]

    def loads(self, sequence):
        """Addresses of its instructions that load per-CPU data, except for the commit."""
        return sorted(pc for pc, i in self.instructions.items()
                      if i.sequence is sequence and i.reads and not i.writes)

    def boundaries(self, sequence):
        """The instructions of a sequence; the second value is where nothing was ever executed."""
        pcs, pc = [], sequence.start
        while pc < sequence.end:
            if pc not in self.instructions:
                return pcs, pc
            pcs.append(pc)
            pc += self.instructions[pc].size
        return pcs, (None if pc == sequence.end else pc)


    def add(self, other):
        """What another trace showed."""
        for pc, i in other.instructions.items():
            mine = self.learn(pc, i.size, i.sequence)
            mine.reads |= i.reads
            mine.writes |= i.writes
            mine.stores |= i.stores
        self.events |= other.events
        self.begun.update(other.begun)
        self.with_sequences |= other.with_sequences


class Tracer:
    def __init__(self, image):
        self.image, self.knowledge = image, None
        self._by_pc = {pc: s for s in image.sequences for pc in range(s.start, s.end)}
        self._now = None
        self._pc = self._commits = 0
        self._begun = None
        self._machine = None

    def trace(self, mode, setup, known, other):
        """`known`: by operation on one object, the knowledge that grows. They are traced where they
        may run at all: with `other`, on another object."""
        scenario = Scenario(self.image, mode, setup, next(iter(known)).object, self._hook)
        try:
            for op, self.knowledge in known.items():
                if not scenario.is_valid(op, other):
                    continue
                for task in (scenario.a, scenario.b):
                    self._run(scenario, task, op)
        finally:
            scenario.close()

    def _run(self, scenario, task, op):
        scenario.begin()
        scenario.start(task, 0, op)
        scenario.machine.on_access = self._access
        try:
            commits = self._commits
            self._begun = self.knowledge.begun.setdefault(op, set())
            while scenario.run(task, self._step) != "returned":
                pass
            if self._commits > commits:
                self.knowledge.with_sequences.add(op)
        except Killed:
            pass  # the schedules will say so

    def _hook(self, machine):
        self._machine = machine
        for address, _, size, flags in self.image.segments:
            if flags & 1:
                machine.hook_code(address, address + size)
        machine.hook_accesses()

    def _step(self, pc, size):
        self._pc, self._now = pc, None
        sequence = self._by_pc.get(pc)
        if sequence:
            self._now = self.knowledge.learn(pc, size, sequence)
            self._begun.add(sequence)
            self._commits += pc + size == sequence.end
        return False

    def _access(self, is_write, address, _size):
        shared = self._is_per_cpu(address)
        if shared:
            self.knowledge.events.add(self._pc)
        if self._now:
            self._now.stores |= is_write
            self._now.writes |= shared and is_write and not self._is_cell(address)
            self._now.reads |= shared and not is_write

    def _is_cell(self, address):
        """Of a queue's or the tracer's ring, or an array: what is stored there before the commit
        nobody reads."""
        symbol = self.image.symbols["ops_cells"]
        u64 = self._machine.memory.u64
        cells = range(symbol, symbol + CELLS * 16, 16)
        return any(self._distance(address, u64(c)) < u64(c + 8) for c in cells)

    def _distance(self, address, begin):
        """Of arenas, from that slot's `begin`."""
        if any(a <= address < b and a <= begin < b for a, b in self._machine.kernel.arenas):
            return (address - begin) % MIB
        return address - begin if address >= begin else MIB

    def _is_per_cpu(self, address):
        kernel = self._machine.kernel
        if any(a <= address < b for a, b in kernel.regions):
            return not self._is_cell(address)
        return address % MIB < MIB - HEADER and any(a <= address < b for a, b in kernel.arenas)


def broken_rules(image, knowledge):
    """Rules of a sequence that its executed instructions break."""
    problems = []
    for sequence in image.sequences:
        pcs, gap = knowledge.boundaries(sequence)
        if gap is not None:
            problems.append(f"{sequence}: the instruction at {gap:#x} was never executed")
            continue
        for pc in pcs[:-1]:
            if knowledge.instructions[pc].writes:
                problems.append(f"{sequence}: the store at {pc:#x} is visible before the commit")
        last = knowledge.instructions[pcs[-1]]
        changes = any(knowledge.instructions[pc].writes for pc in pcs)
        if not (last.writes if changes else last.stores):
            problems.append(f"{sequence}: the last instruction is not the commit")
    return problems
