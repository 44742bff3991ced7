"""Faults that a user can act on: what, where, and what to do, as one sentence.

A separate module to avoid import cycles; it must not import another module of ours.
"""

from __future__ import annotations

from collections.abc import Sequence


class TrainfareError(Exception):
    """A failure that the user may be able to fix: exit code 1."""


class WrongUseError(TrainfareError):
    """The command was used in a way that cannot work: exit code 2."""


class FaultsError(WrongUseError):
    """Something that a user wrote has faults; `faults` has every one, and each is a line as text."""

    faults: Sequence[object]


class FileFaultsError(FaultsError):
    """A file of a user is invalid."""

    def __init__(self, faults: list[str]) -> None:
        self.faults: list[str] = faults
        super().__init__("\n".join(faults))


class SqlSyntaxError(TrainfareError):
    """A user's SQL that does not parse; `pointed`: the line of it with the fault, and a caret under that."""

    def __init__(self, message: str, pointed: tuple[str, str]) -> None:
        super().__init__(message)
        self.pointed = pointed


def why_no_answer(fault: BaseException) -> str:
    """Why nothing answered, in the system's words (`Connection refused`), where it has any; else the name of the fault."""
    each: BaseException | None = fault
    while each is not None:
        if isinstance(each, OSError) and each.strerror:
            return each.strerror
        each = each.__cause__ or each.__context__
    return type(fault).__name__
