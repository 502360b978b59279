# SPDX-License-Identifier: MIT
"""Counts what one call of a function of cost.c does, on a machine with any number of CPUs."""

import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import build
from kernel import ENOMEM, Place
from machine import STACK_SIZE, STACK_TOP, Machine
from memory import PAGE, READ, WRITE, Memory
from scenario import HEADER, MIB

LINE, WORD = 64, 8
BLOCK = 640  # of a thread: src/base/block.h
CLOCK = "clock_gettime"  # which the vDSO answers without the kernel
NEAR_TP = 4096  # the thread's variables and its rseq area stand within this many bytes of it


class Cost:
    """What one call did: all that is here is exact, and the same in every run."""

    def __init__(self):
        self.instructions = self.atomics = 0
        self.reads, self.writes = set(), set()  # lines, by their addresses
        self.calls = Counter()  # system calls by name
        self.fences = 0


@dataclass(frozen=True)
class Summary:
    instructions: int
    own: int  # lines of this thread and of its slot
    read: int  # other lines, only read
    written: int  # other lines, written
    atomics: int
    calls: int
    fences: int


class RoomyMemory(Memory):
    """For the arenas of a thousand slots. Protections inside a mapping are not modelled: each
    would be a region of the emulator."""
    SIZE = 24 << 30

    def reserve(self, start, size, protection):
        Memory.protect(self, start, size, READ | WRITE)
        self._mapped = (*getattr(self, "_mapped", ()), (start, start + size))

    def protect(self, start, size, protection):
        inside = any(a <= start < b for a, b in getattr(self, "_mapped", ()))
        if protection is None or not inside:
            Memory.protect(self, start, size, protection)


class RoomyMachine(Machine):
    MEMORY = RoomyMemory


def allocators():
    """The sources of the pool, and of near_malloc."""
    api = ("own", "slow", "malloc_init", "malloc_fork")  # the rest replaces the C library's
    found = [*(build.ROOT / "src/pool").glob("*.c"), *(build.ROOT / "src/malloc").glob("*/*.c"),
             build.ROOT / "src/cache/bin.c"]
    return [path for path in found if path.parent.name != "api" or path.stem in api]


def compile_program(compiler, directory, more=(), **how):
    """`more`: further arguments, such as sources; `how`: of subprocess.run."""
    output = Path(directory) / "cost"
    sources = [str(p) for p in sorted([*build.core(), *allocators()], key=lambda path: path.name)]
    subprocess.run([compiler, *build.FLAGS, *build.LINK, *sources, "tests/emulator/cost.c", *more,
                    "-o", str(output)], cwd=build.ROOT, check=True, **how)
    return str(output)


def is_atomic(cpu_name, code):
    """Whether this instruction is an atomic one: of an exclusive pair, the store."""
    if cpu_name == "x86_64":
        return _is_atomic_x86(code)
    word = int.from_bytes(code[:4], "little")
    if cpu_name == "riscv64":
        return len(code) == 4 and word & 0x7F == 0x2F and word >> 27 != 2
    return (word & 0x3B200C00 == 0x38200000 or word & 0x3FA07C00 == 0x08A07C00 or
            word & 0x3FE00000 == 0x08000000)


def _is_atomic_x86(code):
    at = 0
    while code[at] in b"\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67\xf0" or code[at] & 0xF0 == 0x40:
        if code[at] == 0xF0:
            return True
        at += 1
    return code[at] in b"\x86\x87" and code[at + 1] >> 6 != 3  # xchg with memory


