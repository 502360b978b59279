# SPDX-License-Identifier: MIT
"""The core library and the example of near_seq(7), compiled for a CPU."""
import glob
import os

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDERS = ("base", "kernel", "region", "percpu", "parking", "locks")


def sources():
    places = [os.path.join("src", folder, "*.c") for folder in FOLDERS] + ["examples/sequence.c"]
    return [path for place in places for path in glob.glob(os.path.join(ROOT, place))]


def compile_all(cpu, level, place, paths):
    """The objects, by their sources. Their names begin with the place."""
    common = [level, "-std=gnu11", "-fPIC", "-D_GNU_SOURCE", "-w",
              "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "src")]
    objects = {}
    for path in paths:
        name = os.path.relpath(path, ROOT).replace("/", "-")
        objects[path] = f"{place}{level}.{name}.o"
        cpu.compile(path, objects[path], "-c", *common)
    return objects


def link(cpu, level, place, objects):
    first, *others = objects.values()
    linked = []
    for name, options in (("so", ["-nostdlib", "-shared"]),
                          ("so-stripped", ["-nostdlib", "-shared", "-s"]),
                          ("static", ["-static"]), ("static-stripped", ["-static", "-s"])):
        linked.append(f"{place}{level}.{name}")
        cpu.compile(first, linked[-1], *options, *others, "-pthread")
    return linked
