#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no folder refers to a higher one; the list `layers` ranks them.

usage: layers.py includes < FILES      #include lines of the files
       layers.py symbols BUILD NM      undefined symbols of the objects in a build, and cycles

A reference that `layers.known` lists, as FILE -> FILE or cycle: FILE..., passes; one that it lists
and that does not exist fails.
"""
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(nearcpu/[^>]+)>)', re.M)
# Folders that an #include is resolved against, after the file's own.
INCLUDED_FROM = ("src", "tools/nearcpu", "bench", "include")


def lines_of(name):
    for line in (HERE / name).read_text().splitlines():
        if line and not line.startswith("#"):
            yield line


class Layers:
    def __init__(self):
        self.rank, self.headers = {}, {}
        for rank, line in enumerate(lines_of("layers")):
            folders, _, headers = line.partition(":")
            self.rank.update((folder, rank) for folder in folders.split())
            self.headers.update((f"include/nearcpu/{h}", rank) for h in headers.split())
        self.errors = []

    def layer(self, path):
        """The rank of a file, and the folder that it belongs to."""
        folder = str(Path(path).parent)
        rank = self.headers.get(path, self.rank.get(folder))
        if rank is None:
            error = f"{path}: tests/lint/layers does not rank it"
            if error not in self.errors:
                self.errors.append(error)
        return rank, path if path in self.headers else folder

    def is_upward(self, path, target):
        rank, folder = self.layer(path)
        target_rank, target_folder = self.layer(target)
        if None in (rank, target_rank):
            return False
        # Headers of a line may use each other, and belong to all of its folders.
        is_public = path in self.headers or target in self.headers
        return target_rank > rank or (
            target_rank == rank and folder != target_folder and not is_public)

    def is_ranked(self, path):
        return path in self.headers or path.startswith(tuple(f"{f}/" for f in self.rank))


def report(found, layers, is_mine):
    """`found`: {line: detail}. Prints what is new, and what is known and gone."""
    known = {line for line in lines_of("layers.known") if is_mine(line)}
    cycles = {line: set(line.split()[1:]) for line in known if line.startswith("cycle:")}
    used = set()
    for line in sorted(found):
        if line.startswith("cycle:"):
            within = [k for k, files in cycles.items() if set(line.split()[1:]) <= files]
            used.update(within)
            if within:
                continue
        if line in known:
            used.add(line)
        else:
            layers.errors.append(f"{line}{found[line]}")
    for line in sorted(known - used):
        layers.errors.append(f"tests/lint/layers.known: no longer true: {line}")
    print("\n".join(layers.errors), end="\n" if layers.errors else "")
    return bool(layers.errors)


def resolve(path, name):
    for folder in (path.parent, *map(Path, INCLUDED_FROM)):
        if (ROOT / folder / name).is_file():
            return (ROOT / folder / name).resolve().relative_to(ROOT.resolve())
    return None


def includes(layers):
    found = {}
    for name in sys.stdin.read().split():
        path = Path(name)
        if path.suffix not in (".c", ".h") or not layers.is_ranked(name):
            continue
        for quoted, public in INCLUDE.findall((ROOT / path).read_text(errors="replace")):
            target = resolve(path, quoted or public)
            if target and layers.is_upward(name, str(target)):
                found[f"{name} -> {target}"] = ""
    return report(found, layers, lambda line: line.endswith(".h"))


def references(layers, build, nm):
    """{(file, file): symbols}, by the objects of the libraries."""
    defined, undefined = defaultdict(set), defaultdict(set)
    objects = [str(o) for o in Path(build).glob("CMakeFiles/*_objects.dir/**/*.c.o")]
    output = subprocess.run([nm, "-A", "-P", *objects], capture_output=True, text=True, check=True)
    for line in output.stdout.splitlines():
        o, symbol, kind = line.split()[:3]
        name = re.sub(r".*_objects\.dir/(.*)\.o:", r"\1", o)
        # malloc and __atomic_load are the C library's names; the program decides whose they are.
        if symbol.startswith("near_") and (ROOT / name).is_file() and layers.is_ranked(name):
            (undefined if kind in "Uwv" else defined)[symbol].add(name)
    found = defaultdict(set)
    for symbol, users in undefined.items():
        definers = defined.get(symbol, set())
        for user in users - definers:
            for target in definers if len(definers) == 1 else ():
                found[user, target].add(symbol)
    return found


def cycles(edges):
    """The strongly connected components of more than one file (Tarjan)."""
    index, low, stack, result = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in edges[v]:
            if w not in index:
                visit(w)
                low[v] = min(low[v], low[w])
            elif w in stack:
                low[v] = min(low[v], index[w])
        if low[v] == index[v]:
            at = stack.index(v)
            if len(stack) - at > 1:
                result.append(sorted(stack[at:]))
            del stack[at:]

    for v in list(edges):
        if v not in index:
            visit(v)
    return result


def symbols(layers, build, nm):
    found, edges = {}, defaultdict(set)
    pairs = references(layers, build, nm)
    if not pairs:
        layers.errors.append(f"{build}: no objects of src/")
    for (user, target), names in pairs.items():
        edges[user].add(target)
        if layers.is_upward(user, target):
            found[f"{user} -> {target}"] = f": {', '.join(sorted(names))}"
    for files in cycles(edges):
        detail = "".join(f"\n    {a} -> {b}: {', '.join(sorted(pairs[a, b]))}"
                         for a in files for b in files if (a, b) in pairs)
        found[f"cycle: {' '.join(files)}"] = detail
    return report(found, layers, lambda line: not line.endswith(".h"))


def main():
    layers = Layers()
    if sys.argv[1:] == ["includes"]:
        return includes(layers)
    if len(sys.argv) == 4 and sys.argv[1] == "symbols":
        return symbols(layers, *sys.argv[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
