# SPDX-License-Identifier: MIT
"""Runs the boots, some at a time. A machine that does not come up or hangs is started once more,
for what had not ended by then; a test that failed is not tried again."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
import tempfile
import time

from boot import Running, boot as start_machine
from build import pack
from cells import Cell, RED, from_run
from machines import MACHINES

ATTEMPTS = 2


class Runner:
    """Boots into `results`, a dictionary of cells by (arch, kernel, machine, test). After an
    interrupt those of machines that had not finished are gone."""

    def __init__(self, emulator, kernels, programs, logs, screen):
        self.emulator = emulator
        self.kernels = kernels
        self.programs = programs
        self.logs = logs
        self.screen = screen
        self.running = Running()
        self.results = {}

    def _attempt(self, boot, tests, number):
        """Returns the guest and what went wrong with the machine."""
        machine = MACHINES[boot.machine].on(boot.arch)
        log = self.logs / (boot.name + (f"-{number}" if number > 1 else "") + ".log")
        with tempfile.NamedTemporaryFile(prefix=boot.name, suffix=".cpio", dir=self.logs) as initrd:
            initrd.write(pack(boot, tests, self.programs[boot.arch]))
            initrd.flush()
            command = machine.command(self.emulator, self.kernels[boot.arch, boot.kernel],
                                      Path(initrd.name))
            return start_machine(self.running, command, self.emulator.environment(), log,
                                 {test.name: test.seconds for test in tests}, machine.seconds,
                                 lambda guest: self.screen.progress(boot.name, guest))

    def _put(self, boot, test, cell):
        self.results[boot.arch, boot.kernel, boot.machine, test.name] = cell

    def _boot(self, boot):
        """All tests of a boot have their cells afterwards. Returns the seconds it took."""
        began = time.monotonic()
        left, wrong, again = list(boot.tests), None, ""
        for number in range(1, ATTEMPTS + 1):
            if not left:
                break
            again = wrong or ""
            guest, wrong = self._attempt(boot, left, number)
            for test in left:
                if test.name in guest.ended:
                    cell = from_run(guest.ended[test.name])
                    cell.again = again
                    self._put(boot, test, cell)
            left = [test for test in left if test.name not in guest.ended]
            left.sort(key=lambda test: test.name == guest.running)  # what it hung in comes last
            if self.running.stopped:
                break
            wrong = wrong or "init left tests out"
        for test in left:
            trouble = f" ({guest.trouble[0]})" if guest.trouble else ""
            self._put(boot, test, Cell(RED, f"the machine: {wrong}{trouble}", again=again))
        return time.monotonic() - began

    def run(self, boots, jobs):
        """Runs them; an interrupt ends all at once."""
        pool = ThreadPoolExecutor(max_workers=jobs)
        finished = set()
        try:
            futures = {pool.submit(self._boot, boot): boot for boot in boots}
            for future in as_completed(futures):
                boot = futures[future]
                seconds = future.result()
                finished.add((boot.arch, boot.kernel, boot.machine))
                self.screen.finished(boot, seconds, [
                    (test, self.results[boot.arch, boot.kernel, boot.machine, test.name])
                    for test in boot.tests])
        finally:
            self.running.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            begun = {(boot.arch, boot.kernel, boot.machine) for boot in boots} - finished
            self.results = {key: cell for key, cell in self.results.items()
                            if key[:3] not in begun}
