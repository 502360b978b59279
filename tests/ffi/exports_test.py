#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""libnearcpu-ffi has each inline function and each type of the public headers, and libnearcpu each
other function.

usage: exports_test.py INCLUDE SHARED STATIC CORE CORE_STATIC COMPILER...

The compiler lists the functions: an option makes it emit those that are static and inline. So no
layout of a header hides one.
"""
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

INCLUDE = SHARED = STATIC = CORE = CORE_STATIC = ""
COMPILER = []
OTHER_LIBRARIES = ("malloc.h", "torture.h")
OWN = {"near_ffi_size"}
# Of pointers of any type: an acquire load and a release store, which other languages have.
GENERIC = {"near_rcu_assign", "near_rcu_dereference"}
# Their static initialisers are more than zeros: each has a function that does the same.
INITIALISED_BY = {"NEAR_BARRIER_INIT": "near_barrier_init", "NEAR_SEM_INIT": "near_sem_init",
                  "NEAR_RWLOCK_INIT_WRITERS_FIRST": "near_rwlock_init"}


def text_of_headers(others=(), folder=None):
    paths = glob.glob(os.path.join(INCLUDE, "nearcpu", "*.h")) + (
        glob.glob(os.path.join(folder, "*.h")) if folder else [])
    return "".join(f'#include "{path}"\n' for path in sorted(paths)
                   if os.path.basename(path) not in others)


def compiled(text, *flags):
    result = subprocess.run([*COMPILER, "-std=gnu11", f"-I{INCLUDE}", "-x", "c", *flags, "-"],
                            input=text, text=True, stdout=subprocess.PIPE, check=True)
    return result.stdout


def symbols_of(path, *flags):
    out = subprocess.run(["nm", *flags, path], check=True, text=True,
                         stdout=subprocess.PIPE).stdout
    fields = [line.split() for line in out.splitlines()]
    return {(f[-2], f[-1].split("@")[0]) for f in fields if len(f) >= 2}


def inline_functions(folder=None):
    """Public: near_, not near__."""
    keep = ["-fkeep-inline-functions"]
    if "clang" in subprocess.run([*COMPILER, "--version"], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout:
        keep = ["-Dinline=inline __attribute__((used))"]
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "headers.o")
        compiled(text_of_headers(folder=folder), "-O0", *keep, "-c", "-o", path)
        return {name for kind, name in symbols_of(path)
                if kind in "tTwW" and re.match("near_[a-z]", name)}


def types():
    """The complete ones: those with braces."""
    text = compiled(text_of_headers(OTHER_LIBRARIES), "-E", "-P")
    text = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", text)
    return set(re.findall(r"\bstruct\s+near_([a-z]\w*)\s*\{", text))


def sizes(names):
    """By the compiler: (size, alignment)."""
    body = "".join(f'__asm__ volatile("# size {n} %c0 %c1" : : "i"(sizeof(struct near_{n})), '
                   f'"i"(_Alignof(struct near_{n})));\n' for n in sorted(names))
    text = f"{text_of_headers()}void sizes(void);\nvoid sizes(void)\n{{\n{body}}}\n"
    return {name: (int(size), int(align)) for name, size, align in re.findall(
        r"# size (\w+) \$?#?(\d+) \$?#?(\d+)", compiled(text, "-O1", "-S", "-o", "-"))}


class Exports(unittest.TestCase):
    maxDiff = None

    def test_both_libraries_have_each_inline_function(self):
        wanted = inline_functions()
        self.assertGreater(len(wanted), 30)
        shared = {name for kind, name in symbols_of(SHARED, "-D", "--defined-only")
                  if kind in "TWi"}
        self.assertEqual(shared, wanted | OWN)
        static = {name for kind, name in symbols_of(STATIC, "--defined-only")
                  if kind in "TW"}
        self.assertEqual(static, wanted | OWN)

    def test_the_core_has_the_other_functions(self):
        text = compiled(text_of_headers(OTHER_LIBRARIES), "-E", "-P")
        declared = set(re.findall(r'visibility\("default"\)\)\)[^;{=()]*[ *](near_[a-z]\w*)\s*\(',
                                  text))
        self.assertGreater(len(declared), 60)
        exported = {name for kind, name in symbols_of(CORE, "-D", "--defined-only")
                    if kind in "TWi"}
        self.assertEqual(declared - exported, set())

    def test_the_archives_define_nothing_twice(self):
        core = {name for kind, name in symbols_of(CORE_STATIC, "--defined-only")
                if kind in "TDBRVWuC"}
        ours = {name for kind, name in symbols_of(STATIC, "--defined-only") if kind in "TDBRVWuC"}
        self.assertGreater(len(core), 100)
        self.assertEqual(core & ours, set())

    def test_the_libraries_define_no_data(self):
        for path, flags in ((SHARED, ["-D", "--defined-only"]), (STATIC, ["--defined-only"])):
            data = {name for kind, name in symbols_of(path, *flags) if kind in "BDRGSVuC"}
            self.assertEqual(data, set(), path)

    def test_a_function_that_is_added_is_found(self):
        added = """
            #include <nearcpu/api.h>
            static
            __attribute__((unused)) inline int near_added_one(int a) { return a; }
            NEAR_INLINE void near_added_two(void) {}
            /* static inline void near_not_added(void) {} */
            NEAR_INLINE const int *near_added_three(
                int (*f)(void)) { return f() ? (const int *)0 : (const int *)0; }
            NEAR_INLINE int near__private(void) { return 0; }
            """
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "added.h"), "w", encoding="ascii") as file:
                file.write(added)
            self.assertEqual(inline_functions(folder) - inline_functions(),
                             {"near_added_one", "near_added_two", "near_added_three"})

    def test_no_macro_stands_for_a_function(self):
        macros = compiled(text_of_headers(), "-E", "-dM")
        self.assertEqual(set(re.findall(r"^#define (near_[a-z]\w*)", macros, re.M)), GENERIC)

    def test_each_type_has_its_size(self):
        lib = ctypes.CDLL(SHARED)
        lib.near_ffi_size.restype = ctypes.c_size_t
        names = types()
        self.assertGreater(len(names), 20)
        by_compiler = sizes(names)
        self.assertEqual({n: lib.near_ffi_size(n.encode()) for n in names},
                         {n: size for n, (size, _) in by_compiler.items()})
        self.assertLessEqual(max(align for _, align in by_compiler.values()), 8)
        for other in (b"", b"nothing", b"counter ", b"near_counter"):
            self.assertEqual(lib.near_ffi_size(other), 0)

    def test_zeros_are_initialised_or_a_function_does_it(self):
        headers = text_of_headers(OTHER_LIBRARIES)
        macros = re.findall(r"^#define (NEAR_\w+_INIT\w*)(\(?)",
                            compiled(headers, "-E", "-dM"), re.M)
        uses = "".join(f'@"{name}" {name}{"(1)" if more else ""}@\n' for name, more in macros)
        values = dict(re.findall(r'@"(\w+)" ([^@]*)@', compiled(headers + uses, "-E", "-P")))
        self.assertGreater(len(values), 8)
        found = {name for name, value in values.items()
                 if not re.fullmatch(r"[{}\s0,]*", value.replace("NEAR_RWLOCK_READERS_FIRST", "0"))}
        self.assertEqual(found, set(INITIALISED_BY))
        lib = ctypes.CDLL(SHARED)
        for function in INITIALISED_BY.values():
            self.assertTrue(getattr(lib, function))


if __name__ == "__main__":
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    INCLUDE, SHARED, STATIC, CORE, CORE_STATIC = sys.argv[1:6]
    COMPILER = sys.argv[6:]
    unittest.main(argv=sys.argv[:1])
