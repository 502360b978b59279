#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The tests that a change can affect.

usage: affected.py FILE...    of the repository, also ones that are gone

Prints two patterns of ctest labels, a line each, which may be empty: the tests of the folders that
the FILEs are in, and besides them the tests of what uses these folders: whose files include one of
their headers, or do so in several steps. tests/lint/layers has the folders and their headers."""
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests/lint"))
from layers import INCLUDE, lines_of, resolve  # noqa: E402

NO_TESTS = re.compile(r"tests/(lint/.*|[^/]*)|(models|docs|man|scripts|packaging|debian|\.ci)/.*"
                      r"|dev|[^/]*\.md|meson\.build|LICENSE")
# What else an area's own tests are.
MORE = {"arch": ("emulator", "torture", "compile", "check"),
        "percpu": ("emulator", "stress", "check"), "region": ("emulator", "stress"),
        "kernel": ("emulator",), "malloc": ("dropin", "bench_malloc"),
        "atomic": ("bench_atomic",), "check": ("tool",), "waits": ("tool",),
        "tool": ("bench_malloc", "bench_atomic"),
        "bench": ("tool", "bench_malloc", "bench_atomic")}
EVERY_TEST = {"all", "test:support", "test:cmocka", "test:operations"}


def public_headers():
    """{public header: the areas that it belongs to}"""
    headers = {}
    for line in lines_of("layers"):
        folders, _, names = line.partition(":")
        for name in names.split():
            headers[name] = {f.split("/")[1] for f in folders.split() if f.startswith("src/")}
    return headers


def areas_of(path, headers):
    """A folder of src/ is an area, as are the tools, and as test:<folder> the tests alone."""
    parts = Path(path).parts
    if path == "packaging/gdb.py":
        return {"test:gdb"}
    if NO_TESTS.fullmatch(path):
        return set()
    if path.startswith("include/nearcpu/detail/arch/"):
        return {"arch"}
    if path.startswith("include/nearcpu/"):
        return headers.get(path.removeprefix("include/nearcpu/")) or {"all"}
    if parts[0] == "src" and len(parts) > 2:
        return {parts[1]}
    if path.startswith("tools/nearcpu/check/"):
        return {"check"}
    if parts[0] in ("bench", "tools"):
        return {"bench" if parts[0] == "bench" else "tool"}
    if parts[0] == "tests" and len(parts) > 2:
        return {f"test:{parts[1]}"}
    return {f"test:{parts[0]}"} if parts[0] in ("examples", "lab") else {"all"}


def users(headers):
    """{area: the areas that include a header of it}"""
    found = defaultdict(set)
    for folder in ("src", "include", "tools", "bench", "tests", "examples"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix not in (".c", ".h", ".cc", ".cpp", ".hpp"):
                continue
            mine = areas_of(str(path.relative_to(ROOT)), headers)
            for quoted, public in INCLUDE.findall(path.read_text(errors="replace")):
                target = resolve(path.relative_to(ROOT), quoted or public)
                for area in areas_of(str(target), headers) if target else ():
                    found[area] |= mine - {area, "all"}
    return found


def affected(own, found):
    """What uses the areas. Tests are affected by what they include themselves: a header of all
    tests, or another folder's, is not the thing that they test."""
    seen = set(own)
    wait = [area for area in own if not area.startswith("test:")]
    while wait:
        for user in found[wait.pop()] - seen - EVERY_TEST:
            seen.add(user)
            if not user.startswith("test:") and user not in ("tool", "bench"):
                wait.append(user)
    return seen


def pattern(areas, own):
    if areas & EVERY_TEST:
        return ".*"
    names = {area.removeprefix("test:") for area in areas}
    for area in areas:
        if area in own or area in ("arch", "region", "percpu", "kernel", "malloc", "atomic"):
            names |= set(MORE.get(area, ()))
        if area in ("check", "bench"):
            names.add("tool")
    return "|".join(sorted(f"in_{name}" for name in names - {"bench"}))


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    headers = public_headers()
    own = set().union(*(areas_of(path, headers) for path in sys.argv[1:]))
    print(pattern(own, own))
    print(pattern(affected(own, users(headers)), own) if own else "")


main()
