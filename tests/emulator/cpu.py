# SPDX-License-Identifier: MIT
"""What differs between the three CPUs: registers, numbers, how a system call traps."""

from dataclasses import dataclass

import unicorn as uc
from unicorn import arm64_const as arm
from unicorn import riscv_const as rv
from unicorn import x86_const as x86


@dataclass(frozen=True)
class Cpu:
    name: str
    elf_machine: str
    uc_arch: int
    uc_mode: int
    pc: int
    sp: int
    tp: int
    number: int  # of a system call
    result: int
    arguments: tuple  # of a function
    syscall_arguments: tuple
    link: int  # the return address, or None: on the stack
    signature: int
    hwcap: int
    calls: dict


# Only what the program may use: any other number is an error, so that the model stays complete.
GENERIC_CALLS = {
    25: "fcntl", 35: "unlinkat", 37: "linkat", 44: "fstatfs", 46: "ftruncate", 47: "fallocate",
    56: "openat", 57: "close", 63: "read", 64: "write", 66: "writev", 67: "pread64",
    78: "readlinkat", 79: "newfstatat", 93: "exit", 94: "exit_group", 96: "set_tid_address",
    98: "futex", 99: "set_robust_list", 113: "clock_gettime", 114: "clock_getres",
    124: "sched_yield", 131: "tgkill", 134: "rt_sigaction", 135: "rt_sigprocmask", 160: "uname",
    167: "prctl", 168: "getcpu", 172: "getpid", 178: "gettid", 214: "brk", 215: "munmap",
    220: "clone", 222: "mmap", 226: "mprotect", 233: "madvise", 236: "get_mempolicy",
    261: "prlimit64", 278: "getrandom", 279: "memfd_create", 283: "membarrier", 293: "rseq",
    435: "clone3", 439: "faccessat2",
}
X86_CALLS = {
    0: "read", 1: "write", 3: "close", 9: "mmap", 10: "mprotect", 11: "munmap", 12: "brk",
    13: "rt_sigaction", 14: "rt_sigprocmask", 17: "pread64", 20: "writev", 24: "sched_yield",
    28: "madvise", 39: "getpid", 56: "clone", 58: "vfork", 60: "exit", 63: "uname", 72: "fcntl",
    77: "ftruncate", 87: "unlink", 89: "readlink", 138: "fstatfs", 157: "prctl",
    158: "arch_prctl", 186: "gettid", 202: "futex", 218: "set_tid_address", 228: "clock_gettime",
    229: "clock_getres", 231: "exit_group", 234: "tgkill", 239: "get_mempolicy", 257: "openat",
    262: "newfstatat", 265: "linkat", 273: "set_robust_list", 285: "fallocate", 302: "prlimit64",
    309: "getcpu", 318: "getrandom", 319: "memfd_create", 324: "membarrier", 334: "rseq",
    435: "clone3", 439: "faccessat2",
}

X86_64 = Cpu(
    name="x86_64", elf_machine="EM_X86_64", uc_arch=uc.UC_ARCH_X86, uc_mode=uc.UC_MODE_64,
    pc=x86.UC_X86_REG_RIP, sp=x86.UC_X86_REG_RSP, tp=x86.UC_X86_REG_FS_BASE,
    number=x86.UC_X86_REG_RAX, result=x86.UC_X86_REG_RAX,
    arguments=(x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSI),
    syscall_arguments=(x86.UC_X86_REG_RDI, x86.UC_X86_REG_RSI, x86.UC_X86_REG_RDX,
                       x86.UC_X86_REG_R10, x86.UC_X86_REG_R8, x86.UC_X86_REG_R9),
    link=None, signature=0x53053053, hwcap=0, calls=X86_CALLS)

AARCH64 = Cpu(
    name="aarch64", elf_machine="EM_AARCH64", uc_arch=uc.UC_ARCH_ARM64, uc_mode=uc.UC_MODE_ARM,
    pc=arm.UC_ARM64_REG_PC, sp=arm.UC_ARM64_REG_SP, tp=arm.UC_ARM64_REG_TPIDR_EL0,
    number=arm.UC_ARM64_REG_X8, result=arm.UC_ARM64_REG_X0,
    arguments=(arm.UC_ARM64_REG_X0, arm.UC_ARM64_REG_X1),
    syscall_arguments=tuple(arm.UC_ARM64_REG_X0 + i for i in range(6)),
    link=arm.UC_ARM64_REG_X30, signature=0xD428BC00, hwcap=0x103, calls=GENERIC_CALLS)

RISCV64 = Cpu(
    name="riscv64", elf_machine="EM_RISCV", uc_arch=uc.UC_ARCH_RISCV, uc_mode=uc.UC_MODE_RISCV64,
    pc=rv.UC_RISCV_REG_PC, sp=rv.UC_RISCV_REG_X2, tp=rv.UC_RISCV_REG_X4,
    number=rv.UC_RISCV_REG_X17, result=rv.UC_RISCV_REG_X10,
    arguments=(rv.UC_RISCV_REG_X10, rv.UC_RISCV_REG_X11),
    syscall_arguments=tuple(rv.UC_RISCV_REG_X10 + i for i in range(6)),
    link=rv.UC_RISCV_REG_X1, signature=0xF1401073, hwcap=0x112D, calls=GENERIC_CALLS)

CPUS = {cpu.name: cpu for cpu in (X86_64, AARCH64, RISCV64)}


RDTIME, RDTIME_MASK = 0xC0102073, 0xFFFFF07F
ADDI_1 = 0x00100013


def with_clock(cpu, code):
    """The code; the emulator has no counter of RISC-V: one that stands still takes its place."""
    if cpu is not RISCV64:
        return code
    code = bytearray(code)
    for at in range(0, len(code) - 3, 2):
        word = int.from_bytes(code[at:at + 4], "little")
        if word & RDTIME_MASK == RDTIME:
            code[at:at + 4] = (ADDI_1 | word & 0xF80).to_bytes(4, "little")
    return bytes(code)


def prepare(emulator, cpu):
    """Lets user code use floating point registers, as a kernel does, and newer instructions."""
    if cpu is AARCH64:
        emulator.ctl_set_cpu_model(arm.UC_CPU_ARM64_MAX)  # with atomic instructions, see hwcap
        emulator.reg_write(arm.UC_ARM64_REG_CPACR_EL1, 3 << 20)
    if cpu is RISCV64:
        status = emulator.reg_read(rv.UC_RISCV_REG_MSTATUS)
        emulator.reg_write(rv.UC_RISCV_REG_MSTATUS, status | 3 << 13)


def hook_system_calls(emulator, cpu, callback):
    """callback() runs at each system call; the program counter is then behind it once the
    emulator has stopped."""
    if cpu is X86_64:
        emulator.hook_add(uc.UC_HOOK_INSN, lambda *_: callback(None), None, 1, 0,
                          x86.UC_X86_INS_SYSCALL)
    else:
        emulator.hook_add(uc.UC_HOOK_INTR, lambda _uc, number, _data: callback(number))


SYSTEM_CALL_TRAPS = {"x86_64": None, "aarch64": 2, "riscv64": 8}


def after_system_call(emulator, cpu, pc):
    """What the system call instruction itself does to registers."""
    if cpu is X86_64:
        emulator.reg_write(x86.UC_X86_REG_RCX, pc)
        emulator.reg_write(x86.UC_X86_REG_R11, emulator.reg_read(x86.UC_X86_REG_EFLAGS))
