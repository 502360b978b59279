# SPDX-License-Identifier: MIT
"""The tables: as text, and as Markdown for the README."""

from cells import GREEN, MISSING, RED, SKIPPED, UNFETCHED, Cell
from problem import Unfetched
from kernels import ARCHITECTURES, KERNELS, known_gap
from machines import MACHINES


def _columns(results):
    """The (architecture, kernel) pairs that have results, in their order."""
    present = {key[:2] for key in results}
    return [(arch, kernel) for arch in ARCHITECTURES for kernel in KERNELS
            if (arch, kernel) in present]


def _together(cells):
    """One word for what a test came to on several machines."""
    red = sum(cell.state in (RED, MISSING, UNFETCHED) for cell in cells)
    if not cells:
        return "-"
    if red:
        return cells[0].state if len(cells) == 1 else f"{red} of {len(cells)} {RED}"
    green = sum(cell.state == GREEN for cell in cells)
    if not green:
        return SKIPPED
    mark = "*" if any(cell.again for cell in cells) else ""
    return ("ok" if len(cells) == 1 else f"ok {green}") + mark


class Report:
    """`results` are the runner's; `versions` the kernels' by (arch, kernel); `planned`: how many
    machines there would have been, of a run that was interrupted."""

    def __init__(self, results, versions, tests, emulator, seconds, planned=0):
        self.results = results
        self.versions = versions
        self.tests = [test.name for test in tests
                      if any(key[3] == test.name for key in results)]
        self.emulator = emulator
        self.seconds = seconds
        self.planned = planned
        self.columns = _columns(results)

    def _cells(self, arch, kernel, machine=None, test=None):
        return [cell for key, cell in self.results.items() if key[:2] == (arch, kernel) and
                machine in (None, key[2]) and test in (None, key[3])]

    def count(self, *states):
        """How many cells are in one of the states."""
        return sum(cell.state in states for cell in self.results.values())

    def failed(self):
        """Whether anything is red or missing, or nothing is green."""
        return self.count(RED, MISSING) > 0 or not self.count(GREEN)

    def incomplete(self):
        """Whether anything did not run because the archive was being updated."""
        return self.count(UNFETCHED) > 0

    def _head(self, column):
        arch, kernel = column
        version = self.versions.get(column, kernel)
        _, _, flavour = kernel.partition("-")
        return " ".join(word for word in (arch, version.split("-")[0], flavour) if word)

    def _rows(self):
        """The table of tests: its head and its rows."""
        head = ["test", *map(self._head, self.columns)]
        rows = [[test, *(_together(self._cells(*column, test=test)) for column in self.columns)]
                for test in self.tests]
        return head, rows

    def _machine_rows(self):
        """The table of machines: how many tests were green of those that ran."""
        machines = [name for name in MACHINES if any(key[2] == name for key in self.results)]
        head = ["kernel", *machines]
        rows = []
        for column in self.columns:
            row = [self._head(column)]
            for machine in machines:
                cells = self._cells(*column, machine=machine)
                ran = [cell for cell in cells if cell.state != SKIPPED]
                green = sum(cell.state == GREEN for cell in ran)
                row.append(f"{green} of {len(ran)} ok" if cells else "-")
            rows.append(row)
        return head, rows

    def _remarks(self):
        """What is not plainly green, each once."""
        remarks = {}
        for (arch, kernel, machine, test), cell in sorted(self.results.items()):
            where = f"{test} on {arch} {kernel} {machine}"
            if cell.state in (RED, MISSING, UNFETCHED):
                remarks[f"{cell.state}: {where}: {cell.reason}"] = None
            if cell.again:
                remarks[f"started twice: {arch} {kernel} {machine}: {cell.again}"] = None
        skipped = {}
        for (arch, kernel, _, test), cell in sorted(self.results.items()):
            if cell.state == SKIPPED:
                skipped.setdefault((test, cell.reason), set()).add(f"{arch} {kernel}")
        for (test, reason), places in skipped.items():
            remarks[f"skipped: {test} on {', '.join(sorted(places))}: {reason}"] = None
        for arch in dict(self.columns):
            for kernel in KERNELS:
                if known_gap(arch, kernel):
                    remarks[f"not there: {arch} {kernel}: {known_gap(arch, kernel)}"] = None
        return list(remarks)

    def summary(self):
        """One line."""
        boots = len({key[:3] for key in self.results})
        if self.planned:
            boots = f"INTERRUPTED after {boots} of {self.planned}"
        return (f"{self.count(GREEN)} ok, {self.count(RED)} failed, {self.count(SKIPPED)} "
                f"skipped, {self.count(MISSING, UNFETCHED)} not available; {boots} machines, QEMU "
                f"{self.emulator}, {self.seconds / 60:.0f} minutes")

    @staticmethod
    def _text_table(head, rows):
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        return ["  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip()
                for row in [head, *rows]]

    @staticmethod
    def _markdown_table(head, rows):
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        return lines + ["| " + " | ".join(row) + " |" for row in rows]

    def _pages(self, table, mark):
        yield from table(*self._machine_rows())
        yield ""
        yield from table(*self._rows())
        yield ""
        for remark in self._remarks():
            yield mark + remark
        yield ""
        yield self.summary()

    def text(self):
        """For standard output."""
        return "\n".join(self._pages(self._text_table, "")) + "\n"

    def markdown(self):
        """For a page."""
        return "\n".join(self._pages(self._markdown_table, "- ")) + "\n"


def not_available(results, boot, problem):
    """A boot whose kernel is not to be had."""
    state = UNFETCHED if isinstance(problem, Unfetched) else MISSING
    for test in boot.tests:
        results[boot.arch, boot.kernel, boot.machine, test.name] = Cell(state, str(problem))
