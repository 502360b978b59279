# SPDX-License-Identifier: MIT
"""The console of a guest: the lines of init (see init.c), and the tests' between them."""

from dataclasses import dataclass, field

MARK = "@lab "
# Messages of a kernel that fails itself.
TROUBLE = ("Kernel panic", "soft lockup", "BUG: ", "Oops", "rcu_sched self-detected",
           "rcu_preempt self-detected", "rcu: INFO:", "Call Trace", "Internal error")


@dataclass
class Ran:
    """A test that ended. `how` is exit, signal or late; `value` its number."""
    how: str
    value: int
    seconds: float = 0.0
    lines: list = field(default_factory=list)


class Guest:
    """Takes the console line by line."""

    def __init__(self):
        self.release = None
        self.done = False
        self.running = None
        self.ended = {}
        self.notes = []
        self.trouble = []
        self.lines = []

    def take(self, line):
        """A line of the console, without its end."""
        if line.startswith(MARK):
            words = line[len(MARK):].split()
            handler = getattr(self, "_" + words[0], None) if words else None
            if handler and not self._was_handled(handler, words[1:]):
                self.trouble.append(f"a broken line of init: {line.strip()}")
            return
        if any(sign in line for sign in TROUBLE):
            self.trouble.append(line.strip())
        if self.running and line.strip():
            self.lines.append(line)

    @staticmethod
    def _was_handled(handler, words):
        """False where a message of the kernel is in the middle of the line. The test then has
        no end, and is run again with the machine."""
        try:
            handler(words)
        except (IndexError, ValueError):
            return False
        return True

    def _up(self, words):
        self.release = words[0] if words else "?"

    def _done(self, _words):
        self.done = True

    def _note(self, words):
        self.notes.append(" ".join(words))

    def _begin(self, words):
        self.running = words[0]
        self.lines = []

    def _end(self, words):
        name, how, value = words[0], words[1], int(words[2])
        seconds = int(words[3]) / 1000 if len(words) > 3 else 0.0
        if name != self.running or how not in ("exit", "signal", "late"):
            raise ValueError(name, how)
        self.ended[name] = Ran(how, value, seconds, self.lines)
        self.running = None
