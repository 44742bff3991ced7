"""Drops whole months of minutes once they are older than the retention; the hours of jobs stay."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import pyarrow as pa

from schemas.balance_table import BALANCE_HOURS
from schemas.job_days_table import JOB_DAYS
from schemas.tables import JOB_CHECKPOINTS, JOB_MINUTES, JOB_USAGE_MINUTES, UNATTRIBUTED_MINUTES
from sinks.errors import SinkError
from sinks.meta import MINUTES_KEPT_FROM, Meta
from streams.worker.supervise import keep_doing

logger = logging.getLogger(__name__)

#: The tables of minutes whose sums stand in `job_hours`, and those that only mean something beside them.
DROPPED: Final = (
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    UNATTRIBUTED_MINUTES,
    JOB_CHECKPOINTS,
    BALANCE_HOURS,
    JOB_DAYS,
)
EVERY_S: Final = 3600.0
_NEWEST_EVENT: Final = (
    "SELECT toInt64(toUnixTimestamp64Milli(max(last_event))) AS newest_ms FROM jobs SETTINGS final = 0"
)


class MonthStore(Protocol):
    """What the retention needs of a store."""

    @property
    def meta(self) -> Meta:
        """The store's metadata."""
        ...

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own read-only SQL."""
        ...

    def drop_months(self, table: str, before: int) -> list[int]:
        """Drop the earlier months (202611: November 2026) of a table; return them."""
        ...


class ListedMonths(MonthStore, Protocol):
    """A store that says which months it has."""

    def months_before(self, table: str, before: int) -> list[int]:
        """The earlier months that a table has rows of."""
        ...


def first_month_kept(newest_ms: int, days: int) -> int:
    """The first month that has not ended more than so many days before an instant (202611: November 2026)."""
    cut = datetime.fromtimestamp(newest_ms / 1000, UTC) - timedelta(days=days, microseconds=1)
    return cut.year * 100 + cut.month


def old_months(store: ListedMonths, days: int) -> dict[str, list[int]]:
    """The months that `drop_old_minutes` would drop; it drops none."""
    kept_from = _kept_from(store, days)
    found = {table: store.months_before(table, kept_from) for table in DROPPED}
    return {table: months for table, months in found.items() if months}


def drop_old_minutes(store: MonthStore, days: int) -> dict[str, list[int]]:
    """Drop the months of minutes that ended more than `days` before the newest event (0: none); return those dropped.

    The first month kept is recorded before anything is dropped. Rows of a late price or event that came since into a
    dropped month are dropped as well: the hours have them.
    """
    if days == 0:
        return {}
    kept_from = _kept_from(store, days)
    if store.meta.get(MINUTES_KEPT_FROM) != str(kept_from):
        store.meta.put(MINUTES_KEPT_FROM, str(kept_from))
    dropped = {table: store.drop_months(table, kept_from) for table in DROPPED}
    return {table: months for table, months in dropped.items() if months}


def _kept_from(store: MonthStore, days: int) -> int:
    """The first month that is kept; it never moves back."""
    newest_ms = int(store.query(_NEWEST_EVENT)["newest_ms"][0].as_py())
    known = store.meta.get(MINUTES_KEPT_FROM)
    kept_from = first_month_kept(max(newest_ms, 0), days)
    return kept_from if known is None else max(int(known), kept_from)


async def keep_dropping(store: MonthStore, days: int, is_mine: Callable[[], bool]) -> None:
    """Drop old months every hour while this worker has the duty; of 0 days none, ever."""

    def turn() -> None:
        for table, months in drop_old_minutes(store, days).items():
            logger.info(
                "dropped minutes that are older than the retention; their hours stay",
                extra={"table": table, "months": months, "retention_days": days},
            )

    def late(fault: SinkError) -> None:
        logger.warning(
            "old minutes are not dropped yet",
            extra={"error": str(fault), "runbook": "docs/backup.md#how-long-minutes-are-kept"},
        )

    await keep_doing("retention", turn, EVERY_S, is_mine, late)
