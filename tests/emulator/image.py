# SPDX-License-Identifier: MIT
"""The static ELF: what to load, where functions are, and which sequences there are."""

import bisect
import struct
import subprocess
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from cpu import with_clock
from kernel import DESCRIPTOR


@dataclass(frozen=True)
class Sequence:
    descriptor: int
    start: int
    end: int  # behind the commit
    abort: int
    name: str  # the functions it was inlined into, innermost first

    def __contains__(self, pc):
        return self.start <= pc < self.end

    def __str__(self):
        return f"{self.name} at {self.start:#x}"


def _range_at(places, address):
    """Of (start, size), sorted, the range that contains the address."""
    i = bisect.bisect(places, (address, 1 << 62)) - 1
    start, size = places[i]
    return (start, start + size) if i >= 0 and address < start + size else None


class Image:
    def __init__(self, path, cpu, addr2line):
        self.path = path
        self.cpu = cpu
        self.problems = []
        with open(path, "rb") as file:
            elf = ELFFile(file)
            if elf["e_machine"] != cpu.elf_machine or elf["e_type"] != "ET_EXEC":
                raise ValueError(f"{path}: not a static program for {cpu.name}")
            self._load(elf)
            self._read_symbols(elf)
            self._read_sequences(elf, addr2line)

    def _load(self, elf):
        self.entry = elf["e_entry"]
        self.segments = [(s["p_vaddr"], self._loaded(s), s["p_memsz"], s["p_flags"])
                         for s in elf.iter_segments() if s["p_type"] == "PT_LOAD"]
        first = min(s[0] for s in self.segments)
        self.program_headers = (first + elf["e_phoff"], elf["e_phentsize"], elf["e_phnum"])
        self.end = max(address + size for address, _, size, _ in self.segments)

    def _loaded(self, segment):
        return with_clock(self.cpu, segment.data()) if segment["p_flags"] & 1 else segment.data()

    def _read_symbols(self, elf):
        self.symbols = {}
        functions, variables = set(), set()
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            self.symbols.setdefault(symbol.name, symbol["st_value"])
            kind, place = symbol["st_info"]["type"], (symbol["st_value"], symbol["st_size"])
            if kind == "STT_FUNC" and symbol["st_size"]:
                functions.add(place)
            if kind == "STT_OBJECT" and symbol["st_size"]:
                variables.add(place)
        self.functions, self.variables = sorted(functions), sorted(variables)

    def function_at(self, address):
        """The range of the function that contains the address."""
        return _range_at(self.functions, address)

    def variable_at(self, address):
        """The range of the variable that contains the address."""
        return _range_at(self.variables, address)

    def bytes_at(self, address, size):
        for start, data, _, _ in self.segments:
            if start <= address and address + size <= start + len(data):
                return data[address - start:address - start + size]
        return b""

    def u32(self, name):
        """The value of a constant of the program."""
        return int.from_bytes(self.bytes_at(self.symbols[name], 4), "little")

    def _read_sequences(self, elf, addr2line):
        section = elf.get_section_by_name("__rseq_cs")
        array = elf.get_section_by_name("__rseq_cs_ptr_array")
        self.sequences = []
        if not section or not array:
            self.problems.append("there are no sequences")
            return
        if section["sh_addr"] % 32 or section["sh_size"] % 32 or section["sh_addralign"] < 32:
            self.problems.append("__rseq_cs is not made of aligned descriptors of 32 bytes")
        found = [(section["sh_addr"] + at, *DESCRIPTOR.unpack_from(section.data(), at))
                 for at in range(0, section["sh_size"] - 31, 32)]
        listed = {p for (p,) in struct.iter_unpack("<Q", array.data())}
        if listed != {d[0] for d in found}:
            self.problems.append("__rseq_cs_ptr_array does not list the descriptors of __rseq_cs")
        names = self._names([start for _, _, _, start, _, _ in found], addr2line)
        for (at, version, flags, start, length, abort), name in zip(found, names):
            sequence = Sequence(at, start, start + length, abort, name)
            self.sequences.append(sequence)
            self._check(sequence, version, flags)

    def _check(self, s, version, flags):
        """What the kernel requires of a descriptor, before anything runs."""
        wrong = self.problems.append
        if version or flags:
            wrong(f"{s}: version {version} flags {flags}, not 0")
        if s.abort in s or s.end <= s.start:
            wrong(f"{s}: the abort handler lies inside, or the range is empty")
        if self.bytes_at(s.abort - 4, 4) != struct.pack("<I", self.cpu.signature):
            wrong(f"{s}: no signature before the abort handler")

    def _names(self, addresses, addr2line):
        """For each address the functions around it, innermost first, as the compiler inlined
        them."""
        said = subprocess.run([addr2line, "-a", "-i", "-f", "-e", self.path], text=True,
                              input="\n".join(map(hex, addresses)), capture_output=True, check=True)
        names = []
        for line in said.stdout.splitlines():
            if line.startswith("0x"):
                names.append([])
                wanted = True
            elif wanted:
                names[-1].append(line)
                wanted = False
            else:
                wanted = True
        return [" in ".join(n) for n in names]
