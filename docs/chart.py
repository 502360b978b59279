# SPDX-License-Identifier: MIT
"""The chart of the README, SVG, from the JSON of `nearcpu bench`: for measured.py."""

import math
from xml.sax.saxutils import escape

# A row of the chart: what is done, its benchmark and part, and the rows of its columns.
ROWS = [
    ("counter: add", "hitcounter", "", ("mutex", "atomic", "sharded", "near-cid")),
    ("free list: pop and push", "list", "", ("mutex", "tagged", "sharded", "near")),
    ("reference count: get and put", "refcount", "", (None, "atomic", "sharded", "near")),
    ("histogram: record", "histogram", "", (None, "atomic", "sharded", "near")),
    ("pool of objects: get and put", "pool", "same", ("mutex", "ck", None, "near")),
    ("id of a worker: acquire and release", "idspace", "private",
     ("mutex", "bitmap", None, "near")),
]
COLUMNS = [("one mutex", "mutex"), ("one atomic", "atomic"),
           ("sharded by sched_getcpu", "sharded"), ("Nearcpu", "near")]

# Without a chosen theme a browser has the light one. Each theme brings its background.
STYLE = """
svg { --back: #ffffff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --mutex: #b35900;
  --atomic: #8250df; --sharded: #57606a; --near: #0969da }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --text: #f0f6fc; --dim: #9198a1; --line: #3d444d; --mutex: #f0883e;
    --atomic: #d2a8ff; --sharded: #9198a1; --near: #58a6ff }
}
text { font: 13px system-ui, sans-serif; fill: var(--text) }
.value { font-size: 12px; text-anchor: middle }
.dim { font-size: 12px; fill: var(--dim) }
.tick { text-anchor: middle }
.back { fill: var(--back) }
.grid { stroke: var(--line) }
.mutex { fill: var(--mutex) } .atomic { fill: var(--atomic) }
.sharded { fill: none; stroke: var(--sharded); stroke-width: 2.5 } .near { fill: var(--near) }
.best { font-weight: bold }
"""
WIDTH, LEFT, RIGHT, TOP, STEP = 800, 250, 768, 62, 46


def three(value):
    """Three significant digits at most, as the README's table has them."""
    text = f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"
    return text.lstrip("0")


def costs(tables):
    """Of each row of the chart, in ns; None: not measured."""
    found = {(table["benchmark"], table["part"] or "", row["name"]): row["cpu_ns_per_op"]["median"]
             for table in tables for row in table["rows"] if "samples" in row}
    return [[found.get((benchmark, part, name)) for name in names]
            for _, benchmark, part, names in ROWS]


def scale(values):
    """From ns to a place, logarithmic, in whole powers of 10; and these."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    high = max(high, low + 1)
    ticks = [10.0 ** n for n in range(low, high + 1)]
    return lambda v: LEFT + (math.log10(v) - low) / (high - low) * (RIGHT - LEFT), ticks


def mark(kind, x, y):
    """A shape for each kind: colours alone would not do."""
    if kind == "mutex":
        return f'<rect class="mutex" x="{x - 5:.1f}" y="{y - 5}" width="10" height="10"/>'
    if kind == "atomic":
        return (f'<path class="atomic" d="M{x:.1f} {y - 7}l7 7l-7 7l-7 -7z"/>')
    radius = 5 if kind == "sharded" else 7
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y}" r="{radius}"/>'


def legend():
    x = LEFT
    for label, kind in reversed(COLUMNS):
        yield mark(kind, x, 22)
        yield f'<text x="{x + 12:.0f}" y="26">{escape(label)}</text>'
        x += 40 + 7 * len(label)


def row_of(label, values, y, place):
    """Values are above their marks, below if another is in the way."""
    yield f'<text x="16" y="{y + 4}">{escape(label)}</text>'
    yield f'<path class="grid" d="M{LEFT} {y}H{RIGHT}"/>'
    shown = sorted((value, kind) for value, (_, kind) in zip(values, COLUMNS) if value)
    last = {-12: 0.0, 21: 0.0}
    for value, kind in shown:
        x = place(value)
        rise = -12 if x - last[-12] > 26 else 21
        last[rise] = x
        best = " best" if kind == "near" else ""
        yield mark(kind, x, y)
        yield f'<text class="value{best}" x="{x:.1f}" y="{y + rise}">{three(value)}</text>'


def sentence(rows):
    """The chart for readers who do not see it."""
    return "; ".join(f"{label}: " + ", ".join(
        f"{name} {three(value)}" for (name, _), value in zip(COLUMNS, values) if value)
        for (label, *_), values in zip(ROWS, rows))


def draw(tables, about):
    """The SVG; `about`: the machine, for the line at its end."""
    rows = costs(tables)
    place, ticks = scale([value for values in rows for value in values if value])
    bottom = TOP + STEP * len(ROWS)
    parts = [f'<rect class="back" width="{WIDTH}" height="{bottom + 50}" rx="6"/>', *legend()]
    for tick in ticks:
        x = place(tick)
        parts += [f'<path class="grid" d="M{x:.1f} {TOP - 18}V{bottom - 8}"/>',
                  f'<text class="dim tick" x="{x:.1f}" y="{bottom + 9}">{tick:g} ns</text>']
    for at, ((label, *_), values) in enumerate(zip(ROWS, rows)):
        parts += row_of(label, values, TOP + 10 + at * STEP, place)
    parts.append(f'<text class="dim" x="16" y="{bottom + 36}">{escape(about)}</text>')
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 50}" '
            f'width="{WIDTH}" height="{bottom + 50}" role="img" aria-labelledby="title desc">\n'
            '<!-- SPDX-License-Identifier: MIT -->\n'
            '<title id="title">CPU time of an operation: one mutex, one atomic, sharded, Nearcpu'
            f'</title>\n<desc id="desc">In nanoseconds, {escape(about)}. '
            f'{escape(sentence(rows))}.</desc>\n<style>{STYLE}</style>\n{body}\n</svg>\n')
