# SPDX-License-Identifier: MIT
"""What ends a run with a message instead of a trace."""


class Problem(Exception):
    """The message gives advice."""


class Missing(Problem):
    """The archive does not have it."""


class Unfetched(Missing):
    """The archive's own index contradicts the list that would name it."""
