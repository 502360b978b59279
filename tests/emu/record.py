# SPDX-License-Identifier: MIT
"""What was explored, by content: tests/emu/explored has a file for each CPU and kind of compiler.

A unit is an operation that was traced, or a pair of operations that was played in all modes, setups
and schedules. Its key is the hash of all that its runs can depend on: of the code and the data that
can be reached from the operations and from what makes and judges their objects; of what the process
executed until it had started; of the emulator and the schedules; of compiler, C library and
libraries of Python; and, of a pair, of what the traces showed of code that it can reach. Runs are
exact repetitions, so a unit with the key of the record need not run again: what it covered and
learnt is in the record."""

import json
import os
from pathlib import Path

from build import ROOT, is_clang, tools
from content import digest

FOLDER = ROOT / "tests/emu/explored"


def _own_sources():
    return digest(*(path.read_text() for path in sorted((ROOT / "tests/emu").glob("*.py"))
                    if not path.name.startswith("cost")))


class Record:
    def __init__(self, name, *compilers):
        # There is none of clang's code: it is explored in its turn.
        self._path = None if is_clang(compilers[0]) else FOLDER / name
        self.tools = "\n  ".join(tools(compiler) for compiler in compilers)
        self.environment = digest(_own_sources(), self.tools)
        self.old, self.new = {}, {}
        there = self._path and self._path.exists()
        lines = self._path.read_text().splitlines() if there else [None]
        self.made_with = json.loads(lines[0])["tools"] if lines[0] else None
        for line in lines[1:]:
            entry = json.loads(line)
            self.old[tuple(entry["unit"])] = entry

    def has_these_tools(self):
        return self.made_with in (None, self.tools)

    def find(self, unit, key):
        """What the record has of a unit with this key, or None."""
        entry = self.old.get(tuple(unit))
        return entry if entry and entry["key"] == key else None

    def keep(self, entry):
        self.new[tuple(entry["unit"])] = entry

    def write(self):
        """True: it differs from what is there. Where nothing can be written, it stays as it is."""
        if not self._path:
            return False
        lines = [json.dumps({"tools": self.tools})]
        lines += [json.dumps(self.new[unit], separators=(",", ":")) for unit in sorted(self.new)]
        text = "\n".join(lines) + "\n"
        if self._path.exists() and self._path.read_text() == text:
            return False
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            FOLDER.mkdir(exist_ok=True)
            temporary.write_text(text)
            temporary.replace(self._path)
        except OSError as error:
            print(f"the record was not written: {error}")
        return True
