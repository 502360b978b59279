# SPDX-License-Identifier: MIT
"""The output while the laboratory works: lines, and on a terminal one more that changes."""

import shutil
import sys
import threading

from cells import GREEN, RED, SKIPPED


class Screen:
    """Writes to standard error."""

    def __init__(self):
        self.lock = threading.Lock()
        self.terminal = sys.stderr.isatty()
        self.active = {}

    def say(self, text):
        """A line that stays."""
        with self.lock:
            self._clear()
            sys.stderr.write(f"lab: {text}\n")
            self._draw()

    def note(self, name, text):
        """What is done now under that name; None: nothing any more."""
        with self.lock:
            self.active.pop(name, None)
            if text is not None:
                self.active[name] = f"{name}: {text}"
            self._clear()
            self._draw()

    def progress(self, name, guest):
        """What a machine does now."""
        where = guest.running or ("boots" if guest.release is None else "between tests")
        self.note(name, f"{where} ({len(guest.ended)} done)")

    def finished(self, boot, seconds, cells):
        """A boot is over."""
        count = {state: sum(cell.state == state for _, cell in cells)
                 for state in (GREEN, RED, SKIPPED)}
        with self.lock:
            self.active.pop(boot.name, None)
        text = f"{boot.name}: {count[GREEN]} ok, {count[RED]} failed, " \
               f"{count[SKIPPED]} skipped, {seconds:.0f} s"
        again = {cell.again for _, cell in cells if cell.again}
        if again:
            text += f"; started twice: {again.pop()}"
        self.say(text)
        for test, cell in cells:
            if cell.state == RED:
                self.say(f"  {test.name}: {cell.reason}")

    def _clear(self):
        if self.terminal:
            sys.stderr.write("\r\033[K")

    def _draw(self):
        if self.terminal and self.active:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("  ".join(self.active.values())[:width])
        sys.stderr.flush()

    def end(self):
        """Nothing changes any more."""
        with self.lock:
            self.active.clear()
            self._clear()
            sys.stderr.flush()
