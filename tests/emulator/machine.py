# SPDX-License-Identifier: MIT
"""A process in the emulator: memory, tasks, and the loop that runs a task until something stops it.

One task runs at a time, and only between instructions that the caller chose does another one run:
that is all the concurrency there is, so that every run can be repeated exactly."""

import copy
import struct
import threading
import time

import unicorn

import cpu as cpus
from engine import Engine
from kernel import FEATURE_SIZE, Kernel, Killed, Place
from memory import EXECUTE, PAGE, READ, WRITE, Memory, round_up

STACK_TOP = 0x3F00000
STACK_SIZE = 1 << 20
RED_ZONE = 1024  # more than any: a handler's frame starts below it
TIME_LIMIT = 20  # seconds, for an endless loop: no call needs a thousandth of it

AT_PHDR, AT_PHENT, AT_PHNUM, AT_PAGESZ, AT_ENTRY, AT_HWCAP, AT_RANDOM = 3, 4, 5, 6, 9, 16, 25
AT_RSEQ_FEATURE_SIZE, AT_RSEQ_ALIGN = 27, 28

# Two CPUs, with or without a node each.
HERE, ELSEWHERE = Place(0, 0, 0), Place(1, 1, 1)


class Watchdog:
    """Stops what runs too long. (Unicorn's own time limit starts a thread for each run.)"""

    def __init__(self):
        self.machine = None
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self):
        last, since = None, 0
        while True:
            time.sleep(1)
            machine = self.machine
            now = (machine, machine.starts) if machine else None
            if now != last:
                last, since = now, time.monotonic()
            elif now and time.monotonic() - since > TIME_LIMIT:
                machine.emulator.emu_stop()


WATCHDOG = Watchdog()


