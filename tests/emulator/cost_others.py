#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts, in the emulator, what operations of other projects do, and keeps it in cost_others.json,
from which cost.py puts it beside ours. Started by ./dev lab cost, which has fetched them.

    cost_others.py FETCHED DIRECTORY CPU COMPILER...

FETCHED is what lab/others.py fills, DIRECTORY for the programs that it compiles."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).with_name("cost_others.json")
# Label, with its version in place of {}; source; functions.
OPERATIONS = (
    ("liburcu {} memb: section and dereference", "liburcu", "liburcu_section"),
    ("librseq (linux {}): add to a counter", "librseq", "librseq_add"),
)


def of_cpu(cpu):
    """Of each label, the figures by CPU, None where it cannot be compiled for it."""
    found = json.loads(FILE.read_text("utf-8"))
    return {label: figures[cpu] for label, figures in found.items()}


def arguments(fetched, name, cpu):
    if name == "librseq":
        return ["-isystem", str(fetched / "rseq"), "tests/emulator/cost_librseq.c"]
    usr = fetched / cpu / "usr"
    libraries = [str(path) for path in sorted(usr.glob("lib/*/liburcu-*.a"), reverse=True)]
    return ["-isystem", str(usr / "include" / f"{cpu}-linux-gnu"), "-isystem", str(usr / "include"),
            "tests/emulator/cost_liburcu.c", *libraries]


def measure(fetched, folder, cpu, compiler, name, function):
    """A list in the order of cost.COLUMNS, or why there is none."""
    import build
    from cost import COLUMNS
    from cost_meter import Meter, compile_program
    from cpu import CPUS
    from image import Image

    folder.mkdir(parents=True, exist_ok=True)
    try:
        program = compile_program(compiler, folder, arguments(fetched, name, cpu),
                                  capture_output=True, text=True)
    except subprocess.CalledProcessError as problem:
        return problem.stderr.partition("error: ")[2].partition("\n")[0] or "cannot be compiled"
    meter = Meter(Image(program, CPUS[cpu], build.addr2line(compiler)), 2)
    before = [(f"{name}_make", 0), (function, 0)]
    summary = meter.summary(meter.measure(function, before), meter.measure("empty"))
    meter.close()
    return [dataclasses.asdict(summary)[column] for column, _ in COLUMNS]


def main(fetched, directory, *rest):
    fetched = Path(fetched)
    versions = json.loads((fetched / "versions").read_text("utf-8"))
    found = {}
    for label, name, function in OPERATIONS:
        of_label = found[label.format(versions[name])] = {}
        for cpu, compiler in zip(rest[::2], rest[1::2]):
            folder = Path(directory).absolute() / name / cpu
            figures = measure(fetched, folder, cpu, compiler, name, function)
            of_label[cpu] = figures if isinstance(figures, list) else None
            print(f"{name}, {cpu}: {figures}")
    FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    if len(sys.argv) < 5 or len(sys.argv) % 2 == 0:
        sys.exit(__doc__)
    main(*sys.argv[1:])
