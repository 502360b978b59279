#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The record of the libraries' binary interface, and what a build differs in.

usage: abi.py check BUILD   compares the shared libraries of BUILD with packaging/abi, and names
                            each change; exit code 1: there are some, 77: it cannot be compared
       abi.py write BUILD   writes packaging/abi

packaging/abi has a file for each library, with its symbols, their versions, parameters and results;
and the file types: what programs, whose code has the inline functions, rely on in the types of the
public headers, and what copies of the library in one process share, the types of exported
variables. abidw reads both from the debug information of a build with gcc for x86_64, the preset
dev."""
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

RECORD = Path(__file__).resolve().parent.parent / "packaging/abi"
PUBLIC = re.compile(r"^(\.\./)*include/nearcpu/")
PRIVATE = re.compile(r"^(\.\./)*src/")
LIBRARIES = ["libnearcpu"] + [f"libnearcpu-{part}" for part in
                              ("alloc", "atomic", "ffi", "malloc", "torture")]
GROWS = "incompatible, unless the caller passes the size"


class Interface:
    """symbols and types: {"function near_x", "struct near_y"...: {what: value}}"""

    def __init__(self, library):
        done = subprocess.run(["abidw", "--load-all-types", "--no-corpus-path", library],
                              check=False, stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(1)
        root = ElementTree.fromstring(done.stdout)
        self.by_id = {each.get("id"): each for each in root.iter() if each.get("id")}
        self.symbols, self.types, self.seen = {}, {}, set()
        for each in root.iter("elf-symbol"):
            kind = "function" if each.get("type") == "func-type" else "variable"
            entry = self.symbols[f"{kind} {each.get('name')}"] = {}
            entry["version"] = each.get("version", "none")
            if kind == "variable":
                entry["size"] = each.get("size")
        for each in root.iter("function-decl"):
            key = "function " + (each.get("mangled-name") or each.get("name"))
            if key in self.symbols:  # abidw may give the symbol to none of several declarations
                self.add_function(self.symbols[key], each)
        variables = {re.sub(r"_\d+(_\d+)?$", "", key.split()[1]) for key in self.symbols}
        for id_, each in self.by_id.items():
            if PUBLIC.search(each.get("filepath", "")) or each.get("name") in variables:
                self.name(id_, each.get("name") in variables)

    def add_function(self, entry, each):
        entry["returns"] = self.name(each.find("return").get("type-id"))
        for n, parameter in enumerate(each.findall("parameter"), 1):
            entry[f"parameter {n}"] = "..." if parameter.get("is-variadic") else \
                self.name(parameter.get("type-id"))

    def name(self, id_, shared=False):
        """The type in C. Adds the entries of those that it is made of and that the record has;
        shared: also of private ones."""
        each = self.by_id[id_]
        inner = each.get("type-id")
        if each.tag == "pointer-type-def":
            text = self.name(inner, shared)
            return text.replace(" (", " (*)(", 1) if self.by_id[inner].tag == "function-type" else \
                text + ("*" if text.endswith("*") else " *")
        if each.tag == "qualified-type-def":
            text = self.name(inner, shared)
            words = [w for w in ("const", "volatile") if each.get(w)]
            return " ".join([text] + words if text.endswith(("*", ")")) else words + [text])
        if each.tag == "array-type-def":
            bounds = [sub.get("length") for sub in each.findall("subrange")]
            return self.name(inner, shared) + "".join(f"[{b}]" for b in bounds)
        if each.tag == "function-type":
            parameters = [self.name(p.get("type-id")) if p.get("type-id") else "..."
                          for p in each.findall("parameter")]
            return self.name(each.find("return").get("type-id")) + f" ({', '.join(parameters)})"
        return self.named(id_, each, shared)

    def named(self, id_, each, shared):
        keyword = {"class-decl": "struct ", "union-decl": "union ", "enum-decl": "enum ",
                   "typedef-decl": "typedef "}.get(each.tag, "")
        if each.get("is-anonymous"):
            parts = self.contents(each, shared)
            return keyword + "{ " + "; ".join(f"{k} {v}" for k, v in parts.items()) + " }"
        key, path = keyword + each.get("name"), each.get("filepath", "")
        if (PUBLIC.search(path) or shared and PRIVATE.search(path)) and \
                (id_, shared) not in self.seen and not each.get("is-declaration-only"):
            self.seen.add((id_, shared))
            self.types[key] = self.contents(each, shared)
        return key.replace("typedef ", "")

    def contents(self, each, shared, base=0):
        """Members of what has no name as those of `each`; base: its offset in bits."""
        found = {}
        if each.tag == "typedef-decl":
            found["is"] = self.name(each.get("type-id"), shared)
        if each.tag == "enum-decl":
            found = {e.get("name"): e.get("value") for e in each.findall("enumerator")}
        if each.get("size-in-bits"):
            found["size"] = bytes_of(int(each.get("size-in-bits")))
        for member in each.findall("data-member"):
            field = member.find("var-decl")
            offset = base + int(member.get("layout-offset-in-bits", "0"))
            if field.get("name"):
                found[f"field {field.get('name')}"] = \
                    f"at {bytes_of(offset)}, {self.name(field.get('type-id'), shared)}"
            else:
                inner = self.contents(self.by_id[field.get("type-id")], shared, offset)
                found.update({what: value for what, value in inner.items() if what != "size"})
        return found


def bytes_of(bits):
    return f"{bits // 8}" + (f" bit {bits % 8}" if bits % 8 else "")


def read_record(path):
    entries = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("\t"):
            what, _, value = line[1:].partition(": ")
            entry[what] = value
        elif not line.startswith("#"):
            entry = entries.setdefault(line, {})
    return entries


def write_record(path, entries):
    with open(path, "w", encoding="utf-8") as out:
        print("# SPDX-License-Identifier: MIT\n# Made by scripts/abi.py write.", file=out)
        for key in sorted(entries):
            print(key, *(f"\t{k}: {v}" for k, v in entries[key].items()), sep="\n", file=out)


def verdict(key, old, new):
    """Of an entry that has changed."""
    if key.startswith("enum ") and old.items() <= new.items():
        return "compatible"
    kept = {k: v for k, v in old.items() if k != "size"}
    if key.startswith("struct ") and kept.items() <= new.items():
        return GROWS
    return "incompatible"


def changes(old, new):
    """Lines that name the changes. There are no types of functions that are merged with others."""
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield f"incompatible: {key} removed"
        elif key not in old:
            yield f"compatible: {key} added"
        elif old[key] != new[key]:
            words, typed = [], "returns" in old[key].keys() & new[key].keys()
            for what in list(old[key]) + [w for w in new[key] if w not in old[key]]:
                was, now = old[key].get(what), new[key].get(what)
                if was != now and (typed or what == "version" or not key.startswith("function ")):
                    words.append(f"{what} added: {now}" if was is None else
                                 f"{what} removed, was: {was}" if now is None else
                                 f"{what} is: {now}, was: {was}")
            if words:
                yield f"{verdict(key, old[key], new[key])}: {key}: " + "; ".join(words)


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    if not shutil.which("abidw"):
        print("skipped: no abidw (package abigail-tools)")
        sys.exit(77)
    record, types = {}, {}
    for name in LIBRARIES:
        interface = Interface(Path(sys.argv[2]) / f"{name}.so")
        if not interface.types:
            print("skipped: compiled without debug information")
            sys.exit(77)
        record[name] = interface.symbols
        types.update(interface.types)
    record["types"] = types
    if sys.argv[1] == "write":
        RECORD.mkdir(exist_ok=True)
        for name, entries in record.items():
            write_record(RECORD / name, entries)
        return
    differs = [f"{name}: {line}" for name, entries in record.items()
               for line in changes(read_record(RECORD / name), entries)]
    if differs:
        print(*differs, sep="\n")
        sys.exit("VERSIONS in near_abi(7) says which changes a release may have; "
                 f"'scripts/abi.py write {sys.argv[2]}' makes a new record")


main()
