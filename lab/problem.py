# SPDX-License-Identifier: MIT
"""What ends a run with a message instead of a trace."""


class Problem(Exception):
    """The message gives advice."""


class Missing(Problem):
    """The archive does not have it."""
