# SPDX-License-Identifier: MIT
"""What a run can depend on: of the objects that a program is linked from, all that can be reached
from a function.

Each function and each variable is in a section of its own (-ffunction-sections, -fdata-sections).
A section is its bytes before relocation, and its relocations: where they are, and what they name.
So its hash changes with its content, and not with the place that the linker gives it. What a
relocation names can be reached, also what is called by a pointer. A symbol that no object defines
is the C library's, of which the name counts; its version is part of each key. Where things are does
not count: nothing that is tested may depend on it."""

import bisect
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

# Sections of many sequences: each reference is to one entry.
ENTRY = {"__rseq_cs": 32, ".text.near_abort": 12}
SHF_ALLOC, SHF_EXECINSTR = 2, 4
# On x86_64 the addend of a relative reference is that to the end of the instruction.
RELATIVE = {("EM_X86_64", 2): 4, ("EM_X86_64", 4): 4}


def digest(*parts):
    """Of texts, as text."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class _Section:
    def __init__(self, file, section):
        self.file, self.name = file, section.name
        self.data = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
        self.size = section["sh_size"]
        self.kind = [section[f"sh_{f}"] for f in ("type", "flags", "addralign", "entsize")]
        self.is_code = bool(section["sh_flags"] & SHF_EXECINSTR)
        self.relocations = []  # (offset, type, target, addend), sorted

    def entry_at(self, offset):
        """Which part of the section is meant."""
        size = ENTRY.get(self.name)
        return (0, self.size) if not size else (offset // size * size, size)


@dataclass(frozen=True)
class _Place:
    """Of a section, in the program."""
    begin: int
    size: int
    label: str
    section: object  # None: it is the C library's


class Content:
    def __init__(self, program):
        self._wrapped = {}
        for symbol in program.wrapped:
            self._wrapped.update({symbol: f"__wrap_{symbol}", f"__real_{symbol}": symbol})
        self._defined = {}  # global symbol -> (section, value)
        self._weak = set()  # of these
        self._sections = {}  # (file, name, size) -> section
        self._parts = {}  # (section, start) -> (hash, parts that it names)
        self._left = {}  # part -> parts to which it has pointers besides
        self._files = {Path(path).name for path in program.objects}
        for path in program.objects:
            self._read(Path(path))
        self._places = sorted(self._linked(Path(program.map).read_text("utf-8")),
                              key=lambda p: p.begin)
        self._begins = [place.begin for place in self._places]
        if len(self.begins()) != len(self._places):
            raise ValueError("two sections have the same name")

    def _linked(self, text):
        for name, begin, size, path in re.findall(
                r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+) (\S.*)$", text, re.MULTILINE):
            begin, size, file = int(begin, 16), int(size, 16), Path(path).name
            section = self._sections.get((file, name, size))
            if begin and size and not section and name.startswith(".text") and file in self._files:
                raise ValueError(f"the linker has changed {name} of {file}")
            # Of the C library's, code alone; debug sections are at addresses of their own.
            if begin and size and (section or name.startswith(".text")):
                yield _Place(begin, size, f"{file} {name}", section)

    # What an address is called, and stays called while its section does not change.

    def _place_at(self, address):
        place = self._places[bisect.bisect(self._begins, address) - 1]
        return place if 0 <= address - place.begin < place.size else None

    def position(self, address):
        """(file and section, offset), or None: it is in none."""
        place = self._place_at(address)
        return (place.label, address - place.begin) if place else None

    def part_at(self, address):
        """The part that has the address, or None: it is the C library's."""
        place = self._place_at(address)
        if not place or not place.section:
            return None
        return place.section, place.section.entry_at(address - place.begin)[0]

    def code_without(self, parts):
        """(begin, end) of the objects' code that is not in these parts."""
        for place in self._places:
            section = place.section
            if section and section.is_code and (section, 0) not in parts:
                yield place.begin, place.begin + place.size

    def begins(self):
        """The addresses of files and sections."""
        return {place.label: place.begin for place in self._places}

    # What objects have.

    def _read(self, path):
        with open(path, "rb") as file:
            elf = ELFFile(file)
            sections = [_Section(path.name, s) if s["sh_flags"] & SHF_ALLOC else None
                        for s in elf.iter_sections()]
            table = elf.get_section_by_name(".symtab")
            symbols = [self._symbol(s, sections) for s in table.iter_symbols()]
            for section in elf.iter_sections():
                if section["sh_type"] == "SHT_RELA" and sections[section["sh_info"]]:
                    sections[section["sh_info"]].relocations = sorted(
                        ((r["r_offset"], r["r_info_type"], symbols[r["r_info_sym"]], r["r_addend"] +
                          RELATIVE.get((elf["e_machine"], r["r_info_type"]), 0))
                         for r in section.iter_relocations()), key=lambda r: r[:2])
        for section in sections:
            if section and section.size:
                name = section.file, section.name, section.size
                if name in self._sections:
                    raise ValueError(f"{path}: two sections {section.name} of the same size")
                self._sections[name] = section

    def _symbol(self, symbol, sections):
        """(section, value) if it is defined, else its name, with its value if it has one."""
        index, value = symbol["st_shndx"], symbol["st_value"]
        if not isinstance(index, int) or not sections[index]:
            return f"{symbol.name}={value}" if value else symbol.name
        bind, place = symbol["st_info"]["bind"], (sections[index], value)
        if bind == "STB_LOCAL":
            return place
        if symbol.name not in self._defined or symbol.name in self._weak:
            self._defined[symbol.name] = place
            (self._weak.add if bind == "STB_WEAK" else self._weak.discard)(symbol.name)
        return symbol.name  # another object's definition may win

    def _resolve(self, target):
        """(section, value), or the name of what the C library defines."""
        if not isinstance(target, str):
            return target
        name = self._wrapped.get(target, target)
        return self._defined.get(name, name)

    def _part(self, part):
        """(its hash, the parts that it names)"""
        if part in self._parts:
            return self._parts[part]
        section, at = part
        start, size = section.entry_at(at)
        text = [section.file, section.name, f"{section.size} {section.kind}",
                section.data[start:start + size].hex()]
        named = []
        for offset, kind, target, addend in section.relocations:
            if not start <= offset < start + size:
                continue
            place = self._resolve(target)
            if isinstance(place, str):
                text.append(f"{offset - start} {kind} {place} {addend}")
                named += self._between(place)
                continue
            to, value = place
            begin, _ = to.entry_at(value + addend)
            named.append((to, begin))
            within = value + addend - begin
            text.append(f"{offset - start} {kind} {to.file} {to.name} {within}")
        self._parts[part] = digest(*text), named
        return self._parts[part]

    def _between(self, symbol):
        """What lies behind a symbol that the linker makes: all sections of a name."""
        name = symbol[len("__start_"):] if symbol.startswith("__start_") else None
        return [part for part in self.all_parts() if part[0].name == name]

    def part_of(self, symbol):
        section, value = self._resolve(symbol)
        return section, section.entry_at(value)[0]

    def pointers_in(self, symbol, index, size):
        """The parts that the index-th of a table's entries names."""
        section, value = self._resolve(symbol)
        begin = value + index * size
        places = [self._resolve(target) + (addend,)
                  for offset, _, target, addend in section.relocations
                  if begin <= offset < begin + size]
        return [(to, to.entry_at(at + addend)[0]) for to, at, addend in places]

    def add_pointer(self, part, to):
        """That is not in the object: the process has stored it there."""
        self._left.setdefault(part, set()).add(to)

    def closure(self, roots, enters=lambda part: True):
        """The parts that can be reached by parts that it `enters`."""
        seen, left = set(), list(roots)
        while left:
            part = left.pop()
            if part not in seen and enters(part):
                seen.add(part)
                left += self._part(part)[1]
                left += self._left.get(part, ())
        return frozenset(seen)

    def with_data(self, parts, without):
        """The parts, and what they name that is not code; without some tables."""
        return self.closure(parts, lambda part: part not in without and (
            part in parts or not part[0].is_code))

    def replaced(self, archive):
        """The parts with what an archive defines too: its other members call them."""
        names = _defined_by(archive).intersection(self._defined)
        return [self.part_of(name) for name in sorted(names)]

    def all_parts(self):
        return [(s, at) for s in self._sections.values()
                for at in range(0, s.size, s.entry_at(0)[1])]

    def hash_of(self, parts):
        return digest(*sorted(self._part(part)[0] for part in parts))


def _defined_by(archive):
    """The symbols in the index of an archive: N, N offsets, N names."""
    data = Path(archive).read_bytes()
    if not data.startswith(b"!<arch>\n/ "):
        raise ValueError(f"{archive}: no index")
    index = data[68:68 + int(data[56:66])]
    names = index[4 + 4 * int.from_bytes(index[:4], "big"):]
    return {name.decode() for name in names.split(b"\0") if name}
