#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: glibc_test.py CMAKE SOURCE FOLDER, by a Python that has the module ziglang

Compiles and links the libraries, all warnings errors, for glibc 2.28. They export what the record
of the interface has, need no symbol of a later glibc, and work with this machine's."""
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

GLIBC = (2, 28)
CMAKE, SOURCE, FOLDER = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
sys.path.insert(0, str(SOURCE / "scripts"))
import zig  # pylint: disable=wrong-import-position


def run(*command, **environment):
    done = subprocess.run([str(word) for word in command], env={**os.environ, **environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600, check=False)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def build(arch):
    """Returns the folder of the libraries and the compiler."""
    work = FOLDER / arch
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    toolchain = zig.write_toolchain(work, f"{arch}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}")
    run(CMAKE, "-S", SOURCE, "-B", work / "build", "-DCMAKE_BUILD_TYPE=Release",
        f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
        "-DNEAR_TESTS=OFF", "-DNEAR_TOOLS=OFF", "-DNEAR_WERROR=ON")
    run(CMAKE, "--build", work / "build", "--parallel", os.cpu_count())
    return work / "build", work / "cc"


def recorded(library):
    text = (SOURCE / "packaging/abi" / library).read_text()
    return set(re.findall(r"^(?:function|variable) (\S+)", text, re.M))


class OldGlibc(unittest.TestCase):
    def check_symbols(self, folder):
        libraries = sorted(folder.glob("libnearcpu*.so")) + [folder / "libatomic/libatomic.so"]
        self.assertGreater(len(libraries), 6)
        for library in libraries:
            text = run("readelf", "--wide", "--dyn-syms", library, LC_ALL="C")
            needed = {tuple(map(int, v.split("."))) for v in re.findall(r"@GLIBC_([\d.]+)", text)}
            self.assertTrue(needed, library)
            self.assertLessEqual(max(needed), GLIBC, library)
            if library.stem.startswith("libnearcpu"):
                exported = re.findall(r"(?:DEFAULT|PROTECTED) +\d+ ([^\s@]+)", text)
                self.assertEqual(set(exported), recorded(library.stem))

    def check_programs(self, folder, cc, *emulator):
        program = folder / "consumer"
        source = (SOURCE / "tests/consumer/main.c", "-O2", f"-I{SOURCE}/include", "-o", program)
        for library in ("libnearcpu.so", "libnearcpu.a"):
            run(cc, *source, folder / library, "-Wl,-rpath," + str(folder))
            self.assertIn("2000, rseq ", run(*emulator, program))

    @unittest.skipUnless(os.uname().machine == "x86_64", "another CPU")
    def test_x86_64(self):
        folder, cc = build("x86_64")
        self.check_symbols(folder)
        self.check_programs(folder, cc)
        text = run("python3", "-c", "import json; print(len(json.loads(str([1] * 999999))))",
                   LD_PRELOAD=str(folder / "libnearcpu-malloc.so"))
        self.assertEqual(text, "999999\n")

    @unittest.skipUnless(shutil.which("aarch64-linux-gnu-objcopy") and
                         shutil.which("qemu-aarch64-static"), "no packages of the matrix")
    def test_aarch64(self):
        folder, cc = build("aarch64")
        self.check_symbols(folder)
        self.check_programs(folder, cc, "qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu")


if __name__ == "__main__":
    for cache in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        os.environ[cache] = str(FOLDER / "cache")
    os.environ.pop("LD_PRELOAD", None)
    unittest.main(argv=sys.argv[:1])
