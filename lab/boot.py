# SPDX-License-Identifier: MIT
"""One boot of a virtual machine: starts QEMU, listens, and knows when it hangs."""

import os
import queue
import signal
import subprocess
import threading
import time

from guest import Guest

# Beyond a test's own limit, which init keeps: then init itself, or QEMU, hangs.
GRACE = 90


def end_group(process):
    """Ends a process with a group of its own and all that it started. It may have ended before."""
    try:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Running:
    """The QEMUs of this run, so that an interrupt ends all of them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.processes = set()
        self.stopped = False

    def start(self, command, environment):
        """Starts one, in a process group of its own; None after stop()."""
        with self.lock:
            if self.stopped:
                return None
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       start_new_session=True)
            self.processes.add(process)
            return process

    def end(self, process):
        """Ends one, whatever it does."""
        end_group(process)
        process.wait()
        process.stdout.close()
        with self.lock:
            self.processes.discard(process)

    def stop(self):
        """Ends all; none starts any more."""
        with self.lock:
            self.stopped = True
            for process in self.processes:
                end_group(process)


def _read_lines(process, lines, log):
    """Copies the console into the log, with the time, and line by line into the queue. A full disk
    ends it: the caller that closes the log is notified."""
    began = time.monotonic()
    try:
        for line in process.stdout:
            text = line.decode(errors="replace").rstrip("\r\n").lstrip("\r")
            log.write(f"{time.monotonic() - began:7.2f} {text}\n")
            log.flush()
            lines.put(text)
    except OSError:
        pass
    finally:
        lines.put(None)


def _limit(guest, limits, seconds):
    """How long may pass until init speaks again."""
    if guest.release is None:
        return seconds
    return limits.get(guest.running, 0) + GRACE


def _listen(guest, lines, limits, seconds, progress):
    """Waits until the guest is done (returns None), ended early or hung (returns how)."""
    since, state = time.monotonic(), None
    while True:
        now = (guest.release, guest.running, len(guest.ended))
        if now != state:
            since, state = time.monotonic(), now
            progress(guest)
        left = since + _limit(guest, limits, seconds) - time.monotonic()
        try:
            line = lines.get(timeout=max(left, 0))
        except queue.Empty:
            where = f"in {guest.running}" if guest.running else "between tests"
            return f"hung {where}" if guest.release else f"not up after {seconds} s"
        if line is None:
            return None if guest.done else "QEMU ended early"
        guest.take(line)
        if guest.done:
            return None


def boot(running, command, environment, log_path, limits, seconds, progress):
    """Boots; returns the guest and what went wrong with the machine itself, or None."""
    guest = Guest()
    process = running.start(command, environment)
    if process is None:
        return guest, "interrupted"
    with open(log_path, "w", encoding="utf-8", errors="replace") as log:
        log.write(" ".join(command) + "\n")
        lines = queue.Queue()
        reader = threading.Thread(target=_read_lines, args=(process, lines, log), daemon=True)
        reader.start()
        try:
            wrong = _listen(guest, lines, limits, seconds, progress)
            if wrong is None:
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    pass
        finally:
            end_group(process)
            reader.join(timeout=10)
            running.end(process)
    return guest, wrong
