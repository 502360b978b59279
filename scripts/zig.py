# SPDX-License-Identifier: MIT
"""Cross compilation by Zig, of PyPI's package ziglang: its compiler, and the headers and stubs of
each glibc and of musl."""
import shutil
from pathlib import Path

import ziglang

FOLDER = Path(ziglang.__file__).resolve().parent


def write_toolchain(folder, target):
    """The compiler, ar and ranlib for a target such as x86_64-linux-gnu.2.28, in an empty folder,
    and a toolchain file of CMake that names them, whose path is returned."""
    arch = target.partition("-")[0]
    for command in (f"cc -target {target}", "ar", "ranlib"):
        tool = folder / command.split()[0]
        tool.write_text(f'#!/bin/sh\nexec "{FOLDER}/zig" {command} "$@"\n')
        tool.chmod(0o755)
    file = folder / "toolchain.cmake"
    file.write_text(
        f"set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR {arch})\n"
        f"set(CMAKE_C_COMPILER {folder}/cc)\nset(CMAKE_AR {folder}/ar)\n"
        f"set(CMAKE_RANLIB {folder}/ranlib)\n"
        f"set(CMAKE_OBJCOPY {shutil.which(arch + '-linux-gnu-objcopy')})\n")
    return file
