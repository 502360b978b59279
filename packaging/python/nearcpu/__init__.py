# SPDX-License-Identifier: MIT
"""Nearcpu: per-CPU structures on Linux restartable sequences.

This package has the command `nearcpu`, also as `python -m nearcpu`, the libraries that it
preloads, and the headers of the C library. These functions return where they are."""
import os

__all__ = ["atomic_library", "command", "include_dir", "malloc_library"]

_PREFIX = os.path.join(os.path.dirname(os.path.realpath(__file__)), "prefix")


def command() -> str:
    """Returns the path of the program `nearcpu`, which needs no Python."""
    return os.path.join(_PREFIX, "bin", "nearcpu")


def include_dir() -> str:
    """Returns the directory for the compiler's option -I, of `#include <nearcpu/malloc.h>`."""
    return os.path.join(_PREFIX, "include")


def malloc_library() -> str:
    """Returns the path of the malloc, for LD_PRELOAD; `nearcpu run -- PROGRAM` preloads it."""
    return os.path.join(_PREFIX, "lib", "nearcpu", "libnearcpu-malloc.so")


def atomic_library() -> str:
    """Returns the path of the libatomic, which takes the place of GCC's if it is in LD_PRELOAD;
    `nearcpu run --atomic -- PROGRAM` preloads it."""
    return os.path.join(_PREFIX, "lib", "nearcpu", "libatomic.so.1")
