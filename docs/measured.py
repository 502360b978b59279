#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Texts of what `nearcpu bench` measures.

    measured.py report NEARCPU [ARGUMENT...]
    measured.py page NEARCPU FOLDER
    measured.py chart NEARCPU FILE [ARGUMENT...]

report prints one text about this machine in Markdown, at most 100 columns wide, to be pasted into
an issue: from the JSON of `nearcpu bench --report ARGUMENT...`. It has no name of the host or of a
user, and no path. With --json FILE among the arguments the JSON is kept.

page runs every benchmark and writes the reports to a file that is named after the machine, in
FOLDER: docs/measured. It takes about half an hour. Run it on a quiet machine: the text reports
disturbances.

chart draws what the README shows, an SVG, to FILE: docs/bench.svg. It takes a minute on a quiet
machine: one thread for each CPU, each row the CPU time of an operation. ARGUMENTs are those of
nearcpu bench, such as --repeat 15.

NEARCPU is the command. Exit status: that of nearcpu."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from statistics import median

sys.dont_write_bytecode = True
import chart as drawing  # pylint: disable=wrong-import-position

# The benchmarks of which there is no report, by title.
TABLES = {
    "Histograms, pools and queues": ["histogram", "pool", "queue", "memory"],
    "Scheduling": ["sched"],
    "Locks": ["locks", "barrier", "broadcast", "signal", "sem", "park", "rwlock"],
    "libatomic": ["atomic"],
    "malloc": ["malloc"],
}


def run(tool, *args, **more):
    print("nearcpu bench", *args, file=sys.stderr, flush=True)
    try:
        done = subprocess.run([tool, "bench", *args], text=True, check=False, **more)
    except OSError as error:
        sys.exit(f"measured.py: {tool}: {error.strerror}")
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


# ---- the machine, as far as it explains figures ----

def read(path):
    """The first line of a file of the kernel's, or ""."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.readline().strip()
    except OSError:
        return ""


def cpu_file(name):
    return read(f"/sys/devices/system/cpu/{name}")


def mhz():
    return int(cpu_file("cpu0/cpufreq/scaling_cur_freq") or 0) / 1000


def hypervisor():
    """x86 has a flag for it; other CPUs have none."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = re.search(r"^flags.*", file.read(), re.MULTILINE)
    return "unknown" if not flags else "yes" if " hypervisor" in flags.group() else "no"


def quota():
    """CPUs that the control group may use at most, as containers have it; 0: no limit seen."""
    limit, period = (read("/sys/fs/cgroup/cpu.max").split() + ["", ""])[:2]
    if not limit:
        limit, period = (read(f"/sys/fs/cgroup/cpu/cpu.cfs_{what}_us")
                         for what in ("quota", "period"))
    return int(limit) / int(period) if limit.isdigit() and period.isdigit() else 0


def noise(load, before, now):
    """`before` and `now`: the load average and the clock."""
    clock = f", CPU 0 at {before[1]:.0f} MHz before and {now[1]:.0f} after" if now[1] else ""
    limit = f"; quota of {quota():.1f} CPUs" if quota() else ""
    governor = cpu_file("cpu0/cpufreq/scaling_governor") or "unknown"
    yield (f"noise: load average {before[0]:.1f} before, {now[0]:.1f} after; other programs used "
           f"{load['others']:.0%} of the CPU time, the hypervisor took {load['stolen']:.0%}; "
           f"governor: {governor}{clock}{limit}".replace("%", " %"))
    if not load["quiet"]:
        yield ("The machine was not quiet. Threads that share a CPU do not contend: measure again "
               "when it is idle.")


def command(args):
    """Without the names of files."""
    words = list(args)
    while "--json" in words:
        at = words.index("--json")
        del words[at:at + 2]
    return " ".join(["nearcpu bench --report", *words])


def head(run_of, args, before):
    machine, rseq = run_of["machine"], run_of["machine"]["rseq"]
    cpus, slots, kernel = machine["cpus"], machine["slots"], machine["kernel"]
    smt = {"1": "on", "0": "off"}.get(cpu_file("smt/active"), "unknown")
    settings = "".join(f"; {name}={value}" for name, value in machine["settings"].items() if value)
    yield (f"`{command(args)}`, {run_of['repeat']} repetitions, version {machine['nearcpu']}, "
           f"took {run_of['seconds']:.0f} s")
    counts = ", ".join(f"{cpus[name]['count']} {name}" for name in ("online", "possible",
                                                                    "allowed"))
    yield (f"{machine['processor']}; CPUs: {counts}; nodes: {machine['nodes']['count']}; "
           f"SMT: {smt}; virtual: {hypervisor()}")
    yield (f"{kernel['name']} {kernel['release']} {kernel['machine']}, {machine['libc']}, "
           f"{machine['memory_bytes'] / 2**30:.0f} GiB of memory, built with "
           f"{run_of['compiler']}")
    yield (f"rseq: {'live' if rseq['live'] else 'not live'}: {rseq['why']}; slots: "
           f"{slots['count']} by {slots['by']}: {slots['why']}{settings}")
    yield from noise(run_of["load"], before, (os.getloadavg()[0], mhz()))
    yield ("ns/op: CPU time, median; spread: distance of its quartiles; op/s: of all threads, by "
           "wall time; what a row is: nearcpu bench --list NAME")


