"""The faults that a user can act on: what, where, and what to do, as one sentence.

Kept apart to avoid import loops; nothing here may import another module of ours.
"""

from __future__ import annotations


class TrainfareError(Exception):
    """Something failed that the user may mend: exit code 1."""


class WrongUseError(TrainfareError):
    """The command was called in a way that cannot work: exit code 2."""
