"""Reads a file of a bill as a load would, and stores nothing: what it would be, and what of it is not understood."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Final, NamedTuple

from streams.bills.files import BillFile, lines_of
from streams.bills.reading import AskedFormat, LineFaults, Reading
from streams.bills.values import total

#: Services of a file that are shown by name.
_SERVICES_MAX: Final = 10_000
_FURTHER: Final = "(further services)"


class ServiceSum(NamedTuple):
    """What a file has of one service."""

    service: str
    category: str
    currency: str
    lines: int
    billed: Decimal
    effective: Decimal


class Trial(NamedTuple):
    """What a file would load as."""

    name: str
    title: str  # of its format
    lines: int
    sums: list[ServiceSum]
    unread: list[str]  # columns that mean nothing to the format, and are kept as they are
    notes: list[str]
    faults: LineFaults


def tried(file: BillFile, asked: AskedFormat) -> Trial:
    """Read a file to its end; lines that are wrong are counted.

    Raises:
        WrongUseError: It is of no format that is read, or no text.
    """
    reading = Reading(asked, is_trial=True)
    found: dict[tuple[str, str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
    lines = 0
    with file.open() as stream:
        for line in lines_of(file.name, stream, reading):
            lines += 1
            key = (line.of("service_name"), line.of("charge_category"), line.of("billing_currency"))
            if key not in found and len(found) >= _SERVICES_MAX:
                key = (_FURTHER, "", key[2])
            sums = found[key]
            costs = (Decimal(1), line.of("billed_cost"), line.of("effective_cost"))
            found[key] = [total(pair) for pair in zip(sums, costs, strict=True)]
    assert reading.faults is not None
    return Trial(
        file.name,
        reading.title,
        lines,
        [ServiceSum(*key, int(sums[0]), *sums[1:]) for key, sums in sorted(found.items())],
        reading.unread,
        reading.notes,
        reading.faults,
    )
