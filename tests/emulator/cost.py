#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Counts, in an emulator, what each operation of the library does on machines of 2 to 1,024 CPUs,
and prints it as the tables of docs/scale.md.

    cost.py DIRECTORY CPU COMPILER...                prints the tables
    cost.py --update FILE DIRECTORY CPU COMPILER...  puts them between the marks in FILE
    cost.py --check FILE DIRECTORY CPU COMPILER...   fails if FILE has others

DIRECTORY is for the programs that it compiles. Exit status: 0 as it should be, 1 not so, 2 wrong
usage, 77 something is missing, or FILE was made with other compilers."""

import difflib
import os
import subprocess
import sys

import cost_others
import emu_test

SLOTS = (2, 64, 192, 1024)
BEGIN, END = "<!-- cost.py: begin -->\n", "<!-- cost.py: end -->\n"

# Label, function, what is called before on which CPU (by the number of slots); the CPU, if not 0.
OPERATIONS = (
    ("number of the CPU", "slot"),
    ("counter: add", "counter_add"),
    ("counter: first add in a slot", "counter_add", lambda n: (), lambda n: n),
    ("counter: read", "counter_read"),
    ("counter: read_cached, young enough", "counter_read_cached",
     lambda n: [("counter_read_cached", 0)]),
    ("counter: read_cached, too old", "counter_read_cached",
     lambda n: [("counter_read_cached", 0), ("counter_reset", 0)]),
    ("counter: reset", "counter_reset"),
    ("histogram: record", "histogram_record"),
    ("histogram: first record in a slot", "histogram_record", lambda n: (), lambda n: n),
    ("stack: push", "stack_push"),
    ("stack: pop", "stack_pop", lambda n: [("put_in", 0, 0)]),
    ("stack: pop_all", "stack_pop_all", lambda n: [("put_in", 0, 0)]),
    ("stack: pop, all lists empty", "stack_pop"),
    ("stack: pop, takes the last slot's list", "stack_pop", lambda n: [("put_in", n - 1, 0)]),
    ("stack: pop, just after such a one", "stack_pop",
     lambda n: [("put_in", n - 1, 0), ("stack_pop", 0), ("put_in", n - 1, 0)]),
    ("stack: steal from the last slot", "stack_steal", lambda n: [("put_in", n - 1, 0)]),
    ("stack: drain, a node in each slot", "stack_drain",
     lambda n: [("put_in", cpu, cpu) for cpu in range(n)]),
    ("refcount: get", "refcount_get"),
    ("refcount: put", "refcount_put", lambda n: [("refcount_get", 0)]),
    ("refcount: try_get", "refcount_try_get"),
    ("refcount: kill", "refcount_kill"),
    ("refcount: get after kill", "refcount_get", lambda n: [("refcount_get_and_kill", 0)]),
    ("refcount: put after kill", "refcount_put", lambda n: [("refcount_get_and_kill", 0)]),
    ("refcount: revive", "refcount_revive", lambda n: [("refcount_kill", 0)]),
    ("shared region: add", "shared_add"),
    ("shared region: read", "shared_read"),
    ("percpu: alloc of 8 bytes", "percpu_alloc"),
    ("percpu: free of 8 bytes", "percpu_free"),
    ("rcu: section and dereference", "rcu_section"),
    ("near_lock: lock and unlock", "lock_and_unlock"),
    ("mutex: lock and unlock", "near_mutex_pair"),
    ("rwlock: read lock and unlock", "read_pair"),
    ("rwlock: write lock and unlock", "write_pair", lambda n: [("write_pair", 0)]),
    ("rwlock: write lock and unlock, after a reader", "write_pair"),
    ("sem: wait and post", "sem_pair"),
    ("pool: get and put", "pool_pair"),
    ("queue: put", "queue_put"),
    ("queue: get", "queue_get", lambda n: [("queue_put", 0)]),
    ("queue: get, empty", "queue_get"),
    ("fifo: put", "fifo_put"),
    ("fifo: get", "fifo_get", lambda n: [("fifo_put", 0)]),
    ("fifo: get, empty", "fifo_get"),
    ("near_malloc and near_free, 100 bytes", "near_malloc_pair",
     lambda n: [("near_malloc_pair", 0)]),
    ("glibc: pthread_mutex lock and unlock, and an addition", "mutex_add"),
    ("glibc: malloc and free, 100 bytes", "malloc_pair"),
    ("one atomic addition", "atomic_add"),
    ("the same of an array, by sched_getcpu", "sharded_add"),
)

COLUMNS = (("instructions", "instructions"), ("own", "own lines"), ("read", "others' lines read"),
           ("written", "others' lines written"), ("atomics", "atomics"),
           ("calls", "system calls"), ("fences", "membarriers"))


def measure(image):
    """By label: a Summary for each of SLOTS."""
    from cost_meter import Meter

    found = {label: [] for label, *_ in OPERATIONS}
    for n in SLOTS:
        meter = Meter(image, n)
        empty = meter.measure("empty")
        for label, function, *rest in OPERATIONS:
            before = rest[0](n) if rest else ()
            cpu = rest[1](n) if len(rest) > 1 else 0
            found[label].append(meter.summary(meter.measure(function, before, cpu), empty))
        meter.close()
    return found


def measure_all(directory, pairs):
    import build
    from cost_meter import compile_program
    from cpu import CPUS
    from image import Image

    measured = []
    for cpu, compiler in pairs:
        folder = os.path.join(os.path.abspath(directory), cpu)
        os.makedirs(folder, exist_ok=True)
        program = compile_program(compiler, folder)
        measured.append(measure(Image(program, CPUS[cpu], build.addr2line(compiler))))
    return measured


def version(compiler):
    """Of the compiler and of the C library that it links."""
    number = subprocess.run([compiler, "-dumpfullversion", "-dumpversion"], text=True,
                            capture_output=True, check=True).stdout.strip()
    macros = subprocess.run([compiler, "-E", "-dM", "-include", "features.h", "-x", "c",
                             "/dev/null"], text=True, capture_output=True, check=True).stdout
    library = dict(line.split(None, 2)[1:] for line in macros.splitlines() if "GLIBC" in line and
                   len(line.split()) == 3)
    return f"{number} with glibc {library.get('__GLIBC__')}.{library.get('__GLIBC_MINOR__')}"


def versions(pairs):
    words = ", ".join(f"{cpu} {version(compiler)}" for cpu, compiler in pairs)
    return f"Compiled with gcc -O2: {words}.\n"


# Tables. A cell names the CPUs' figures in turn, or one if all agree.


def cell(values):
    values = ["-" if value is None else f"{value:,}" for value in values]
    return values[0] if len(set(values)) == 1 else " / ".join(values)


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def is_constant(measured, label):
    return all(len(set(of_cpu[label])) == 1 for of_cpu in measured)


def others_rows(cpus):
    by_cpu = [cost_others.of_cpu(cpu) for cpu in cpus]
    text = ""
    for label in by_cpu[0]:
        of_label = [figures[label] or [None] * len(COLUMNS) for figures in by_cpu]
        text += row(label, *map(cell, zip(*of_label)))
    return text


def constant_table(measured, cpus):
    text = row("operation", *(head for _, head in COLUMNS))
    text += row("---", *("--:" for _ in COLUMNS))
    for label, *_ in OPERATIONS:
        if is_constant(measured, label):
            text += row(label, *(cell([getattr(m[label][0], name) for m in measured])
                                 for name, _ in COLUMNS))
    return text + others_rows(cpus)


def growing_table(measured):
    text = row("operation", "", *(f"{n:,} slots" for n in SLOTS))
    text += row("---", "---", *("--:" for _ in SLOTS))
    for label, *_ in OPERATIONS:
        if is_constant(measured, label):
            continue
        first = label
        for name, head in COLUMNS:
            values = [[getattr(m[label][i], name) for m in measured] for i in range(len(SLOTS))]
            if any(any(of_slots) for of_slots in values):
                text += row(first, head, *map(cell, values))
                first = ""
    return text


def tables(directory, pairs):
    measured = measure_all(directory, pairs)
    cpus = [cpu for cpu, _ in pairs]
    names = " / ".join(cpus)
    return (versions(pairs) + f"Where the CPUs differ, a cell has {names}.\n\n"
            "The same with any number of slots in use:\n\n" + constant_table(measured, cpus) +
            "\nDepends on how many slots are in use:\n\n" + growing_table(measured))


# The document.


def split(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(BEGIN)
    inside, found, after = rest.partition(END)
    if not found:
        sys.exit(f"{path}: no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN, inside.strip("\n") + "\n", END + after


def update(path, directory, pairs):
    before, _, after = split(path)
    text = before + "\n" + tables(directory, pairs) + "\n" + after
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


def check(path, directory, pairs):
    inside = split(path)[1]
    if not inside.startswith(versions(pairs)):
        print(f"skipped: {path} was made with other compilers:\n{inside.splitlines()[0]}\n"
              f"These are:\n{versions(pairs)}", end="")
        return 77
    now = tables(directory, pairs)
    if now == inside:
        return 0
    sys.stdout.writelines(difflib.unified_diff(inside.splitlines(True), now.splitlines(True),
                                               path, "the library as it is now"))
    print("If that is as it should be, build the target near_cost, which updates the document.")
    return 1


def main(arguments):
    action = None
    if arguments[:1] in (["--update"], ["--check"]):
        action = {"--update": update, "--check": check}[arguments.pop(0)]
        path = arguments.pop(0) if arguments else ""
    directory, *rest = arguments or [""]
    pairs = list(zip(rest[::2], rest[1::2]))
    if not pairs or len(rest) % 2 or any(cpu not in emu_test.PACKAGES for cpu, _ in pairs):
        print(__doc__, file=sys.stderr)
        return 2
    lacks = emu_test.missing(pairs)
    if lacks:
        print(f"skipped: {lacks}")
        return 77
    if action:
        return action(path, directory, pairs)
    print(tables(directory, pairs), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
