# SPDX-License-Identifier: MIT
"""How the CPUs spell what the seeded sequences are made of.

Registers have the same names everywhere: area (the thread's struct rseq), base, value and other
(arguments), slot, v, t (free), sp.
"""
import os
import platform
import shutil
import subprocess


class Cpu:
    registers = {}
    text = {}

    def compilers(self):
        """The command, or None if it is not installed."""
        native = platform.machine() == self.name
        for command in (["gcc", "cc"] if native else []) + [self.name + "-linux-gnu-gcc"]:
            if shutil.which(command):
                return command
        return None

    def compile(self, source, out, *options):
        subprocess.run([self.compilers(), *options, "-o", out, source], check=True,
                       stdin=subprocess.DEVNULL, capture_output=True,
                       env=dict(os.environ, LC_ALL="C"))

    def strip(self):
        return "strip" if platform.machine() == self.name else self.name + "-linux-gnu-strip"

    def __getattr__(self, operation):
        """cpu.load8("v", "slot", 0) is the text of that instruction."""
        try:
            form = self.text[operation]
        except KeyError:
            raise AttributeError(operation) from None

        def spell(*arguments):
            words = [self.registers.get(a, a) for a in arguments]
            low = [self.low(a) for a in arguments]
            return form.format(*words, low=low)
        return spell

    def low(self, register):
        """The lower 4 bytes of a register."""
        return register


class X86(Cpu):
    name = "x86_64"
    signature = 0x53053053
    signature_text = ".byte 0x0f, 0xb9, 0x3d\n.long 0x53053053"
    registers = {"area": "%rdi", "base": "%rsi", "value": "%rdx", "other": "%rcx", "slot": "%r8",
                 "v": "%r9", "t": "%r10", "sp": "%rsp"}
    text = {
        "address": "leaq {1}(%rip), {0}", "number": "movq ${1}, {0}",
        "load4": "movl {2}({1}), {low[0]}", "load8": "movq {2}({1}), {0}",
        "store4": "movl {low[0]}, {2}({1})", "store8": "movq {0}, {2}({1})",
        "add": "addq {1}, {0}", "copy": "movq {1}, {0}", "add_number": "addq ${1}, {0}",
        "shift": "shlq ${1}, {0}", "jump": "jmp {0}", "if_zero": "testq {0}, {0}\njz {1}",
        "if_differ": "cmpq {1}, {0}\njne {2}",
        "call": "call {0}", "system_call": "syscall", "trap": "ud2", "nop": "nop", "ret": "ret",
        "jump_to": "jmp *{0}", "atomic": "lock addq {0}, ({1})",
        "wide": "addq $0x1234567, {0}",
        # What clang's -fsanitize-trap ends with, ud1l 0x16(%eax), %eax; bytes that are nothing.
        "trap_with_reason": ".byte 0x67, 0x0f, 0xb9, 0x40, 0x16", "unknown": ".byte 0x06, 0x0e",
    }

    def low(self, register):
        name = str(self.registers.get(register, register))
        return name + "d" if name[-1].isdigit() else "%e" + name[2:]


class Arm(Cpu):
    name = "aarch64"
    signature = 0xd428bc00
    signature_text = ".inst 0xd428bc00"
    registers = {"area": "x0", "base": "x1", "value": "x2", "other": "x3", "slot": "x4",
                 "v": "x5", "t": "x6", "sp": "sp"}
    text = {
        "address": "adrp {0}, {1}\nadd {0}, {0}, :lo12:{1}", "number": "mov {0}, #{1}",
        "load4": "ldr {low[0]}, [{1}, #{2}]", "load8": "ldr {0}, [{1}, #{2}]",
        "store4": "str {low[0]}, [{1}, #{2}]", "store8": "str {0}, [{1}, #{2}]",
        "add": "add {0}, {0}, {1}", "copy": "mov {0}, {1}", "add_number": "add {0}, {0}, #{1}",
        "shift": "lsl {0}, {0}, #{1}", "jump": "b {0}", "if_zero": "cbz {0}, {1}",
        "if_differ": "cmp {0}, {1}\nb.ne {2}",
        "call": "bl {0}", "system_call": "svc #0", "trap": "brk #1", "nop": "nop", "ret": "ret",
        "jump_to": "br {0}", "atomic": ".arch armv8.1-a\nldadd {0}, xzr, [{1}]",
        "wide": "nop", "trap_with_reason": "brk #0x5516", "unknown": ".inst 0xffffffff",
    }

    def low(self, register):
        name = str(self.registers.get(register, register))
        return "w" + name[1:]


class Riscv(Cpu):
    name = "riscv64"
    signature = 0xf1401073
    signature_text = ".balign 4\n.4byte 0xf1401073"
    registers = {"area": "a0", "base": "a1", "value": "a2", "other": "a3", "slot": "a4",
                 "v": "a5", "t": "t1", "sp": "sp"}
    text = {
        "address": ".option norelax\nla {0}, {1}", "number": "li {0}, {1}",
        "load4": "lwu {0}, {2}({1})", "load8": "ld {0}, {2}({1})",
        "store4": "sw {0}, {2}({1})", "store8": "sd {0}, {2}({1})",
        "add": "add {0}, {0}, {1}", "copy": "mv {0}, {1}", "add_number": "addi {0}, {0}, {1}",
        "shift": "slli {0}, {0}, {1}", "jump": "j {0}",
        "if_zero": "bnez {0}, 77f\nj {1}\n77:",
        "if_differ": "beq {0}, {1}, 78f\nj {2}\n78:",
        "call": "jal ra, {0}", "system_call": "ecall", "trap": "ebreak", "nop": "nop",
        "ret": "ret", "jump_to": "jr {0}", "atomic": "amoadd.d zero, {0}, ({1})",
        "wide": "lui t2, 0x12345", "trap_with_reason": "ebreak",
        "unknown": ".4byte 0xffffffff",
    }


CPUS = [X86(), Arm(), Riscv()]
