# SPDX-License-Identifier: MIT
"""Compiles what the emulator runs: the library and the operations as one static program.

The programs of one run, with and without faults, have most objects in common: an object is kept by
what it is made from, the source as preprocessed, and used again."""

import hashlib
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[2]
# Trace files, whose rings are to be full after a few events.
SMALL = ("-DNEAR__TRACE_SUB_SHIFT=9", "-DNEAR__TRACE_POINTS_SIZE=65536", "-DNEAR__TRACE_AHEAD=0")
# Each function in a section of its own, for content.py.
FLAGS = ("-std=gnu11", "-O2", "-g1", "-fno-pie", "-ffunction-sections", "-fdata-sections",
         "-pthread", "-Iinclude", "-Isrc", "-Itests/operations", "-Itests/support",
         *SMALL)
LINK = ("-static", "-no-pie", "-pthread")
# Else the linker changes a function because of where it is.
AS_COMPILED = {"aarch64": "-mno-fix-cortex-a53-843419", "riscv64": "-mno-relax"}
START_IP = 8  # in struct rseq_cs
KEPT = 7 * 86400  # seconds, after their last use


def core():
    """The sources of the core library."""
    folders = ("base", "kernel", "percpu", "region", "parking", "locks", "queue", "rcu")
    found = [path for folder in folders for path in (ROOT / "src" / folder).glob("*.c")
             if not path.name.startswith(("list", "map"))]  # of rcu: they allocate
    return [*found, ROOT / "src/cache/array.c", ROOT / "src/cache/close.c"]


def _sources():
    ids = [ROOT / f"src/idspace/{name}.c" for name in ("idspace", "idspace_init")]
    found = [*core(), *ids, *ROOT.glob("src/trace/*.c"), *ROOT.glob("tests/operations/*.c"),
             ROOT / "tests/emulator/main.c"]
    return sorted(str(path.relative_to(ROOT)) for path in found)


@cache
def _says(compiler, *arguments):
    return subprocess.run([compiler, *arguments], capture_output=True, encoding="utf-8", check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout.strip()


def is_clang(compiler):
    return "clang" in _says(compiler, "--version")


def _target(compiler):
    return _says(compiler, "-dumpmachine").partition("-")[0]


def flags(compiler):
    found = list(FLAGS)
    if is_clang(compiler):
        found.append("-Wno-unused-command-line-argument")
    if _target(compiler) == "aarch64":
        # Else all atomics of one kind are in one function, whose accesses all count as accesses to
        # per-CPU data once one of them was.
        found.append("-mno-outline-atomics")
    return found + [AS_COMPILED[cpu] for cpu in AS_COMPILED if cpu == _target(compiler)]


def _run(compiler, *arguments):
    subprocess.run([compiler, *arguments], cwd=ROOT, check=True)


@dataclass(frozen=True)
class Program:
    path: str
    objects: tuple
    map: str  # of the linker
    wrapped: tuple  # symbols
    library: str  # the C library's archive


class Objects:
    """Those of one compiler, in a folder that programs share."""

    def __init__(self, compiler, only_preprocessor, folder):
        self._compiler, self._flags = compiler, (*flags(compiler), *only_preprocessor)
        self._folder = folder
        self._common = "\0".join((tools(compiler), *flags(compiler)))
        self._folder.mkdir(exist_ok=True)
        for path in self._folder.iterdir():
            if time.time() - path.stat().st_mtime > KEPT:
                shutil.rmtree(path, ignore_errors=True)

    def compiled(self, source):
        """The path of its object."""
        text = subprocess.run([self._compiler, *self._flags, "-E", "-P", source], cwd=ROOT,
                              capture_output=True, check=True).stdout
        made_from = f"{self._common}\0{source}\0".encode() + text
        folder = self._folder / hashlib.sha256(made_from).hexdigest()[:32]
        folder.mkdir(exist_ok=True)
        os.utime(folder)
        path = folder / (source[:-2].replace("/", "_") + ".o")
        if not path.exists():
            temporary = f"{path}.{os.getpid()}"
            subprocess.run([self._compiler, *flags(self._compiler), "-x", "cpp-output", "-c", "-",
                            "-o", temporary], cwd=ROOT, input=text, check=True)
            os.replace(temporary, path)
        return str(path)


def program(compiler, directory, fault=None):
    """With or without one of the faults of mutants.h. Objects are in a folder next to it."""
    with_fault, sources, wrapped = (), _sources(), ()
    if fault:
        with_fault = ("-include", "tests/emulator/mutants.h", f"-DMUTANT={fault}")
        sources, wrapped = [*sources, "tests/emulator/mutants.c"], ("near__fence",)
    output = Path(directory) / (fault or "sound")
    objects = Objects(compiler, with_fault, output.parent.parent / "objects")
    with ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
        made = tuple(pool.map(objects.compiled, sources))
    return link(compiler, output, made, wrapped)


def link(compiler, output, objects, wrapped=()):
    more = [f"-Wl,-Map={output}.map", *(f"-Wl,--wrap={symbol}" for symbol in wrapped)]
    more += [AS_COMPILED[cpu] for cpu in AS_COMPILED if cpu == _target(compiler)]
    _run(compiler, *LINK, *more, *objects, "-o", str(output))
    return Program(str(output), objects, f"{output}.map", wrapped, _library(compiler))


def _library(compiler):
    return _says(compiler, "-print-file-name=libc.a")


@cache
def tools(compiler):
    """The versions of what a run depends on besides the sources. A compiler's own name does not
    count."""
    import elftools
    import unicorn
    libc = Path(_library(compiler)).read_bytes()
    return "; ".join((_says(compiler, "--version").splitlines()[0].partition(" ")[2],
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
    _run(compiler, *flags(compiler), "-c", "-fno-inline", "-fkeep-inline-functions", str(source),
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
