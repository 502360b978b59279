# SPDX-License-Identifier: MIT
"""Compiles what the emulator runs: the library and the operations as one static program."""

import subprocess
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
# Trace files, whose rings are to be full after a few events.
SMALL = ("-DNEAR__TRACE_SUB_SHIFT=9", "-DNEAR__TRACE_POINTS_SIZE=65536", "-DNEAR__TRACE_AHEAD=0")
FLAGS = ("-std=gnu11", "-O2", "-g1", "-static", "-fno-pie", "-no-pie", "-pthread",
         "-Iinclude", "-Isrc", "-Itests/ops", *SMALL)
START_IP = 8  # in struct rseq_cs


def core():
    """The sources of the core library."""
    folders = ("ground", "kernel", "percpu", "parking", "locks", "queue", "rcu")
    found = [path for folder in folders for path in (ROOT / "src" / folder).glob("*.c")
             if not path.name.startswith(("list", "map"))]  # of rcu: they allocate
    return [*found, ROOT / "src/cache/array.c", ROOT / "src/cache/close.c"]


def _sources():
    ids = [ROOT / f"src/idspace/{name}.c" for name in ("bitmap", "caches", "idspace", "init")]
    found = [*core(), *ids, *ROOT.glob("src/trace/*.c"), *ROOT.glob("tests/ops/*.c"),
             ROOT / "tests/emu/main.c"]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def _is_clang(compiler):
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    return "clang" in version.stdout


def _is_for_aarch64(compiler):
    said = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=True)
    return said.stdout.startswith("aarch64")


def _compile(compiler, output, *arguments):
    if _is_clang(compiler):
        arguments = ("-Wno-unused-command-line-argument", *arguments)
    if _is_for_aarch64(compiler):
        # Else all atomics of one kind are in one function, whose accesses all count as accesses to
        # per-CPU data once one of them was.
        arguments = ("-mno-outline-atomics", *arguments)
    subprocess.run([compiler, *FLAGS, *arguments, "-o", str(output)], cwd=ROOT, check=True)
    return str(output)


def program(compiler, directory, fault=None):
    """The path of the program, with or without one of the faults of mutants.h."""
    output = Path(directory) / (fault or "sound")
    if not fault:
        return _compile(compiler, output, *_sources())
    return _compile(compiler, output, "-include", "tests/emu/mutants.h", f"-DMUTANT={fault}",
                    "-Wl,--wrap=near__fence", *_sources(), "tests/emu/mutants.c")


def addr2line(compiler):
    """The one for the compiler's target; clang names none that is there."""
    said = subprocess.run([compiler, "-print-prog-name=addr2line"], capture_output=True, text=True,
                          check=True).stdout.strip()
    return said or "addr2line"


def header_sequences(compiler, directory):
    """The names of the inline functions of the public headers that hold a sequence; whether anybody
    calls them or not. None: this compiler leaves out what is not called."""
    if _is_clang(compiler):
        return None
    source, output = Path(directory) / "headers.c", Path(directory) / "headers.o"
    headers = sorted((ROOT / "include/nearcpu").glob("*.h"))
    source.write_text("".join(f"#include <nearcpu/{header.name}>\n" for header in headers))
    _compile(compiler, output, "-c", "-fno-inline", "-fkeep-inline-functions", str(source))
    with open(output, "rb") as file:
        return set(_functions_with_sequences(ELFFile(file)))


def _functions_with_sequences(elf):
    relocations = elf.get_section_by_name(".rela__rseq_cs")
    symbols = elf.get_section_by_name(".symtab")
    functions = [s for s in symbols.iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
    for relocation in relocations.iter_relocations() if relocations else ():
        if relocation["r_offset"] % 32 != START_IP:
            continue
        symbol = symbols.get_symbol(relocation["r_info_sym"])
        address = symbol["st_value"] + relocation["r_addend"]
        for function in functions:
            start = function["st_value"]
            if (function["st_shndx"] == symbol["st_shndx"] and
                    start <= address < start + function["st_size"]):
                yield function.name