class Machine:
    MEMORY = Memory

    def __init__(self, image, nodes=1, environment=()):
        self.image = image
        self.cpu = image.cpu
        self.nodes = nodes
        self.memory = self.MEMORY()
        self._quiet, self._watched = Engine(self.cpu, self.memory), Engine(self.cpu, self.memory)
        self._use(self._quiet)
        self.kernel = Kernel(self, image, nodes)
        self.on_code = None  # (address, size) -> true to stop before this instruction
        self.on_access = None  # (is_write, address, size), before it takes place
        self.on_fence = None  # () -> true to stop before a membarrier
        self.starts = 0
        self._trap = None
        self._held = False
        self._skip = 0
        self._error = None
        self._loaded = None
        self._snapshot = None
        for engine in (self._quiet, self._watched):
            cpus.hook_system_calls(engine.emulator, self.cpu, self._on_system_call)
            engine.emulator.hook_add(unicorn.UC_HOOK_MEM_INVALID, self._on_bad_access)
        self._load(environment)

    def place(self, place):
        """A place on this machine: one with a single node has only that one."""
        return place if self.nodes > 1 else Place(place.cpu, place.cid, 0)

    # Starting.

    def _load(self, environment):
        for address, data, size, flags in self.image.segments:
            start = address & ~4095
            protection = (READ if flags & 4 else 0) | (WRITE if flags & 2 else 0)
            protection |= EXECUTE if flags & 1 else 0
            self.memory.protect(start, round_up(address + size) - start, protection)
            self.memory.write(address, data)
        self.memory.protect(STACK_TOP - STACK_SIZE, STACK_SIZE, READ | WRITE)
        self.main = self.kernel.new_task()
        self.main.pc = self.image.entry
        self.main.sp = self._first_stack(environment)

    def _first_stack(self, environment):
        at = STACK_TOP - 64
        pointers = []
        for text in (b"program", *(e.encode() for e in environment)):
            at -= len(text) + 1
            self.memory.write(at, text + b"\0")
            pointers.append(at)
        headers, header_size, header_count = self.image.program_headers
        auxv = ((AT_PHDR, headers), (AT_PHENT, header_size), (AT_PHNUM, header_count),
                (AT_PAGESZ, 4096), (AT_ENTRY, self.image.entry), (AT_HWCAP, self.cpu.hwcap),
                (AT_RANDOM, STACK_TOP - 64), (AT_RSEQ_FEATURE_SIZE, FEATURE_SIZE),
                (AT_RSEQ_ALIGN, 32), (0, 0))
        words = [1, pointers[0], 0, *pointers[1:], 0, *(w for pair in auxv for w in pair)]
        at = (at - 8 * len(words)) & ~15
        self.memory.write(at, struct.pack(f"<{len(words)}Q", *words))
        return at

    def boot(self, refuse_rseq=()):
        """Runs the program until all its threads wait. `refuse_rseq`: indices of threads that the
        kernel does not register."""
        started = 0
        while started < len(self.kernel.tasks):
            task = self.kernel.tasks[started]
            task.may_register = started not in refuse_rseq
            if self.run(task) != "parked":
                raise Killed("the program did not start")
            started += 1
        self.kernel.is_booted = True
        # What no call sets and all threads have in common, as the global pointer of RISC-V.
        self._watched.emulator.context_restore(self._quiet.emulator.context_save())

    def written_words(self):
        """(address, value) of the words in writable memory that are neither 0 nor as in the
        program's file; without the first stack, since nobody returns to the frames there."""
        zeros, stack = bytes(PAGE), range(STACK_TOP - STACK_SIZE, STACK_TOP)
        for start, end, protection in self.memory.areas:
            for page in range(start, end, PAGE) if protection & WRITE else ():
                data = self.memory.view[page:page + PAGE]
                for i, word in enumerate(data.cast("Q") if data != zeros else ()):
                    at = page + 8 * i
                    if (word and at not in stack and
                            self.image.bytes_at(at, 8) != word.to_bytes(8, "little")):
                        yield at, word

    def freeze(self):
        """Makes what is now what revert() comes back to. All tasks must be waiting."""
        self.memory.freeze()
        kernel = self.kernel
        self._snapshot = ([(t, t.place, t.area) for t in kernel.tasks], kernel.process.copy(),
                          len(kernel.arenas), len(kernel.regions))

    def revert(self):
        tasks, process, arenas, regions = self._snapshot
        self.memory.revert()
        for task, task.place, task.area in tasks:
            task.registers = task.child = task.result = None
            task.waits_on, task.held_back = 0, 0
            task.pending = task.started = False
        self.kernel.tasks[:] = [t for t, _, _ in tasks]
        self.kernel.process = process.copy()
        del self.kernel.arenas[arenas:], self.kernel.regions[regions:]
        self.kernel.output = b""
        self.kernel.fences = 0
        self._loaded = None
        self.on_code = self.on_fence = self.on_access = None

    def close(self):
        self.emulator = self._engine = self._quiet = self._watched = None
        self.memory.close()

    # Hooks.

    def hook_code(self, start, end):
        """Makes the machine call on_code() before each instruction in [start, end)."""
        self._watched.emulator.hook_add(unicorn.UC_HOOK_CODE, self._on_code, None, start, end - 1)

    def hook_blocks(self, start, end, seen):
        """Makes the machine call seen(address) where it begins to execute a block of code in
        [start, end), while nothing is to stop it."""
        def block(_uc, address, _size, _data):
            seen(address)
        self._quiet.emulator.hook_add(unicorn.UC_HOOK_BLOCK, block, None, start, end - 1)

    def hook_accesses(self):
        """Makes the machine call on_access(is_write, address, size) before each memory access."""
        def access(_uc, kind, address, size, _value, _data):
            if self.on_access:
                self.on_access(kind == unicorn.UC_MEM_WRITE, address, size)
        kinds = unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE
        self._watched.emulator.hook_add(kinds, access)

    def _on_code(self, _uc, address, size, _data):
        if self.on_code is None or self._held:
            return
        if self._skip == address:
            self._skip = 0
            return
        self._skip = 0
        if self.on_code(address, size):
            self._held = True
            self.emulator.emu_stop()

    def _on_system_call(self, number):
        if number == cpus.SYSTEM_CALL_TRAPS[self.cpu.name]:
            self._trap = True
        else:
            self._error = f"trap {number}"
        self.emulator.emu_stop()

    def _on_bad_access(self, _uc, kind, address, _size, _value, _data):
        names = {unicorn.UC_MEM_WRITE_UNMAPPED: "write to",
                 unicorn.UC_MEM_WRITE_PROT: "write to protected",
                 unicorn.UC_MEM_READ_UNMAPPED: "read of",
                 unicorn.UC_MEM_READ_PROT: "read of protected"}
        self._error = f"SIGSEGV: {names.get(kind, 'jump to')} {address:#x}"
        return False

    # Registers. An emulator has one set; `_loaded` is the task that they belong to.

    def copy_registers(self, task):
        self._enter(task)
        task.sp = self.emulator.reg_read(self.cpu.sp)
        return self.emulator.context_save()

    def set_thread_pointer(self, value):
        self.emulator.reg_write(self.cpu.tp, value)

    def system_call_arguments(self, task, count):
        self._enter(task)
        return [self.emulator.reg_read(r) for r in self.cpu.syscall_arguments[:count]]

    def end_system_call(self, task, result):
        self._enter(task)
        self.emulator.reg_write(self.cpu.result, result & 0xFFFFFFFFFFFFFFFF)
        cpus.after_system_call(self.emulator, self.cpu, task.pc)

    def _enter(self, task):
        if self._loaded is task:
            return
        if task.registers is not None:
            self.emulator.context_restore(task.registers)
        else:
            for register, value in zip(self.cpu.arguments, task.arguments):
                self.emulator.reg_write(register, value)
            if self.cpu.link is not None:
                self.emulator.reg_write(self.cpu.link, self.image.symbols["emu_return"])
        if task.registers is None or task.is_new:
            self.emulator.reg_write(self.cpu.sp, task.sp)
            self.emulator.reg_write(self.cpu.tp, task.tp)
            task.is_new = False
        self._loaded = task

    def _leave(self, task):
        task.sp = self.emulator.reg_read(self.cpu.sp)
        if task.registers is None:
            task.registers = self.emulator.context_save()
        else:
            self.emulator.context_update(task.registers)
        self._loaded = None

    # Running.

    def call(self, task, function, *arguments):
        """Has the task, which must be waiting, call a function; run() then runs it."""
        if not isinstance(function, int):
            function = self.image.symbols[function]
        if self._loaded is task:
            self._loaded = None
        task.registers, task.arguments = None, arguments
        task.pc, task.held_back = function, 0
        task.sp = task.home & ~15
        if self.cpu.link is None:
            task.sp -= 8
            self.memory.write_u64(task.sp, self.image.symbols["emu_return"])

    def handler_over(self, task):
        """A task for a signal handler over a stopped task: its own registers, its stack further
        down, everything else the same."""
        handler = copy.copy(task)
        handler.registers = handler.child = None
        handler.home = task.sp - RED_ZONE
        return handler

    def run(self, task):
        """Runs until the task is "parked", has "returned", is "blocked", or is "held" by a hook."""
        self._use(self._watched if self.on_code or self.on_access else self._quiet)
        while True:
            active = task.active()
            if active.waits_on:
                return "blocked"
            self._enter(active)
            if active.result is not None:
                self.end_system_call(active, active.result)
                active.result = None
            if not self._reach_call(active):
                self._leave(active)
                return "held"
            why = self.kernel.system_call(active)
            if why == "parked":
                active.home = self.emulator.reg_read(self.cpu.sp)
                active.tp = self.emulator.reg_read(self.cpu.tp)
            if why in ("parked", "returned"):
                self._loaded = active.registers = None
                return why
            if why:
                self._leave(active)
            if why == "blocked":
                return why

    def _reach_call(self, task):
        """Runs up to the next system call (true) or to where a hook stops it (false)."""
        if task.pending:
            task.pending = False
            return True
        if not self._execute(task):
            return False
        task.pending = bool(self.on_fence and self.kernel.is_fence(task) and self.on_fence())
        return not task.pending

    def _use(self, engine):
        """Only between runs: no registers are loaded then."""
        self._engine, self.emulator = engine, engine.emulator

    def _execute(self, task):
        self._engine.map()
        self._trap = self._error = None
        self._held = False
        self._skip = task.held_back if task.pc == task.held_back else 0
        task.held_back = 0
        self.starts += 1
        WATCHDOG.machine = self
        try:
            self.emulator.emu_start(task.pc, 0)
        except unicorn.UcError as error:
            self._error = self._error or str(error)
        WATCHDOG.machine = None
        task.pc = self.emulator.reg_read(self.cpu.pc)
        if self._held:
            task.held_back = task.pc
            return False
        if not self._trap:
            raise Killed(f"{self._error or 'endless loop'} at {task.pc:#x}")
        task.call = self.emulator.reg_read(self.cpu.number)
        return True
