# SPDX-License-Identifier: MIT
"""Pseudo-terminals for tests. A container or chroot need not have any: then a test is skipped."""
import pty


def _or_skip(test, make):
    try:
        return make()
    except OSError as error:
        test.skipTest(f"no pseudo-terminal (is /dev/pts mounted?): {error}")


def open_terminal(test):
    """The two ends, as pty.openpty()."""
    return _or_skip(test, pty.openpty)


def fork_on_terminal(test):
    """As pty.fork()."""
    return _or_skip(test, pty.fork)
