"""Says what speaks against closing a month that could be closed: what nobody would be charged for, or by the meter alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.counting import how_many

if TYPE_CHECKING:
    from streams.costs.closing import Closing


def unreconciled_reasons(closing: Closing) -> list[str]:
    """Why a month is closed only by will: it has nothing, lines without an exchange rate, or a part on no bill."""
    left, bills = closing.unreconciled_usd, closing.bills
    found = []
    if bills.unrated:
        lines = sum(each.lines for each in bills.unrated)
        found.append(
            f"{closing.month}: {how_many(lines, 'line of its bills has', 'lines of its bills have')} no exchange rate, so nobody is charged for that: `trainfare fx load` "
            "loads rates; --unreconciled closes the month nevertheless"
        )
    if left:
        what = "no bill of it is loaded" if not bills.lines else "its bills do not cover them"
        found.append(
            f"{closing.month}: {left:f} USD are metered and on no bill yet ({what}): `trainfare bills load` loads bills, "
            "`bills reconcile` says where they differ; --unreconciled closes the month with what was metered"
        )
    if not found and not any(row.of_month == closing.month for row in closing.rows):
        found.append(
            f"{closing.month}: nothing of it is metered or billed, and what is closed stays closed; --unreconciled closes it nevertheless"
        )
    return found
