"""Verifies a closed month: that its manifest is as it was signed, and that what is stored is what the manifest says."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from schemas.counting import how_many
from streams.costs.allocating import month_span
from streams.costs.closing import (
    ClosedMonth,
    closed_months,
    closed_rows,
    month_bills_known,
    rows_digest,
)
from streams.costs.closing_sql import bill_digest, ledger_digest
from streams.costs.exact import exact_sum
from streams.costs.month_reader import MonthSource
from streams.errors import WrongUseError

_DAYS_SHOWN = 5


class Verified(NamedTuple):
    """What was found of a closed month."""

    faults: list[str]  # something is not what was signed
    notes: list[str]  # what came since, and is an adjustment of the next month


def found_closed(store: MonthSource, month: str) -> ClosedMonth:
    """A month that is closed.

    Raises:
        WrongUseError: It is not.
    """
    month_span(month)
    closed = closed_months(store)
    if month not in closed:
        known = f"closed are {', '.join(closed)}" if closed else "no month is closed yet"
        raise WrongUseError(f"{month} is not closed ({known}); `trainfare close {month}` closes it")
    return closed[month]


def verified(store: MonthSource, month: str, *, is_signed: bool | None) -> Verified:
    """Compare what is stored of a closed month with its manifest.

    Args:
        store: The store.
        month: A closed one.
        is_signed: Whether our key made the signature; None: there is no key here.

    Raises:
        WrongUseError: The month is not closed, or its manifest cannot be read.
    """
    closed = found_closed(store, month)
    faults, notes = [], []
    if is_signed is None:
        faults.append(
            f"the signature cannot be checked: the key {closed.key_id} is not here (web.closing_key)"
        )
    elif not is_signed:
        faults.append("the manifest is not what was signed, or it was signed with another key")
    manifest = closed.read()
    if manifest.month != month:
        faults.append(f"the manifest is of {manifest.month}")
    rows = closed_rows(store, month=month)
    sums = {
        name: f"{exact_sum(row.charge_usd for row in rows if (row.of_month == month) == is_own):f}"
        for name, is_own in (("charge_usd", True), ("adjustments_usd", False))
    }
    if len(rows) != manifest.rows or rows_digest(rows) != manifest.rows_sha256:
        faults.append(
            f"the charges are not those that were closed: {how_many(len(rows), 'row')} of {sums['charge_usd']} USD and adjustments of "
            f"{sums['adjustments_usd']} USD stand, {manifest.rows} of {manifest.charge_usd} USD and {manifest.adjustments_usd} USD were closed"
        )
    span = month_span(month)
    faults += [
        f"the lines of the bill {bill.file} are not those that were closed"
        for bill in manifest.bills
        if bill_digest(store, bill.load_id, span) != bill.sha256
    ]
    earlier = [each for name, each in closed_months(store).items() if name < month]
    before = hashlib.sha256(earlier[-1].manifest.encode()).hexdigest() if earlier else ""
    if before != manifest.before:
        faults.append("the manifest of the month before is not the one that stood when this one was closed")
    today = ledger_digest(store, span)
    changed = sorted(day for day in {*today, *manifest.ledger} if today.get(day) != manifest.ledger.get(day))
    if changed:
        more = f" and {len(changed) - _DAYS_SHOWN} more" if len(changed) > _DAYS_SHOWN else ""
        notes.append(
            f"what was metered on {', '.join(changed[:_DAYS_SHOWN])}{more} has changed since: the difference is an adjustment of the next month that is closed"
        )
    standing = {bill.load_id: bill.file for bill in month_bills_known(store, month)}
    of_closing = {bill.load_id: bill.file for bill in manifest.bills}
    for what, files in (
        ("loaded", [file for load_id, file in standing.items() if load_id not in of_closing]),
        ("withdrawn or replaced", [file for load_id, file in of_closing.items() if load_id not in standing]),
    ):
        if files:
            notes.append(
                f"bills {what} since: {', '.join(sorted(files))}: the difference is an adjustment of the next month that is closed"
            )
    return Verified(faults, notes)
