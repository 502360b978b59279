# SPDX-License-Identifier: MIT
"""The list of tests: one a line, see the head of `list`."""

from dataclasses import dataclass, replace
import re

from problem import Problem


@dataclass(frozen=True)
class Test:
    """A line of the list. `quick`: the machines where the quick subset runs it."""
    name: str
    quick: tuple
    machines: tuple
    seconds: int
    settings: tuple
    command: tuple

    def programs(self):
        """What of the command must be in the machine: a path there begins with a slash."""
        return [self.command[0], *(word[1:] for word in self.command[1:]
                                   if word.startswith("/"))]

    def resolved(self, quick):
        """With one number of each pair LONG|SHORT."""
        def one(words):
            return tuple(re.sub(r"\b(\d+)\|(\d+)\b", r"\2" if quick else r"\1", word)
                         for word in words)
        return replace(self, settings=one(self.settings), command=one(self.command))

    def plan(self, kernel):
        """The line for init."""
        words = [kernel if word == "@" else word for word in self.command[1:]]
        return "\t".join(("run", self.name, str(self.seconds), *self.settings, "--",
                          "/" + self.command[0], *words))


def _parse_line(line, known_machines):
    fields = line.split()
    if len(fields) < 6:
        raise ValueError("it has fewer than six fields")
    name, quick, machines, seconds, settings, *command = fields
    machines = tuple(machines.split(","))
    if not re.fullmatch(r"[a-z0-9-]+", name):
        raise ValueError(f"'{name}' is no name of small letters, digits and hyphens")
    quick = {"yes": machines, "-": ()}.get(quick, tuple(quick.split(",")))
    for machine in quick:
        if machine not in machines:
            raise ValueError(f"quick is '{machine}' instead of yes, - or some of its machines")
    for machine in machines:
        if machine not in known_machines:
            raise ValueError(f"there is no machine '{machine}'")
    if not re.fullmatch(r"[1-9][0-9]*", seconds):
        raise ValueError(f"'{seconds}' is no number of seconds")
    settings = () if settings == "-" else tuple(settings.split(";"))
    if not all("=" in setting for setting in settings):
        raise ValueError("a setting is NAME=VALUE")
    return Test(name, quick, machines, int(seconds), settings, tuple(command))


def parse(text, known_machines):
    """The tests, in their order."""
    tests = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            test = _parse_line(line, known_machines)
            if test.name in tests:
                raise ValueError(f"'{test.name}' is listed twice")
        except ValueError as error:
            raise Problem(f"lab/list, line {number}: {error}") from None
        tests[test.name] = test
    return list(tests.values())
