# SPDX-License-Identifier: MIT
"""Compiles what the emulator runs: the library and the operations as one static program."""

import hashlib
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
# Trace files, whose rings are to be full after a few events.
SMALL = ("-DNEAR__TRACE_SUB_SHIFT=9", "-DNEAR__TRACE_POINTS_SIZE=65536", "-DNEAR__TRACE_AHEAD=0")
# Each function in a section of its own, for content.py.
FLAGS = ("-std=gnu11", "-O2", "-g1", "-fno-pie", "-ffunction-sections", "-fdata-sections",
         "-pthread", "-Iinclude", "-Isrc", "-Itests/ops", *SMALL)
LINK = ("-static", "-no-pie", "-pthread")
# Else the linker changes a function because of where it is.
AS_COMPILED = {"aarch64": "-mno-fix-cortex-a53-843419", "riscv64": "-mno-relax"}
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


def _says(compiler, *arguments):
    return subprocess.run([compiler, *arguments], capture_output=True, text=True,
                          check=True).stdout.strip()


def is_clang(compiler):
    return "clang" in _says(compiler, "--version")


def _target(compiler):
    return _says(compiler, "-dumpmachine").partition("-")[0]


def _flags(compiler):
    flags = list(FLAGS)
    if is_clang(compiler):
        flags.append("-Wno-unused-command-line-argument")
    if _target(compiler) == "aarch64":
        # Else all atomics of one kind are in one function, whose accesses all count as accesses to
        # per-CPU data once one of them was.
        flags.append("-mno-outline-atomics")
    return flags + [AS_COMPILED[cpu] for cpu in AS_COMPILED if cpu == _target(compiler)]


def _run(compiler, *arguments):
    subprocess.run([compiler, *arguments], cwd=ROOT, check=True)


@dataclass(frozen=True)
class Program:
    path: str
    objects: tuple
    map: str  # of the linker
    wrapped: tuple  # symbols


def program(compiler, directory, fault=None):
    """With or without one of the faults of mutants.h."""
    flags, sources, wrapped = _flags(compiler), _sources(), ()
    if fault:
        flags += ["-include", "tests/emu/mutants.h", f"-DMUTANT={fault}"]
        sources, wrapped = [*sources, "tests/emu/mutants.c"], ("near__fence",)
    output = Path(directory) / (fault or "sound")
    folder = Path(f"{output}.objects")
    folder.mkdir(exist_ok=True)

    def compiled(source):
        path = str(folder / (source[:-2].replace("/", "_") + ".o"))
        _run(compiler, *flags, "-c", source, "-o", path)
        return path

    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        objects = tuple(pool.map(compiled, sources))
    flags = [*LINK, f"-Wl,-Map={output}.map", *(f"-Wl,--wrap={symbol}" for symbol in wrapped)]
    flags += [AS_COMPILED[cpu] for cpu in AS_COMPILED if cpu == _target(compiler)]
    _run(compiler, *flags, *objects, "-o", str(output))
    return Program(str(output), objects, f"{output}.map", wrapped)


def tools(compiler):
    """The versions of what a run depends on besides the sources."""
    import elftools
    import unicorn
    libc = Path(_says(compiler, "-print-file-name=libc.a")).read_bytes()
    return "; ".join((_says(compiler, "--version").splitlines()[0],
                      _says(compiler, "-Wl,--version").splitlines()[0],
                      f"libc.a {hashlib.sha256(libc).hexdigest()[:16]}",
                      f"unicorn {unicorn.__version__}", f"pyelftools {elftools.__version__}"))


def addr2line(compiler):
    """The one for the compiler's target; clang names none that is there."""
    return _says(compiler, "-print-prog-name=addr2line") or "addr2line"


def header_sequences(compiler, directory):
    """The names of the inline functions of the public headers that hold a sequence; whether anybody
    calls them or not. None: this compiler leaves out what is not called."""
    if is_clang(compiler):
        return None
    source, output = Path(directory) / "headers.c", Path(directory) / "headers.o"
    headers = sorted((ROOT / "include/nearcpu").glob("*.h"))
    source.write_text("".join(f"#include <nearcpu/{header.name}>\n" for header in headers))
    _run(compiler, *_flags(compiler), "-c", "-fno-inline", "-fkeep-inline-functions", str(source),
         "-o", str(output))
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
