# SPDX-License-Identifier: MIT
"""The command: becomes the program."""
import os
import signal
import sys

from nearcpu import command


def main() -> None:
    """Executes `nearcpu` with the arguments of this process; does not return."""
    # Python ignores these two, and the program, and what it starts, would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(command(), ["nearcpu", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"nearcpu: cannot run '{command()}': {error.strerror}")


if __name__ == "__main__":
    main()
