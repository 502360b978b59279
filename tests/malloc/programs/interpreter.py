# SPDX-License-Identifier: MIT
"""What an interpreter does with memory: small objects, strings, tables, threads, cycles."""
import gc
import json
import threading

results = {}


def work(name):
    rows = [{"id": i, "name": f"{name}-{i}", "tags": [str(i % k) for k in range(1, 8)],
             "text": "x" * (i * 37 % 900)} for i in range(3000)]
    rows.sort(key=lambda row: (row["text"], row["id"]))
    text = json.dumps(rows)
    again = json.loads(text)
    assert again == rows
    results[name] = (len(text), sum(len(row["text"]) for row in again), again[77]["name"])


threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
for name in sorted(results):
    print(name, results[name])


class Node:
    def __init__(self, other):
        self.other, self.data = other, bytearray(200)


for _ in range(20):
    nodes = [Node(None) for _ in range(2000)]
    for i, node in enumerate(nodes):
        node.other = nodes[(i * 7 + 1) % len(nodes)]
    del nodes, node
print(gc.collect() >= 0)
big = bytearray()
for i in range(300):
    big += bytes([i % 256]) * 20000
print(len(big), sum(big) % 65521)
