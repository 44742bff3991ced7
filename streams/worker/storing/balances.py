"""Keeps the idle time of nodes ready, by day, once a day has ended and its rows have settled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa

from schemas.balance_table import BALANCE_HOURS, COLUMNS, SCHEMAS
from schemas.durations import DAY_S
from sinks.answer import QueryResult
from sinks.conform import conform
from sinks.errors import SinkError
from sinks.rows import Condition, Rows
from streams.costs.day_parts import NODE_HOURS_MAX
from streams.costs.kept_days import NETTED, Day, days_of, days_sql
from streams.costs.parts import HourSpan
from streams.worker.supervise import keep_doing

logger = logging.getLogger(__name__)

EVERY_S: Final = 600.0
_HOURS: Final = 24
_EXACT: Final = {"used_gpu_milli_ms": "accurateCast(used_gpu_milli_ms, 'Int64') AS used_gpu_milli_ms"}
_OF_HOURS: Final = f"""SELECT {", ".join(_EXACT.get(name, name) for name in COLUMNS)} FROM {NETTED}
WHERE hour >= toDateTime({{from_s:Int64}}, 'UTC') AND hour < toDateTime({{to_s:Int64}}, 'UTC') SETTINGS max_threads = 1"""


class BalanceStore(Rows, Protocol):
    """What is needed of a store."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own read-only SQL."""
        ...

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run our own read-only SQL in ClickHouse's read-only mode."""
        ...


def ended_days(store: BalanceStore) -> list[Day]:
    """The days with hours of nodes that have ended: all but the newest."""
    days, _ = days_of(store.ask(*days_sql(HourSpan(None, None))).rows())
    return days[:-1]


def keep_day(store: BalanceStore, day: Day) -> None:
    """Store the idle time of a day by hour; what was stored of it before is dropped."""
    parts = min(max(-(-day.hours // NODE_HOURS_MAX), 1), _HOURS)
    begin_s, end_s = day.begin_s, day.begin_s + DAY_S
    bounds = [begin_s + 3_600 * (_HOURS * part // parts) for part in range(parts)]
    older = [
        Condition("hour", ">=", begin_s * 1_000),
        Condition("hour", "<", end_s * 1_000),
        Condition("stamp", "!=", day.stamp),
    ]
    if store.select(BALANCE_HOURS, older, ("node",), limit=1).num_rows:
        store.delete(BALANCE_HOURS, older)
    for from_s, to_s in zip(bounds, [*bounds[1:], end_s], strict=True):
        found = store.query(_OF_HOURS, {"from_s": from_s, "to_s": to_s})
        _insert(store, found, day, f"{from_s}")
    # Last: who finds this row finds all others.
    _insert(store, _nothing(begin_s), day, "whole")


def _insert(store: BalanceStore, rows: pa.Table, day: Day, part: str) -> None:
    size = rows.num_rows
    if size:
        whole = rows.append_column("stamp", pa.array([day.stamp] * size, pa.int64()))
        whole = whole.append_column("version", pa.array([1] * size, pa.uint64()))
        token = f"{BALANCE_HOURS}:{day.begin_s}:{day.stamp}:{part}"
        store.insert(BALANCE_HOURS, conform(BALANCE_HOURS, whole), token)


def _nothing(begin_s: int) -> pa.Table:
    """A row of no node."""
    schema = SCHEMAS[BALANCE_HOURS]
    zeros = {
        name: pa.array(["" if pa.types.is_string(schema.field(name).type) else 0], schema.field(name).type)
        for name in COLUMNS
        if name != "hour"
    }
    return pa.table({"hour": pa.array([begin_s], pa.int64()).cast(schema.field("hour").type), **zeros})


def keep_settled(store: BalanceStore, before: Mapping[int, int]) -> dict[int, int]:
    """Keep the ended days whose rows are those of the call before; returns the stamps of the days that are left.

    A checkpoint's tables are stored one after another: a day that has just changed may lack minutes that its hours have.
    """
    left: dict[int, int] = {}
    for day in ended_days(store):
        if not day.is_kept and before.get(day.begin_s) == day.stamp:
            keep_day(store, day)
        elif not day.is_kept:
            left[day.begin_s] = day.stamp
    return left


async def keep_balances(store: BalanceStore, is_mine: Callable[[], bool]) -> None:
    """Look for days to keep every ten minutes while this worker has the duty."""
    left = dict[int, int]()

    def turn() -> None:
        nonlocal left
        left = keep_settled(store, left)

    def late(fault: SinkError) -> None:
        logger.warning(
            "idle time of days is not kept ready yet: questions about it take longer",
            extra={"error": str(fault), "runbook": "docs/views.md#node_hour_balance"},
        )

    await keep_doing("balances", turn, EVERY_S, is_mine, late)
