# SPDX-License-Identifier: MIT
"""Which machines are booted with which kernel, and what runs there."""

from dataclasses import dataclass

from kernels import ARCHITECTURES, KERNELS, known_gap
from machines import MACHINES
from problem import Problem

# For continuous integration: each architecture, the oldest and the newest kernel, larger pages.
QUICK = (("x86_64", "newest", "numa"), ("aarch64", "newest", "numa"),
         ("riscv64", "6.12", "numa"), ("x86_64", "6.1", "numa"), ("aarch64", "6.12", "sparse"),
         ("aarch64", "6.12-16k", "pages16k"))


class Unknown(Problem):
    """--only names what there is not, or leaves nothing."""


@dataclass(frozen=True)
class Boot:
    """One boot: a machine with a kernel, and the tests in their order."""
    arch: str
    kernel: str
    machine: str
    tests: tuple

    @property
    def name(self):
        """For logs and messages."""
        return f"{self.arch}-{self.kernel}-{self.machine}"


class Selection:
    """What --only names, sorted by what it is: empty means all."""

    def __init__(self, words, tests):
        kinds = {"arch": set(ARCHITECTURES), "kernel": set(KERNELS),
                 "machine": set(MACHINES), "test": {test.name for test in tests}}
        self.selected = {kind: set() for kind in kinds}
        for word in words:
            found = [kind for kind, known in kinds.items() if word in known]
            if not found:
                raise Unknown(f"--only knows no architecture, kernel, machine or test '{word}'; "
                              "--list shows them")
            for kind in found:
                self.selected[kind].add(word)

    def has(self, kind, word):
        """Whether it is wanted."""
        return not self.selected[kind] or word in self.selected[kind]


def _is_possible(arch, kernel, machine):
    there = MACHINES[machine]
    return (arch in there.architectures and kernel in there.kernels and
            not known_gap(arch, kernel))


def make(tests, words, quick):
    """The boots, those that take longest first."""
    selection = Selection(words, tests)
    boots = []
    for kernel in KERNELS:
        for machine in MACHINES:
            for arch in ARCHITECTURES:
                wanted = (selection.has("arch", arch) and selection.has("kernel", kernel) and
                          selection.has("machine", machine))
                if quick and (arch, kernel, machine) not in QUICK:
                    continue
                if not wanted or not _is_possible(arch, kernel, machine):
                    continue
                mine = tuple(test.resolved(quick) for test in tests if machine in test.machines and
                             selection.has("test", test.name) and
                             (machine in test.quick or not quick))
                if mine:
                    boots.append(Boot(arch, kernel, machine, mine))
    if not boots:
        raise Unknown("nothing is left to run; --list shows what runs where")
    return sorted(boots, key=lambda boot: -sum(test.seconds for test in boot.tests))
