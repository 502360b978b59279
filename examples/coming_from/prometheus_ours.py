#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: prometheus_ours.py FILE

Processes that count requests together in the region FILE, one of which is killed.
prometheus_theirs.py does the same with Prometheus' client for Python."""
import ctypes
import os
import signal
import subprocess
import sys

# [count]
near = ctypes.CDLL("libnearcpu-ffi.so.0.2")
near.near_ffi_size.restype = ctypes.c_size_t
add = near.near_shared_counters_add
add.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64


def new(kind):
    return (ctypes.c_uint64 * (near.near_ffi_size(kind) // 8))()


class Options(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint), ("size", ctypes.c_size_t),
                ("common_size", ctypes.c_size_t), ("max_objects", ctypes.c_uint),
                ("initial", ctypes.c_void_p), ("n_initial", ctypes.c_uint),
                ("reserved", ctypes.c_uint64 * 4)]


NEAR_CREATE = 1
region, requests = new(b"region"), new(b"shared_counters")
if near.near_region_open(region, sys.argv[1].encode(), ctypes.byref(Options(flags=NEAR_CREATE))):
    sys.exit(f"{sys.argv[1]}: cannot be opened")
if near.near_shared_counters_open(requests, region, b"requests_total", b'code="200"', None):
    sys.exit("requests_total: cannot be added")


def worker(last):
    for _ in range(1000):
        add(requests, 0, 1)
    os.kill(os.getpid(), last)


for last in signal.SIGTERM, signal.SIGKILL:
    if os.fork() == 0:
        worker(last)
for _ in range(2):
    os.wait()
subprocess.run(["nearcpu", "stats", "--openmetrics", sys.argv[1]], check=True)
# [/count]
