"""Faults that a user can act on: what, where, and what to do, as one sentence.

A separate module to avoid import cycles; it must not import another module of ours.
"""

from __future__ import annotations


class TrainfareError(Exception):
    """A failure that the user may be able to fix: exit code 1."""


class WrongUseError(TrainfareError):
    """The command was used in a way that cannot work: exit code 2."""


class FileFaultsError(WrongUseError):
    """A file of a user is invalid; `faults` has every reason, one line each."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("\n".join(faults))


class SqlSyntaxError(TrainfareError):
    """A user's SQL that does not parse; `pointed`: the line of it with the fault, and a caret under that."""

    def __init__(self, message: str, pointed: tuple[str, str]) -> None:
        super().__init__(message)
        self.pointed = pointed