class Meter:
    """A process of cost.c whose slots of CPUs 0 to slots - 1 are open in every object. There is one
    CPU more, whose slot is not."""

    def __init__(self, image, slots):
        self.image = image
        self.machine = RoomyMachine(image)
        self.kernel = self.machine.kernel
        self.kernel.files["/sys/devices/system/cpu/possible"] = f"0-{slots}\n".encode()
        for address, _, size, flags in image.segments:
            if flags & 1:
                self.machine.hook_code(address, address + size)
        self.machine.hook_accesses()
        self._handled = self.kernel.system_call
        self.kernel.system_call = self._answer
        self.machine.boot()
        self.task = self.kernel.tasks[0]
        self._objects = image.symbols["cost_objects"]
        self.call("make", 0)
        for cpu in range(slots):
            self.call("enter", cpu)
        self.machine.freeze()

    def close(self):
        self.machine.close()

    def call(self, function, cpu, *arguments):
        self.kernel.preempt(self.task)
        self.kernel.move(self.task, Place(cpu, cpu, 0))
        self.machine.call(self.task, "cost_" + function, self._objects, *arguments)
        if self.machine.run(self.task) != "returned":
            raise RuntimeError(f"{function} did not return")

    def measure(self, function, before=(), cpu=0):
        """Of a call, after those named: (function, cpu, arguments...)."""
        self.machine.revert()
        for name, where, *arguments in before:
            self.call(name, where, *arguments)
        cost = Cost()
        self.kernel.system_call = lambda task: self._count_call(cost, task)
        self.machine.on_code = lambda pc, size: self._count(cost, pc, size)
        self.machine.on_access = lambda is_write, address, size: (
            (cost.writes if is_write else cost.reads).add(self._line(address)))
        fences = self.kernel.fences
        self.call(function, cpu)
        cost.fences = self.kernel.fences - fences
        self.kernel.system_call = self._answer
        self.machine.on_code = self.machine.on_access = None
        return cost

    def _count(self, cost, pc, size):
        cost.instructions += 1
        cost.atomics += is_atomic(self.image.cpu.name, self.image.bytes_at(pc, size))
        return False

    def _count_call(self, cost, task):
        name = self.image.cpu.calls.get(task.call)
        if name:  # not our own "returned"
            cost.calls[name] += 1
        return self._answer(task)

    def _answer(self, task):
        """As the model of the kernel; but a thread exists that is looked for by signal 0, and what
        is too large to be mapped leaves the address space as it is."""
        name = self.image.cpu.calls.get(task.call)
        _, size, signal = self.machine.system_call_arguments(task, 3)
        room = len(self.machine.memory.view) - self.kernel.process.next_map - PAGE
        if name == "tgkill" and not signal:
            self.machine.end_system_call(task, 0)
        elif name == "mmap" and size > room:
            self.machine.end_system_call(task, -ENOMEM)
        else:
            return self._handled(task)
        return None

    def _line(self, address):
        """The line of an address. Variables of the program begin at one each, and what has no
        name, as a constant or an entry of the GOT, has one for each word: which of them share a
        line depends on the sizes of others."""
        if address >= self.image.end:
            return address // LINE * LINE
        start, _ = self.image.variable_at(address) or (address // WORD * WORD, WORD)
        return start + (address - start) // LINE * LINE

    # Whose line it is.

    def summary(self, cost, empty):
        lines = cost.reads | cost.writes
        own = {line for line in lines if self._is_own(line)}
        return Summary(instructions=cost.instructions - empty.instructions,
                       own=len(own), read=len(cost.reads - cost.writes - own),
                       written=len(cost.writes - own), atomics=cost.atomics, fences=cost.fences,
                       calls=sum(n for name, n in cost.calls.items() if name != CLOCK))

    def _is_own(self, line):
        if line < self.image.end:
            return False
        if STACK_TOP - STACK_SIZE <= line < STACK_TOP or abs(line - self.task.tp) < NEAR_TP:
            return True
        block = self.machine.memory.u64(self._u64("cost_block_at"))
        if block <= line < block + BLOCK:
            return True
        stride = self._u64("cost_shared_stride")
        slots = [((start + HEADER + MIB - 1) // MIB * MIB, MIB) for start, _ in self.kernel.arenas]
        slots.append((self._u64("cost_shared_copies"), stride))
        own = self.task.place.cid
        return any(start + own * size <= line < start + (own + 1) * size for start, size in slots)

    def _u64(self, symbol):
        return self.machine.memory.u64(self.image.symbols[symbol])
