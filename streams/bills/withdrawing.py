"""Withdraws a load of a bill that should not stand: under a wrong issuer, of another company, or loaded by mistake.

Nothing of it is removed: its lines stay under a load that stands no more, and loading the same file again puts it back.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa

from schemas.bill_tables import BILL_LOADS
from schemas.escaping import visible
from schemas.tables import SCHEMAS
from streams.bills.loading import LOADED, BillStore
from streams.errors import WrongUseError

WITHDRAWN: Final = "withdrawn"
#: So much of a load's id names it, as `bills list` shows it.
ID_LEAST_CHARS: Final = 8
_SHOWN_CHARS: Final = 80


class WithdrawnLoad(msgspec.Struct, frozen=True):
    """What stands no more."""

    load_id: str
    file: str
    lines: int
    billed_usd: Decimal
    months: list[str]


def withdraw(store: BillStore, load: str, closed: Collection[str], now_ms: int) -> WithdrawnLoad:
    """Let a load stand no more.

    Args:
        store: Where bills are.
        load: The id of a load, or its beginning.
        closed: The months that are closed, as `2026-10`.
        now_ms: When that is done, ms since 1970.

    Raises:
        WrongUseError: Nothing or more than one load is called so, it does not stand, or one of its months is closed.
    """
    rows = standing_rows(store.select(BILL_LOADS).to_pylist(), load)
    found = _load_of(rows)
    refuse_closed(found, closed)
    version = max([now_ms, *(int(row["version"]) + 1 for row in rows)])
    gone = [{**row, "status": WITHDRAWN, "time": now_ms, "version": version} for row in rows]
    token = f"bill-withdrawn-{found.load_id}.{version}"
    store.insert(BILL_LOADS, pa.Table.from_pylist(gone, schema=SCHEMAS[BILL_LOADS]), token)
    return found


def refuse_closed(load: WithdrawnLoad, closed: Collection[str]) -> None:
    """Refuse to withdraw what a closed month was charged by.

    Raises:
        WrongUseError: One of its months is closed.
    """
    if kept := sorted(set(load.months) & set(closed)):
        raise WrongUseError(
            f"{visible(load.file)}: {', '.join(kept)} is closed, and what a closed month is charged does not change; "
            "load a correction, which is an adjustment of the next month"
        )


def load_named(rows: Collection[dict[str, Any]], load: str) -> WithdrawnLoad:
    """The load that would be withdrawn, of rows of `bill_loads`.

    Raises:
        WrongUseError: Nothing or more than one load is called so, or it does not stand.
    """
    return _load_of(standing_rows(rows, load))


def standing_rows(rows: Collection[dict[str, Any]], load: str) -> list[dict[str, Any]]:
    """The rows of the one load of that name that stand, one for each of its bills.

    Raises:
        WrongUseError: Nothing or more than one load is called so, or it does not stand.
    """
    shown = visible(load[:_SHOWN_CHARS])
    if len(load) < ID_LEAST_CHARS:
        raise WrongUseError(
            f"{shown}: expected {ID_LEAST_CHARS} characters or more of a load_id of `trainfare bills list`"
        )
    named = [row for row in rows if str(row["load_id"]).startswith(load)]
    ids = sorted({str(row["load_id"]) for row in named})
    if not ids:
        raise WrongUseError(f"{shown}: no load has this load_id; `trainfare bills list` has them")
    if len(ids) > 1:
        raise WrongUseError(f"{shown}: {len(ids)} loads begin so; give more of the load_id")
    found = [row for row in named if row["status"] == LOADED]
    if not found:
        raise WrongUseError(
            f"{shown}: {visible(str(named[0]['file']))} does not stand: it is {named[0]['status']}"
        )
    return found


def _load_of(rows: list[dict[str, Any]]) -> WithdrawnLoad:
    return WithdrawnLoad(
        load_id=str(rows[0]["load_id"]),
        file=str(rows[0]["file"]),
        lines=sum(int(row["lines"]) for row in rows),
        billed_usd=sum((Decimal(str(row["billed_usd"])) for row in rows), Decimal(0)),
        months=sorted({month for row in rows for month in _months(row)}),
    )


def _months(row: dict[str, Any]) -> list[str]:
    """The months that a bill's period lies in, all from its first to its last instant."""
    first, end = _utc(row["billing_period_start"]), _utc(row["billing_period_end"])
    found, month = [], date(first.year, first.month, 1)
    while month == date(first.year, first.month, 1) or datetime(month.year, month.month, 1, tzinfo=UTC) < end:
        found.append(f"{month:%Y-%m}")
        month = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    return found


def _utc(instant: datetime) -> datetime:
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
