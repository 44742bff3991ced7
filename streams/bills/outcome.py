"""What a command says of each file of bills that it loaded, here or through a worker."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from streams.bills.loading import Loaded
from streams.bills.values import total


class LoadedFile(msgspec.Struct, frozen=True):
    """One file: what it holds, and what became of it."""

    name: str
    lines: int
    billed_usd: Decimal
    corrections: int
    other_currency_lines: int
    rounded: int  # numbers of more than 18 decimals
    is_new: bool  # otherwise it was loaded already, and nothing changed
    replaces: list[str]  # the files whose bills it replaces
    format: str = ""  # as people name it
    notes: list[str] = []  # what was read in a way that its reader should know


def outcome_of(each: Loaded) -> LoadedFile:
    """What became of a file."""
    sums = each.periods.values()
    return LoadedFile(
        name=each.file.name,
        lines=each.lines,
        billed_usd=total(period.billed_usd for period in sums),
        corrections=sum(period.correction_lines for period in sums),
        other_currency_lines=sum(period.other_currency_lines for period in sums),
        rounded=each.rounded,
        is_new=each.is_new,
        replaces=each.replaces,
        format=each.title,
        notes=each.notes,
    )


def unpack_refusal(fault: Exception) -> str:
    """The words for a file that cannot be unpacked."""
    reason = (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
    return f"a file cannot be unpacked: {reason}; nothing is loaded"
