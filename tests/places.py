#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where each test runs: compares the file `places` with the tests of one build.

usage: places.py check PLACES BUILD     what PLACES names of this preset is there, in its modes
       places.py write PLACES BUILD...  writes PLACES from the builds of all presets

A test that vanishes or leaves its part of ./dev test fails the comparison; a new one does not.
PLACES has a line for each test and a column for each part, with the modes in which the test runs
there, in turns or always."""
import json
import re
import subprocess
import sys
from pathlib import Path

LETTERS = {"plain": "p", "rseq_off": "r", "own_area": "o", "slot_cpu": "s", "valgrind": "v",
           "check": "c", "order": "l", "order_off": "x", "qemu": "q"}
HEAD = """# SPDX-License-Identifier: MIT
# Where each test runs, in the parts that ./dev test --list names: tests/places.py. Modes, * is one
# of another name:
# {}
"""


def parts():
    """{part: (preset, pattern of the wanted labels, of those left out)}, from scripts/test.sh."""
    text = (Path(__file__).parent.parent / "scripts/test.sh").read_text()
    text = text.replace(";BEHIND;", ";" + re.search(r"^BEHIND='(.*)'$", text, re.M)[1] + ";")
    found = {}
    for part, preset, wanted, without in re.findall(
            r'^\t"(\w+);(\w[\w-]*);([^;]*);([^;]*);', text, re.M):
        found[part] = (preset, re.compile(wanted or ".*"), re.compile(without or "(?!)"))
    return found


def tests_of(build):
    """Names and labels of the tests of a build."""
    output = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                            stdout=subprocess.PIPE).stdout
    for test in json.loads(output)["tests"]:
        labels = []
        for item in test["properties"]:
            if item["name"] == "LABELS":
                labels = item["value"]
        yield test["name"], labels


def split(name):
    """A test's name without its mode, and the letter of the mode."""
    base, _, mode = name.rpartition(".")
    if mode in LETTERS:
        return base, LETTERS[mode]
    return name, "*"


def read_build(build):
    """{part: {test: letters}}"""
    preset, tests = Path(build).name, list(tests_of(build))
    found = {}
    for part, (of_preset, wanted, without) in parts().items():
        if of_preset != preset:
            continue
        place = found.setdefault(part, {})
        for name, labels in tests:
            if any(map(wanted.fullmatch, labels)) and not any(map(without.fullmatch, labels)):
                base, letter = split(name)
                place[base] = place.get(base, "") + letter
    return found


def read_places(path):
    found, columns = {}, list(parts())
    for line in Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, *all_letters = line.split()
            for part, letters in zip(columns, all_letters, strict=True):
                if letters != "-":
                    found.setdefault(part, {})[name] = letters
    return found


def check(path, build):
    listed, found, wrong = read_places(path), read_build(build), 0
    if not any(listed.get(part) for part in found):
        sys.exit(f"{path}: nothing is listed of the preset {Path(build).name}")
    for part, tests in found.items():
        for name, letters in listed.get(part, {}).items():
            lost = set(letters) - set(tests.get(name, ""))
            if lost:
                print(f"{name}: mode {' '.join(sorted(lost))} does not run in the part {part}")
                wrong += 1
    if wrong:
        sys.exit(f"If a test has a new name or place, change its line in {path}.")


def write(path, builds):
    found, columns = {}, list(parts())
    for build in builds:
        found.update(read_build(build))
    names = sorted({name for tests in found.values() for name in tests})
    order = "".join(LETTERS.values()) + "*-"
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD.format(", ".join(f"{letter} {mode}" for mode, letter in LETTERS.items())))
        file.write(f"\n# {'test':<30} " + " ".join(f"{part:<7}" for part in columns).rstrip())
        for name in names:
            letters = ["".join(sorted(set(found.get(part, {}).get(name, "-")), key=order.index))
                       for part in columns]
            file.write(f"\n{name:<32} " + " ".join(f"{text:<7}" for text in letters).rstrip())
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    if sys.argv[1] == "write":
        write(sys.argv[2], sys.argv[3:])
    elif len(sys.argv) != 4:
        sys.exit(__doc__)
    else:
        check(sys.argv[2], sys.argv[3])
