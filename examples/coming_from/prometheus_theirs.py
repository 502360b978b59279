#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Processes that count requests together, one of which is killed, with Prometheus' client for
Python: prometheus_ours.py does the same with a region. Needs PROMETHEUS_MULTIPROC_DIR, a folder."""
import os
import signal

# [count]
from prometheus_client import CollectorRegistry, Counter, generate_latest, multiprocess

requests = Counter("requests", "Answered.", ["code"])


def worker(last):
    for _ in range(1000):
        requests.labels("200").inc()
    os.kill(os.getpid(), last)


for last in signal.SIGTERM, signal.SIGKILL:
    if os.fork() == 0:
        worker(last)
for _ in range(2):
    pid, _status = os.wait()
    multiprocess.mark_process_dead(pid)  # files of live gauges
registry = CollectorRegistry()
multiprocess.MultiProcessCollector(registry)
print(generate_latest(registry).decode(), end="")
# [/count]
