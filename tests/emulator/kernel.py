# SPDX-License-Identifier: MIT
"""A model of the kernel, as far as the program uses it: above all of rseq and membarrier.

Sources: the kernel's kernel/rseq.c (rseq_ip_fixup, rseq_get_rseq_cs, the system call) and
kernel/sched/membarrier.c. Where kernels differ, the model is the stricter one: it kills a process
that writes the fields which are the kernel's (as since 7.0.10), or makes a system call in a
sequence (as kernels with CONFIG_DEBUG_RSEQ do)."""

import struct
from copy import copy
from dataclasses import dataclass, field

from files import Files
from memory import EXECUTE, PAGE, READ, WRITE, round_up

EPERM, EBADF, EAGAIN, ENOMEM, EBUSY, EINVAL, ENOSYS = 1, 9, 11, 12, 16, 22, 38

EMU_PARK, EMU_RETURNED = 0x7E00, 0x7E01
MEMBARRIER_RSEQ, MEMBARRIER_REGISTER_RSEQ = 1 << 7, 1 << 8
CLONE_VFORK = 0x4000
CLONE_SETTLS, CLONE_PARENT_SETTID, CLONE_CHILD_CLEARTID = 0x80000, 0x100000, 0x200000
CLONE_CHILD_SETTID = 0x1000000
RSEQ_SIZE, FEATURE_SIZE = 32, 28
UNREGISTERED = 0xFFFFFFFF

FIRST_MMAP = 0x4000000
FIRST_TID = 1000
NOW = 1000  # seconds; the clock stands still, so that every run is the same
TICK = 4000000  # ns, of the coarse clocks


DESCRIPTOR = struct.Struct("<IIQQQ")  # struct rseq_cs


class Killed(Exception):
    """The process would have been ended by a signal."""


@dataclass(frozen=True)
class Place:
    """Where a thread runs. The kernel gives no two running threads the same of either number."""
    cpu: int
    cid: int
    node: int

    def ids(self):
        return struct.pack("<II", self.cpu, self.cpu), struct.pack("<II", self.node, self.cid)


@dataclass
class Task:
    """A thread as the kernel sees it."""
    tid: int
    pc: int = 0
    sp: int = 0
    tp: int = 0
    home: int = 0  # the stack pointer while it waits for calls
    registers: object = None  # saved while it does not run; None: it begins with what is named here
    is_new: bool = False  # of the registers those that are named here are not its own yet
    arguments: tuple = ()
    place: Place = Place(0, 0, 0)
    area: int = 0  # registered struct rseq, or 0
    may_register: bool = True
    waits_on: int = 0  # a futex
    call: int = 0  # number of the system call that it makes
    pending: bool = False  # stopped before the effect of it
    result: int = None  # of a system call that another task ended
    child: "Task" = None  # of a vfork: this task waits for it
    held_back: int = 0  # address at which a hook stopped it
    started: bool = False  # runs a function that has not returned

    def active(self):
        return self.child.active() if self.child else self


@dataclass
class Process:
    """What changes while the process runs and must come back with a snapshot."""
    brk: int
    next_map: int = FIRST_MMAP
    next_tid: int = FIRST_TID
    membarrier_registered: bool = False
    files: dict = field(default_factory=dict)  # fd -> OpenFile
    named: dict = field(default_factory=dict)  # path -> MemoryFile

    def copy(self):
        return Process(self.brk, self.next_map, self.next_tid, self.membarrier_registered,
                       {fd: copy(f) for fd, f in self.files.items()}, dict(self.named))


