# SPDX-License-Identifier: MIT
"""What was explored, by content: tests/emulator/explored has a file for each CPU and compiler.

A unit is an operation that was traced, or a pair of operations that was played in all modes, setups
and schedules. Its key is the hash of all that its runs can depend on: of the code and the data that
can be reached from the operations and from what makes and judges their objects, also by pointers
that the process has stored when it has started; of what it executed until then; of the emulator and
the schedules; of compiler, C library and libraries of Python; and, of a pair, of what the traces
showed of code that it can reach. Runs are exact repetitions, so a unit with the key of the record
need not run again: what it covered and learnt is in the record.

Only a run that explored something writes a record, and only if nothing was wrong."""

import json
import os
from pathlib import Path

from build import ROOT, is_clang, tools
from content import digest

FOLDER = ROOT / "tests/emulator/explored"


def _own_sources():
    sources = sorted((ROOT / "tests/emulator").glob("*.py"))
    return digest(*(path.read_text("utf-8") for path in sources
                    if not path.name.startswith(("cost", "content_test", "session_test"))))


class Record:
    def __init__(self, name, *compilers):
        # There is none of clang's code: it is explored in its turn.
        self._path = None if is_clang(compilers[0]) else FOLDER / name
        self.tools = "\n  ".join(tools(compiler) for compiler in compilers)
        self.environment = digest(_own_sources(), self.tools)
        self.old, self.new = {}, {}
        there = self._path and self._path.exists()
        lines = self._path.read_text("utf-8").splitlines() if there else [None]
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

    def other_tools(self):
        return (f"this is not what was recorded, which is\n  {self.made_with}\nbut\n  "
                f"{self.tools}")

    def write(self):
        """Where nothing can be written, it stays as it is."""
        if not self._path:
            return
        lines = [json.dumps({"tools": self.tools})]
        lines += [json.dumps(self.new[unit], separators=(",", ":")) for unit in sorted(self.new)]
        text = "\n".join(lines) + "\n"
        if self._path.exists() and self._path.read_text("utf-8") == text:
            return
        print(f"the record has changed: {self._path.relative_to(ROOT)} is to be committed")
        temporary = self._path.with_suffix(f".{os.getpid()}")
        try:
            FOLDER.mkdir(exist_ok=True)
            temporary.write_text(text, "utf-8")
            temporary.replace(self._path)
        except OSError as error:
            print(f"the record was not written: {error}")
