"""Why a record makes no event: a value that is counted and said, and stops nothing."""

from __future__ import annotations

from schemas.escaping import visible
from schemas.refusal import shown


class MappingError(Exception):
    """What is wrong with a record, or with one field that a rule makes of it.

    `reason` is one of a short list, for metrics; `where` names rule and field.
    """

    def __init__(self, reason: str, where: str, detail: str) -> None:
        super().__init__(reason, where, detail)
        self.reason = reason
        self.where = where
        self.detail = detail

    def __str__(self) -> str:
        return visible(f"{self.where}: {self.detail}" if self.where else self.detail)


def got(value: object, expected: str) -> str:
    """What was got and what was expected, with a value of a stranger's, shortened."""
    return f"got {shown(value)}, expected {expected}"