class Kernel(Files):
    def __init__(self, machine, image, nodes):
        self.machine = machine
        self.memory = machine.memory
        self.cpu = image.cpu
        self.nodes = nodes
        self.process = Process(brk=round_up(image.end, 1 << 20))
        self.first_brk = self.process.brk
        self.tasks = []
        # Address ranges that sequences, their closers and fallbacks change.
        words = ((image.symbols.get("ops_mutex"), 12), (image.symbols.get("ops_fifo"), 64))
        self.arenas, self.regions = [], [(word, word + size) for word, size in words if word]
        self.is_booted = False  # no thread can be made any more
        self.aborted = set()  # instruction pointers at which a sequence was aborted
        self.output = b""
        self.fences = 0
        self._handlers = {n: getattr(self, "sys_" + name) for n, name in self.cpu.calls.items()}
        # Of each, how many arguments it names: to read a register costs more than most handlers.
        self._arity = {n: max(handler.__func__.__code__.co_argcount - 2, 0)
                       for n, handler in self._handlers.items()}
        self.files = {"/sys/devices/system/cpu/possible": b"0-1\n",
                      "/sys/devices/system/node/possible": b"0-1\n" if nodes > 1 else b"0\n"}

    def new_task(self):
        task = Task(self.process.next_tid)
        self.process.next_tid += 1
        self.tasks.append(task)
        return task

    # Restartable sequences.

    def move(self, task, place):
        """The task runs at this place from now on. A move is a context switch: preempt() first."""
        task.place = place
        self._write_ids(task)

    def _write_ids(self, task):
        if task.area:
            at_0, at_20 = task.place.ids()
            self.memory.write(task.area, at_0)
            self.memory.write(task.area + 20, at_20)

    def check_ids(self, task):
        if not task.area:
            return
        at_0, at_20 = task.place.ids()
        view = self.memory.view
        if view[task.area:task.area + 8] != at_0 or view[task.area + 20:task.area + 28] != at_20:
            raise Killed("SIGSEGV: the process wrote an id that is the kernel's")

    def preempt(self, task):
        """The task is taken off its CPU, gets a signal, or an interrupt by membarrier. True: a
        sequence was aborted."""
        task = task.active()
        self.check_ids(task)
        if not task.area or not self.memory.u64(task.area + 8):
            return False
        start, length, abort = self._descriptor(self.memory.u64(task.area + 8))
        self.memory.write_u64(task.area + 8, 0)
        if not start <= task.pc < start + length:
            return False
        self.aborted.add(task.pc)
        task.pc = abort
        return True

    def _descriptor(self, address):
        if not self.memory.is_mapped(address, 32):
            raise Killed(f"SIGSEGV: rseq_cs points to {address:#x}")
        version, flags, start, length, abort = DESCRIPTOR.unpack_from(self.memory.view, address)
        if version or flags or abort - start < length and abort >= start:
            raise Killed("SIGSEGV: rseq_cs points to no valid descriptor")
        if self.memory.u32(abort - 4) != self.cpu.signature:
            raise Killed("SIGSEGV: no signature before the abort handler")
        return start, length, abort

    def is_in_sequence(self, task):
        if not task.area or not self.memory.u64(task.area + 8):
            return False
        start, length, _ = self._descriptor(self.memory.u64(task.area + 8))
        return start < task.pc <= start + length

    # System calls. A handler returns the result, or None if the task does not go on by itself.

    def is_fence(self, task):
        return (self.cpu.calls.get(task.call) == "membarrier" and
                self.machine.system_call_arguments(task, 1)[0] == MEMBARRIER_RSEQ)

    def system_call(self, task):
        """Returns None if the task goes on, or why it does not."""
        number = task.call
        if number == EMU_PARK:
            return "parked"
        self.check_ids(task)
        if self.is_in_sequence(task):
            raise Killed(f"SIGSEGV: system call {number} inside a sequence")
        if number == EMU_RETURNED:
            return "returned"
        handler = self._handlers.get(number)
        if not handler:
            raise Killed(f"SIGSYS: the model has no system call {number}")
        result = handler(task, *self.machine.system_call_arguments(task, self._arity[number]))
        if result is not None:
            self.machine.end_system_call(task, result)
            return None
        return "blocked" if task.waits_on else "switched"

    def unregister(self, task):
        """From here on nothing aborts the thread's sequences."""
        self.memory.write(task.area, struct.pack("<IIQIII", 0, UNREGISTERED, 0, 0, 0, 0))
        task.area = 0

    def sys_rseq(self, task, area, size, flags, signature, *_):
        if flags == 1:
            if not area or task.area != area:
                return -EINVAL
            self.unregister(task)
            return 0
        if flags or not task.may_register:
            return -EINVAL
        if task.area:
            return -EBUSY if area == task.area and size == RSEQ_SIZE else -EINVAL
        if size != RSEQ_SIZE or area % 32 or not area:
            return -EINVAL
        if signature & 0xFFFFFFFF != self.cpu.signature:
            return -EPERM
        task.area = area
        self._write_ids(task)
        return 0

    def sys_membarrier(self, task, command, *_):
        if command == 0:
            return MEMBARRIER_RSEQ | MEMBARRIER_REGISTER_RSEQ
        if command == MEMBARRIER_REGISTER_RSEQ:
            self.process.membarrier_registered = True
            return 0
        if command != MEMBARRIER_RSEQ:
            return -EINVAL
        if not self.process.membarrier_registered:
            return -EPERM
        self.fences += 1
        for other in self.tasks:
            if other.active() is not task:
                self.preempt(other)
        return 0

    def _fork_task(self, task):
        child = self.new_task()
        child.registers = self.machine.copy_registers(task)
        child.place = task.place
        child.tp, child.pc, child.sp = task.tp, task.pc, task.sp
        child.result, child.is_new = 0, True
        return child

    def sys_vfork(self, task, *_):
        # Not registered: a new address space would keep the registration, this one loses it.
        task.child = self._fork_task(task)
        self.tasks.remove(task.child)

    def sys_clone(self, task, flags, stack, parent_tid, a3, a4, *_):
        if flags & CLONE_VFORK:
            return self.sys_vfork(task)
        if self.is_booted:
            return -EAGAIN
        tls, child_tid = (a4, a3) if self.cpu.name == "x86_64" else (a3, a4)
        child = self._fork_task(task)
        child.sp = stack
        if flags & CLONE_SETTLS:
            child.tp = tls
        if flags & CLONE_PARENT_SETTID:
            self.memory.write_u32(parent_tid, child.tid)
        if flags & CLONE_CHILD_SETTID:
            self.memory.write_u32(child_tid, child.tid)
        return child.tid

    def sys_clone3(self, *_):
        return -ENOSYS

    def sys_exit(self, task, *_):
        for parent in self.tasks:
            while parent.child:
                if parent.child is task:
                    parent.child = None
                    parent.result = task.tid
                    return
                parent = parent.child
        raise Killed("a thread ended that was not to end")

    sys_exit_group = sys_exit

    def sys_futex(self, task, address, operation, value, *_):
        if operation & 127 in (0, 9):  # wait; of bits, which are always all
            if self.memory.u32(address) != value & 0xFFFFFFFF:
                return -EAGAIN
            task.waits_on = address
            return None
        if operation & 127 == 1:  # wake
            sleepers = [t.active() for t in self.tasks if t.active().waits_on == address][:value]
            for sleeper in sleepers:
                sleeper.waits_on, sleeper.result = 0, 0
            return len(sleepers)
        return -ENOSYS

    def sys_tgkill(self, *_):
        raise Killed("the process ended itself: " + self.output.decode(errors="replace").strip())

    def sys_write(self, _task, fd, address, size, *_):
        if fd in (1, 2):
            self.output += bytes(self.memory.view[address:address + size])
        return size

    def sys_writev(self, task, fd, vector, count, *_):
        parts = (struct.unpack_from("<QQ", self.memory.view, vector + 16 * i) for i in range(count))
        return sum(self.sys_write(task, fd, *part) for part in parts)

    def sys_get_mempolicy(self, *_):
        return -ENOSYS

    def sys_getcpu(self, task, cpu, node, *_):
        for address, value in ((cpu, task.place.cpu), (node, task.place.node)):
            if address:
                self.memory.write_u32(address, value)
        return 0

    def sys_gettid(self, task, *_):
        return task.tid

    def sys_getpid(self, *_):
        return FIRST_TID

    def sys_sched_yield(self, *_):
        return 0

    def sys_clock_gettime(self, _task, _clock, address, *_):
        self.memory.write(address, struct.pack("<QQ", NOW, 0))
        return 0

    def sys_clock_getres(self, _task, _clock, address, *_):
        self.memory.write(address, struct.pack("<QQ", 0, TICK))
        return 0

    # Memory.

    def sys_brk(self, _task, address, *_):
        if self.first_brk <= address < FIRST_MMAP - PAGE:
            if address > self.process.brk:
                self.memory.protect(self.process.brk, address - self.process.brk, READ | WRITE)
                self.process.brk = round_up(address)
        return self.process.brk

    @staticmethod
    def _protection(prot):
        return (READ if prot & 1 else 0) | (WRITE if prot & 2 else 0) | (EXECUTE if prot & 4 else 0)

    def sys_mmap(self, _task, address, size, prot, flags, fd, _offset):
        fd &= 0xFFFFFFFF
        anonymous = flags & 0x20
        if flags & 0x10 and anonymous and self.memory.is_mapped(address, round_up(size)):
            self.memory.clear(address, round_up(size))
            self.memory.protect(address, size, self._protection(prot))
            return address
        if address or flags & 0x10:
            raise Killed("SIGSYS: the model has no mmap at a given address")
        if not anonymous and fd not in self.process.files:
            return -EBADF
        file = None if anonymous else self.process.files[fd].memory
        address = self._free_place_of(file)
        if not address:
            address = self.process.next_map
            self.process.next_map += round_up(size) + PAGE
        if self.process.next_map > len(self.memory.view):
            return -ENOMEM
        self.memory.reserve(address, size, self._protection(prot))
        if file and not file.at:
            file.at = address
            self.regions.append((address, address + size))
        elif anonymous and prot == 1 and size >= 1 << 20:
            self.arenas.append((address, address + size))
        return address

    def _free_place_of(self, file):
        """A file is mapped at the same place again: there its content is. 0: at another place, with
        zeros, if it is there already."""
        return file.at if file and file.at and not self.memory.is_mapped(file.at, PAGE) else 0

    def sys_munmap(self, _task, address, size, *_):
        self.memory.protect(address, size, None)
        return 0

    def sys_mprotect(self, _task, address, size, prot, *_):
        if not self.memory.is_mapped(address, round_up(size)):
            return -ENOMEM
        self.memory.protect(address, size, self._protection(prot))
        return 0

    def sys_madvise(self, _task, address, size, advice, *_):
        if advice == 4:  # MADV_DONTNEED
            self.memory.clear(address, size)
        return 0
