# SPDX-License-Identifier: MIT
"""Numbers for the page about proofs, of the files that the tests read or write."""

import json
from collections import Counter

CPUS = ("x86_64", "aarch64", "riscv64")


def units_of(path):
    with open(path, encoding="utf-8") as file:
        return [line for line in map(json.loads, file) if "unit" in line]


def table(heads, rows):
    lines = [heads, ["---"] + ["--:"] * (len(heads) - 1)] + rows
    return "\n".join("|" + "|".join(map(str, line)) + "|" for line in lines)


def explored(folder):
    units = {cpu: units_of(folder / cpu) for cpu in CPUS}
    rows = [[cpu, sum(unit["unit"][0] == "pair" for unit in units[cpu]),
             f"{sum(unit.get('runs', 0) for unit in units[cpu]):,}"] for cpu in CPUS]
    names = {name for unit in units[CPUS[0]] if unit["unit"][0] == "pair"
             for name in unit["unit"][1:]}
    return len(names), table(["CPU", "pairs of operations", "runs"], rows)


def models(path):
    lines = [line.split() for line in path.read_text("utf-8").splitlines()
             if line and line[0] != "#"]
    count = Counter((line[0], line[2] == "pass") for line in lines)
    heads = ["checker", "right variants, which must pass", "broken ones, which must be caught"]
    return table(heads, [[name.capitalize(), count[name, True], count[name, False]]
                         for name in ("spin", "relacy")])


def all_facts(root):
    emulator = root / "tests/emulator/explored"
    operations, runs = explored(emulator)
    faults = {unit["unit"][2] for part in sorted(emulator.glob("faults_*"))
              for unit in units_of(part)}
    return {"operations": operations, "explored": runs, "faults": len(faults),
            "models": models(root / "models/list")}
