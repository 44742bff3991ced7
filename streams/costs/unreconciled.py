"""Says what speaks against closing a month that could be closed: what nobody would be charged for, or by the meter alone."""

from __future__ import annotations

from decimal import Decimal

from schemas.counting import how_many
from streams.costs.month_reader import BillsOfMonth


def unreconciled_reasons(month: str, left: Decimal, bills: BillsOfMonth, *, is_empty: bool) -> list[str]:
    """Why a month is closed only by will: it has nothing, lines without an exchange rate, or a part on no bill.

    Args:
        month: Its name, such as 2026-10.
        left: What is metered and on no bill yet (USD).
        bills: Its bills.
        is_empty: Whether nothing of it is metered or billed.
    """
    found = []
    if bills.unrated:
        lines = sum(each.lines for each in bills.unrated)
        found.append(
            f"{month}: {how_many(lines, 'line of its bills has', 'lines of its bills have')} no exchange rate, so nobody is charged for that: `trainfare fx load` "
            "loads rates; --unreconciled closes the month nevertheless"
        )
    if left:
        what = "no bill of it is loaded" if not bills.lines else "its bills do not cover them"
        found.append(
            f"{month}: {left:f} USD are metered and on no bill yet ({what}): `trainfare bills load` loads bills, "
            "`bills reconcile` says where they differ; --unreconciled closes the month with what was metered"
        )
    if not found and is_empty:
        found.append(
            f"{month}: nothing of it is metered or billed, and what is closed stays closed; --unreconciled closes it nevertheless"
        )
    return found