# ---- numbers with their units ----

def three(value, unit=""):
    """Three significant digits, but at most four decimals."""
    decimals = next((d for d, end in ((4, .09995), (3, .9995), (2, 9.995), (1, 99.95))
                     if value < end), 0)
    return f"{value:.{decimals}f}{unit}"


def scaled(value, step, units):
    """In the unit that leaves fewest digits; each is `step` of the one before."""
    at = 0
    while value >= step - .5 and at + 1 < len(units):
        value, at = value / step, at + 1
    return three(value, units[at])


def cost_text(kind, cost):
    if kind == "memory":
        return three(cost, " bytes") if cost < 1e6 else three(cost / 1e6, " MB")
    return scaled(cost, 1000, [" ns", " us", " ms"])


def spread(figure):
    return (figure["high"] - figure["low"]) / figure["median"] * 100 if figure["median"] else 0


# ---- tables: a line is for one number of threads, our time and the others' in multiples of it ----

def cost(row):
    return row.get("bytes_each") or row["cpu_ns_per_op"]


def measured(table):
    return [row for row in table["rows"] if "samples" in row]


def base_of(tables):
    """What the others are compared with: the last of ours that was measured in some table."""
    for table in tables:
        ours = [row["name"] for row in measured(table) if row["role"] == "ours"]
        if ours and not table["apart"]:
            return ours[-1]
    return None


def ratio(row, own):
    """Of wall times, pair by pair: what slows the machine for a while slows both."""
    walls = [[s["wall_ns"] / s["ops"] for s in r["samples"]] for r in (row, own)]
    return median(a / b for a, b in zip(*walls))


def cell(row, own):
    if "samples" not in row:
        return "failed" if "failed" in row else "-"
    return three(ratio(row, own)) if own else cost_text("time", row["wall_ns_per_op"])


def line(table, base):
    rows = {row["name"]: row for row in table["rows"]}
    own, cells = rows.pop(base, None), [str(table["threads"])]
    if own:
        figure = cost(own)
        cells += [f"{figure['median']:.2f}", f"{spread(figure):.0f} %",
                  scaled(1e9 / own["wall_ns_per_op"], 1000, ["", " k", " M", " G", " T"])]
    return cells + [cell(row, own) for row in rows.values()]


