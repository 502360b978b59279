# SPDX-License-Identifier: MIT
"""A process that has started and is stopped before an operation, in one of the setups of ops.h.

begin() brings it back to that point, so that a schedule can be played from there thousands of
times."""

import struct
from dataclasses import dataclass

from machine import ELSEWHERE, HERE, Machine

SIGNAL_SAFE, FENCES, NOT_LIVE, TWIN, WAITS, LONG = 1, 2, 32, 64, 128, 512  # flags in ops.h
OP = struct.Struct("<QQII")
MAX_OPS = 128
SETUPS = ("open", "fallback", "empty", "killed")
OBJECTS = ("counter", "refcount", "shared", "example", "rwlock", "mutex", "histogram", "fifo",
           "stack", "queue", "blocks", "array", "rcu", "callbacks", "trace", "ids")  # ops_object
REFCOUNT, STACK, TRACE = (OBJECTS.index(name) for name in ("refcount", "stack", "trace"))
MIB = 1 << 20
HEADER = 64 << 10  # of an arena; its first slot is aligned to a MiB (src/percpu/percpu.c)


@dataclass(frozen=True)
class Mode:
    """How the process is run."""
    name: str
    nodes: int = 1
    environment: tuple = ()
    refuse: tuple = ()  # threads that the kernel does not register


BY_CID = Mode("slots by cid")
BY_CPU = Mode("slots by cpu", environment=("NEAR_CONF=slot:cpu",))
BY_NODE = Mode("slots by node and cid", nodes=2)
# The C library stays out of it, so that one thread's registration may fail and the others' succeed.
REFUSED = Mode("own areas", environment=("GLIBC_TUNABLES=glibc.pthread.rseq=0",), refuse=(3,))


@dataclass(frozen=True)
class Op:
    number: int
    name: str
    object: int
    flags: int


def read_ops(image):
    """The table of operations, as the program holds it."""
    symbols, ops = image.symbols, []
    for i in range(image.u32("ops_count")):
        name, _, obj, flags = OP.unpack(image.bytes_at(symbols["ops"] + i * OP.size, OP.size))
        text = image.bytes_at(name, 64)
        ops.append(Op(i, text[:text.index(b"\0")].decode(), obj, flags))
    return ops


class Deadlock(Exception):
    """Each task waits for another."""


class Scenario:
    def __init__(self, image, mode, setup, obj, hook=None):
        """`obj`: that of the operations that will run."""
        self.image, self.mode, self.setup, self.object = image, mode, setup, obj
        self.machine = Machine(image, mode.nodes, mode.environment)
        if hook:
            hook(self.machine)
        self.machine.boot(mode.refuse)
        self.main, self.a, self.b, self.refused = self.machine.kernel.tasks
        self.kernel = self.machine.kernel
        self.here, self.elsewhere = self.machine.place(HERE), self.machine.place(ELSEWHERE)
        self._actors = image.symbols["emu_actors"]
        self._actor_size = image.u32("emu_actor_size")
        self._prepare()
        self.name = f"{mode.name}, setup {SETUPS[setup]}"

    def _prepare(self):
        for task in (self.main, self.a, self.refused):
            self.kernel.move(task, self.here)
        self.kernel.move(self.b, self.elsewhere)
        self._call(self.a, "emu_reset", self.setup, self.object)
        self._call(self.b, "ops_enter")
        self.machine.freeze()

    def _call(self, task, function, *arguments):
        self.machine.call(task, function, *arguments)
        task.started = True
        self.finish(task)

    def close(self):
        self.machine.close()

    # A run.

    def begin(self):
        self.machine.revert()

    def start(self, task, actor, op, function="emu_op"):
        """The task is about to run the operation as actor 0 (A) or 1 (B)."""
        self.machine.call(task, function, self._actors + actor * self._actor_size, op.number)
        task.started = True

    def run(self, task, on_code=None, on_fence=None):
        self.machine.on_code, self.machine.on_fence = on_code, on_fence
        why = self.machine.run(task)
        task.started = why != "returned"
        self.machine.on_code = self.machine.on_fence = None
        return why

    def finish(self, *tasks):
        """Runs each to its end, in this order; while one waits for a lock, the others continue."""
        left = [task for task in tasks if task.started]
        while left:
            still = [task for task in left if self.run(task) != "returned"]
            if len(still) == len(left) and all(task.active().waits_on for task in still):
                raise Deadlock(f"{len(left)} threads wait for each other")
            left = still

    def switch(self, task, place=None):
        """Preemption, with a move to another place if given. True: a sequence was aborted."""
        aborted = self.kernel.preempt(task)
        if place:
            self.kernel.move(task.active(), place)
        return aborted

    def outcome(self, describe=True):
        """(what can be observed, or "" if that is not wanted; what is wrong, or "")"""
        self._call(self.main, "emu_observe", int(describe))
        text = self.machine.memory.text
        return text(self.image.symbols["emu_text"]), text(self.image.symbols["emu_problem"])

    def slot_contents(self, place):
        """By address, the first page of this place's slot (its cid) in each arena: there the
        objects are."""
        view, contents = self.machine.memory.view, {}
        for start, _ in self.kernel.arenas:
            page = (start + HEADER + MIB - 1) // MIB * MIB + place.cid * MIB
            contents[page] = bytes(view[page:page + 4096])
        return contents

    # The table's answers.

    def is_valid(self, a, b):
        return self._answer("emu_valid", (self.setup * MAX_OPS + a.number) * MAX_OPS + b.number)

    def is_one_step(self, a):
        return self._answer("emu_one_step", self.setup * MAX_OPS + a.number)

    def _answer(self, table, index):
        return self.machine.memory.view[self.image.symbols[table] + index] != 0
