# SPDX-License-Identifier: MIT
"""What came out of one test on one machine with one kernel."""

from dataclasses import dataclass
import re

GREEN, RED, SKIPPED, MISSING = "ok", "FAILED", "skipped", "not available"
UNFETCHED = "not fetched"  # the archive has it, but not at this moment
SKIP_STATUS = 77
# What a failed check, or cmocka's stand-in, writes.
COMPLAINT = re.compile(r"error: |\.c:\d+: |FAILED|nearcpu: ")
# What a test may also print that passes, so that it counts only where there is nothing better.
PERHAPS = re.compile(r"never |wrong")


@dataclass
class Cell:
    """The result; `reason` is why it is not green. `again`: the machine hung or did not come up
    the first time."""
    state: str
    reason: str = ""
    seconds: float = 0.0
    again: str = ""


def _complaint(lines):
    for pattern, order in (COMPLAINT, lines), (PERHAPS, lines[::-1]):
        for line in order:
            if pattern.search(line):
                return line.strip()
    return lines[-1].strip() if lines else "no output"


def from_run(ran):
    """The cell of a test that ended, see guest.Ran."""
    if ran.how == "late":
        last = f", last: {ran.lines[-1].strip()}" if ran.lines else ""
        return Cell(RED, f"not done after {ran.value} s{last}", ran.value)
    if ran.how == "signal":
        return Cell(RED, f"killed by signal {ran.value}: {_complaint(ran.lines)}")
    if ran.value == 0:
        return Cell(GREEN, seconds=ran.seconds)
    if ran.value == SKIP_STATUS:
        return Cell(SKIPPED, ran.lines[-1].strip() if ran.lines else "", ran.seconds)
    return Cell(RED, _complaint(ran.lines), ran.seconds)
