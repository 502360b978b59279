#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs fuzz_check on some seeds of all CPUs, as programs, shared objects, objects and archives.

usage: fuzz_test.py FUZZ_CHECK ROUNDS
       fuzz_test.py --corpus DIRECTORY    writes them to a directory, for libFuzzer
"""
import os
import subprocess
import sys
import tempfile

import seeds
from cpus import CPUS
from tutorial import SOURCES

NAMES = ("sound", "call", "loop", "exit-unlisted", "descriptor-unlisted")
FORMS = {"object": ["-c"], "static": ["-nostdlib", "-static"], "pie": ["-nostdlib", "-pie"],
         "stripped": ["-nostdlib", "-shared", "-s"]}


def build_corpus(directory):
    paths = []
    for cpu in CPUS:
        if not cpu.compilers():
            continue
        sources = {s.name: s.source(cpu) for s in [seeds.SOUND] + seeds.SEEDS if s.name in NAMES}
        if cpu.name in SOURCES:
            sources["tutorial"] = SOURCES[cpu.name]
        for name, text in sources.items():
            source = os.path.join(directory, "source.s")
            with open(source, "w") as file:
                file.write(text)
            for form, options in FORMS.items():
                paths.append(os.path.join(directory, f"{name}.{cpu.name}.{form}"))
                cpu.compile(source, paths[-1], *options)
            os.unlink(source)
    archive = os.path.join(directory, "all.a")
    subprocess.run(["ar", "rc", archive] + [p for p in paths if p.endswith(".object")], check=True)
    return paths + [archive]


if __name__ == "__main__":
    if sys.argv[1] == "--corpus":
        os.makedirs(sys.argv[2], exist_ok=True)
        build_corpus(sys.argv[2])
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="nearcpu-fuzz-") as temporary:
        sys.exit(subprocess.run([sys.argv[1], sys.argv[2], *build_corpus(temporary)],
                                stdin=subprocess.DEVNULL, check=False).returncode)
