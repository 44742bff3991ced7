"""Keeps the idle time of nodes and the minutes of jobs ready, by day, once a day has ended and its rows have settled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import pyarrow as pa

from schemas.balance_table import BALANCE_HOURS, COLUMNS, SCHEMAS
from schemas.durations import DAY_S
from schemas.job_days_table import COLUMNS as DAY_COLUMNS
from schemas.job_days_table import JOB_DAYS
from schemas.job_days_table import SCHEMAS as DAY_SCHEMAS
from schemas.reserved import USERS_JOBS
from sinks.answer import QueryResult
from sinks.conform import conform
from sinks.errors import SinkError
from sinks.rows import Condition, Rows
from streams.costs.day_parts import NODE_HOURS_MAX, answered, days_in
from streams.costs.kept_days import NETTED, Day
from streams.costs.parts import HourSpan
from streams.worker.supervise import keep_doing

logger = logging.getLogger(__name__)

EVERY_S: Final = 600.0
_HOURS: Final = 24
#: Hours of nodes and jobs: a store with fewer of them answers from minutes within a second.
WORTH_KEEPING: Final = 10_000
_EXACT: Final = {"used_gpu_milli_ms": "accurateCast(used_gpu_milli_ms, 'Int64') AS used_gpu_milli_ms"}
_OF_HOURS: Final = f"""SELECT {", ".join(_EXACT.get(name, name) for name in COLUMNS)} FROM {NETTED}
WHERE hour >= toDateTime({{from_s:Int64}}, 'UTC') AND hour < toDateTime({{to_s:Int64}}, 'UTC') SETTINGS max_threads = 1"""
#: Of a day with more hours of jobs, some of the jobs at a time: grouped these are some 30 MiB.
_JOB_HOURS_MAX: Final = 240_000
_OF_JOBS: Final = f"""SELECT toDateTime({{from_s:Int64}}, 'UTC') AS day, job_id, attempt, node, toString(component) AS component, toString(sku) AS sku,
    toString(unit) AS unit, toDecimal128(sum(toInt128(quantity)), 0) AS quantity, sum(toDecimal128(cost_usd, 9)) AS cost_usd
FROM job_minutes AS m FINAL
PREWHERE minute >= toDateTime({{from_s:Int64}}, 'UTC') AND minute < toDateTime({{to_s:Int64}}, 'UTC')
WHERE m.quantity != 0 AND {USERS_JOBS}
    AND cityHash64(job_id) % {{parts:Int64}} = {{part:Int64}}
GROUP BY job_id, attempt, node, component, sku, unit SETTINGS max_threads = 1"""


class BalanceStore(Rows, Protocol):
    """What is needed of a store."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own read-only SQL."""
        ...

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run our own read-only SQL in ClickHouse's read-only mode."""
        ...


def ended_days(store: BalanceStore) -> list[Day]:
    """The days with hours of nodes or jobs that have ended: all but the newest."""
    return [*answered(days_in(HourSpan(None, None)), store.ask).days[:-1]]