def markdown(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines = [[text.rjust(width) for text, width in zip(cells, widths)] for cells in lines]
    lines.insert(1, [("-" * width)[:-1] + ":" for width in widths])
    return "".join("|" + "|".join(cells) + "|\n" for cells in lines)


def table_text(tables):
    base, first = base_of(tables), tables[0]
    if not base and not first["apart"]:
        return ""
    title = f"**{first['benchmark']}**: {first['operation']}" + (
        f": {base}, and the others' wall time in multiples of its" if base else ", wall time")
    heads = ["threads"] + (["ns/op", "spread", "op/s"] if base else [])
    heads += [row["name"] for row in first["rows"] if row["name"] != base]
    return f"{title}\n\n" + markdown([heads] + [
        line(table, base) for table in tables
        if measured(table) and (not base or base in [row["name"] for row in measured(table)])])


def is_list(table):
    """Of one line: what an object takes, or what each call costs one thread."""
    return table["kind"] == "memory" or (table["apart"] and table["heading"] == table["title"])


def list_text(table):
    rows = measured(table)
    costs = ", ".join(f"{row['name']} {cost_text(table['kind'], cost(row)['median'])}"
                      for row in rows)
    if table["kind"] == "memory":
        return (f"**{table['benchmark']}**: of {table['operation']}, one of "
                f"{rows[0]['iterations']:,}, {table['threads']} threads: {costs}")
    return (f"**{table['benchmark']}**: CPU time, {table['threads']} thread: {costs}; widest "
            f"spread {max(spread(cost(row)) for row in rows):.0f} %")


def notes(tables):
    """Why rows are missing, each reason once; of rows missing in all tables of a benchmark, the
    last one is named."""
    rows = {}
    for table, after in zip(tables, tables[1:] + [{}]):
        names = ("benchmark", "part")
        last = any(table[name] != after.get(name) for name in names)
        for row in table["rows"]:
            for what in ("failed", "missing")[:2 if last else 1]:
                if what in row:
                    rows.setdefault((what, row[what]), {}).setdefault(
                        (table["benchmark"], table["threads"]), []).append(row["name"])
    for (what, why), which in rows.items():
        listed = ", ".join(f"{benchmark} {' '.join(names)} ({threads})"
                           for (benchmark, threads), names in which.items())
        yield f"{'failed' if what == 'failed' else 'not measured'}: {why}: rows (threads) {listed}"


def items(texts):
    wrapped = textwrap.TextWrapper(98, initial_indent="- ", subsequent_indent="  ",
                                   break_long_words=False, break_on_hyphens=False)
    return "".join(f"{wrapped.fill(text)}\n" for text in texts)


def report_text(run_of, args, before):
    """`before`: the load average and the clock before the run."""
    groups = {}
    for table in run_of["tables"]:
        groups.setdefault((table["benchmark"], table["part"]), []).append(table)
    for group in groups.values():
        group.sort(key=lambda table: table["threads"])
    shown = [group for group in groups.values() if any(map(measured, group))]
    texts = [table_text(group) for group in shown if not is_list(group[0])]
    title = "### nearcpu bench --report" + ("" if run_of["complete"]
                                            else ": INCOMPLETE, time was up")
    lists = items([list_text(group[0]) for group in shown if is_list(group[0])]
                  + list(notes(sum(groups.values(), []))))
    return "\n".join(filter(None, [f"{title}\n", items(head(run_of, args, before)), *texts,
                                   lists]))


def report(tool, *args):
    before = os.getloadavg()[0], mhz()
    with tempfile.TemporaryDirectory() as folder:
        path = args[args.index("--json") + 1] if "--json" in args else f"{folder}/json"
        own = [] if "--json" in args else ["--json", path]
        run(tool, "--report", *args, *own, stdout=sys.stderr)
        with open(path, encoding="utf-8") as file:
            return report_text(json.load(file), args, before)


def machine_of(text):
    """The model of the CPU and the number of CPUs, from the head of a report."""
    model, cpus = re.search(r"^- (.+?); CPUs: (\d+) online", text, re.MULTILINE).groups()
    return re.sub(r" *(CPU|Processor)$", "", re.sub(r"\(\w+\)", "", model)), int(cpus)


def page(tool, folder):
    text = report(tool)
    model, cpus = machine_of(text)
    path = pathlib.Path(folder, re.sub(r"\W+", "-", f"{model} {cpus}".lower()) + ".md")
    text = f"# Measured on {model}, {cpus} CPUs\n\n## The structures\n\n{text}"
    for title, names in TABLES.items():
        tables = re.sub(r" +$", "", run(tool, *names, stdout=subprocess.PIPE), flags=re.MULTILINE)
        tables = tables.strip("\n")
        text += f"\n## {title}\n\n```\n{tables}\n```\n"
    path.write_text(text, encoding="utf-8")
    print(path, file=sys.stderr)


def chart(tool, path, *args):
    """In two runs: not all of the benchmarks have parts."""
    threads = ["--threads", str(len(os.sched_getaffinity(0)))]
    runs = []
    for names in (["hitcounter", "list", "refcount", "histogram"],
                  ["pool", "idspace", "--only", "same,private"]):
        with tempfile.TemporaryDirectory() as folder:
            run(tool, *names, *threads, *args, "--json", f"{folder}/json", stdout=sys.stderr)
            with open(f"{folder}/json", encoding="utf-8") as file:
                runs.append(json.load(file))
    machine, quiet = runs[0]["machine"], all(one["load"]["quiet"] for one in runs)
    about = (f"CPU time of an operation, logarithmic; {threads[1]} threads on "
             f"{machine['cpus']['allowed']['count']} CPUs, {machine['processor']}; median of "
             f"{runs[0]['repeat']} runs" + ("" if quiet else "; the machine was not quiet"))
    text = drawing.draw(sum((one["tables"] for one in runs), []), about)
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.exit(f"measured.py: {path}: {error.strerror}")


def write(text):
    """To standard output. Without a second attempt at exit, which ends with Python's status 120."""
    try:
        print(text, end="", flush=True)
    except OSError as error:
        print(f"measured.py: standard output: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["report"] and len(sys.argv) > 2:
        write(report(*sys.argv[2:]))
    elif sys.argv[1:2] == ["page"] and len(sys.argv) == 4:
        page(*sys.argv[2:])
    elif sys.argv[1:2] == ["chart"] and len(sys.argv) > 3:
        chart(*sys.argv[2:])
    else:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