def keep_day(store: BalanceStore, day: Day) -> None:
    """Store the idle time of a day by hour; what was stored of it before is dropped."""
    parts = min(max(-(-day.hours // NODE_HOURS_MAX), 1), _HOURS)
    begin_s, end_s = day.begin_s, day.begin_s + DAY_S
    bounds = [begin_s + 3_600 * (_HOURS * part // parts) for part in range(parts)]
    _forget(store, BALANCE_HOURS, "hour", day, day.stamp)
    for from_s, to_s in zip(bounds, [*bounds[1:], end_s], strict=True):
        found = store.query(_OF_HOURS, {"from_s": from_s, "to_s": to_s})
        _insert(store, BALANCE_HOURS, found, day.begin_s, day.stamp, f"{from_s}")
    # Last: who finds this row finds all others.
    nothing = _nothing(SCHEMAS[BALANCE_HOURS], COLUMNS, begin_s)
    _insert(store, BALANCE_HOURS, nothing, day.begin_s, day.stamp, "whole")


def keep_job_day(store: BalanceStore, day: Day) -> None:
    """Store the sums of a day's job minutes; what was stored of it before is dropped."""
    parts = max(-(-day.job_hours // _JOB_HOURS_MAX), 1)
    _forget(store, JOB_DAYS, "day", day, day.job_stamp)
    for part in range(parts):
        bound = {"from_s": day.begin_s, "to_s": day.begin_s + DAY_S, "parts": parts, "part": part}
        _insert(
            store, JOB_DAYS, store.query(_OF_JOBS, bound), day.begin_s, day.job_stamp, f"{part} of {parts}"
        )
    nothing = _nothing(DAY_SCHEMAS[JOB_DAYS], DAY_COLUMNS, day.begin_s)
    _insert(store, JOB_DAYS, nothing, day.begin_s, day.job_stamp, "whole")


def _forget(store: BalanceStore, table: str, time: str, day: Day, stamp: int) -> None:
    """Drop what is stored of a day with another stamp."""
    older = [
        Condition(time, ">=", day.begin_s * 1_000),
        Condition(time, "<", (day.begin_s + DAY_S) * 1_000),
        Condition("stamp", "!=", stamp),
    ]
    if store.select(table, older, ("stamp",), limit=1).num_rows:
        store.delete(table, older)


def _insert(store: BalanceStore, table: str, rows: pa.Table, begin_s: int, stamp: int, part: str) -> None:
    size = rows.num_rows
    if size:
        whole = rows.append_column("stamp", pa.array([stamp] * size, pa.int64()))
        whole = whole.append_column("version", pa.array([1] * size, pa.uint64()))
        store.insert(table, conform(table, whole), f"{table}:{begin_s}:{stamp}:{part}")


def _nothing(schema: pa.Schema, columns: tuple[str, ...], begin_s: int) -> pa.Table:
    """A row of no node or job; the first column is its time."""
    time, *others = (schema.field(name) for name in columns)
    zeros = {
        field.name: pa.array(["" if pa.types.is_string(field.type) else 0], field.type) for field in others
    }
    return pa.table({time.name: pa.array([begin_s], pa.int64()).cast(time.type), **zeros})


class SettledDays:
    """Keeps days one by one, the newest first: a store of a former version has months of them, and a worker may stop between two.

    A checkpoint's tables are stored one after another: a day that has just changed may lack minutes that its hours have. So
    a day is kept once two looks have found the same rows.
    """

    def __init__(self, store: BalanceStore) -> None:
        self._store = store
        self._seen: dict[int, int] = {}  # day -> its stamp at the look before
        self._settled: list[Day] = []

    def keep_next(self) -> bool:
        """Keep one day, after a look if none is known to be settled; returns whether another one is."""
        if not self._settled:
            self._look()
        if self._settled:
            _keep(self._store, self._settled.pop())
        return bool(self._settled)

    def _look(self) -> None:
        lacking = _lacking(self._store)
        self._settled = [day for day in lacking if self._seen.get(day.begin_s) == day.stamp]
        self._seen = {day.begin_s: day.stamp for day in lacking if day not in self._settled}
        if len(self._settled) > 1:
            logger.info("days that have ended are kept ready", extra={"days": len(self._settled)})


def _lacks_nodes(day: Day) -> bool:
    return bool(day.hours) and not day.is_kept


def _lacks_jobs(day: Day) -> bool:
    return bool(day.job_hours) and not day.has_jobs


def _lacking(store: BalanceStore) -> list[Day]:
    """The days that have ended and are not kept ready, or not all of them."""
    return [day for day in ended_days(store) if _lacks_nodes(day) or _lacks_jobs(day)]


def _keep(store: BalanceStore, day: Day) -> None:
    if _lacks_nodes(day):
        keep_day(store, day)
    if _lacks_jobs(day):
        keep_job_day(store, day)


def keep_settled(store: BalanceStore, least_hours: int = 0) -> None:
    """Keep all ended days of a store that nobody else writes.

    Args:
        store: The store.
        least_hours: With fewer hours of nodes and jobs in these days, none is kept.
    """
    lacking = _lacking(store)
    if sum(day.hours + day.job_hours for day in lacking) >= least_hours:
        for day in lacking:
            _keep(store, day)


async def keep_balances(store: BalanceStore, is_mine: Callable[[], bool]) -> None:
    """Look for days to keep every ten minutes while this worker has the duty."""

    def late(fault: SinkError) -> None:
        logger.warning(
            "days are not kept ready yet: questions about idle time and charges take longer",
            extra={"error": str(fault), "runbook": "docs/views.md#node_hour_balance"},
        )

    await keep_doing("balances", SettledDays(store).keep_next, EVERY_S, is_mine, late)
