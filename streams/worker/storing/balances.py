"""Keeps the idle time of nodes and the minutes of jobs ready, by day, once a day has ended and its rows have settled."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from schemas.balance_table import BALANCE_HOURS, COLUMNS, SCHEMAS
from schemas.columns import rows_of
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
#: Of the days asked about, whose stamps are in the same places.
_STAMP: Final = "transform(toInt64(toUnixTimestamp(toStartOfDay(<time>, 'UTC'))), {days:Array(Int64)}, {stamps:Array(Int64)}, toInt64(0)) AS stamp"
_WITHIN: Final = (
    """<time> >= toDateTime({from_s:Int64}, 'UTC') AND <time> < toDateTime({to_s:Int64}, 'UTC')"""
)
_IS_OF_DAYS: Final = "toInt64(toUnixTimestamp(toStartOfDay(<time>, 'UTC'))) IN {days:Array(Int64)}"
_STORED: Final = f"""SELECT DISTINCT toInt64(toUnixTimestamp(toStartOfDay(<time>, 'UTC'))) AS day_s, stamp FROM <table>
WHERE {_WITHIN} AND {_IS_OF_DAYS}"""
_OF_HOURS: Final = f"""SELECT {", ".join(_EXACT.get(name, name) for name in COLUMNS)}, {_STAMP.replace("<time>", "hour")} FROM {NETTED}
WHERE {_WITHIN.replace("<time>", "hour")} AND {_IS_OF_DAYS.replace("<time>", "hour")} SETTINGS max_threads = 1"""
#: Of a day with more hours of jobs, some of the jobs at a time: grouped these are some 30 MiB.
_JOB_HOURS_MAX: Final = 240_000
_OF_JOBS: Final = f"""SELECT toStartOfDay(minute, 'UTC') AS day, job_id, attempt, node, toString(component) AS component, toString(sku) AS sku,
    toString(unit) AS unit, toDecimal128(sum(toInt128(quantity)), 0) AS quantity, sum(toDecimal128(cost_usd, 9)) AS cost_usd,
    {_STAMP.replace("<time>", "day")}
FROM job_minutes AS m FINAL
PREWHERE {_WITHIN.replace("<time>", "minute")} AND {_IS_OF_DAYS.replace("<time>", "minute")}
WHERE m.quantity != 0 AND {USERS_JOBS}
    AND cityHash64(job_id) % {{parts:Int64}} = {{part:Int64}}
GROUP BY day, job_id, attempt, node, component, sku, unit SETTINGS max_threads = 1"""


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


class _DayGroup(NamedTuple):
    """Days of one month that are kept by the same statements: each of these costs the same for one day as for thirty."""

    table: str
    time: str  # the column with the time of a row
    days: list[int]  # their begins in seconds since 1970, in order
    stamps: list[int]  # of each day
    hours: int

    @property
    def begin_s(self) -> int:
        """Where the first day begins."""
        return self.days[0]

    @property
    def end_s(self) -> int:
        """Where the last day ends."""
        return self.days[-1] + DAY_S

    def bound(self, from_s: int, to_s: int) -> dict[str, object]:
        """The parameters of a statement about some of the group's time."""
        return {"from_s": from_s, "to_s": to_s, "days": self.days}


def keep_days(store: BalanceStore, days: Iterable[Day]) -> None:
    """Store the idle time of days, in order, by hour; what was stored of them before is dropped."""
    given = ((day.begin_s, day.hours, day.stamp) for day in days)
    for group in _groups(BALANCE_HOURS, "hour", given, NODE_HOURS_MAX):
        parts = min(max(-(-group.hours // NODE_HOURS_MAX), 1), _HOURS)
        bounds = [group.begin_s + 3_600 * (_HOURS * part // parts) for part in range(parts)]
        _forget(store, group)
        for from_s, to_s in zip(bounds, [*bounds[1:], group.end_s], strict=True):
            found = store.query(_OF_HOURS, {**group.bound(from_s, to_s), "stamps": group.stamps})
            _insert(store, group, found, f"{from_s}")
        # Last: who finds this row finds all others.
        _insert(store, group, _nothing(SCHEMAS[BALANCE_HOURS], COLUMNS, group), "whole")


def keep_job_days(store: BalanceStore, days: Iterable[Day]) -> None:
    """Store the sums of job minutes of days, in order; what was stored of them before is dropped."""
    given = ((day.begin_s, day.job_hours, day.job_stamp) for day in days)
    for group in _groups(JOB_DAYS, "day", given, _JOB_HOURS_MAX):
        parts = max(-(-group.hours // _JOB_HOURS_MAX), 1)
        _forget(store, group)
        for part in range(parts):
            bound = {**group.bound(group.begin_s, group.end_s), "parts": parts, "part": part}
            found = store.query(_OF_JOBS, {**bound, "stamps": group.stamps})
            _insert(store, group, found, f"{part} of {parts}")
        _insert(store, group, _nothing(DAY_SCHEMAS[JOB_DAYS], DAY_COLUMNS, group), "whole")


def _groups(table: str, time: str, days: Iterable[tuple[int, int, int]], most: int) -> Iterator[_DayGroup]:
    """Yield groups of days, given as begin, hours and stamp: with so many hours at most, unless a single day has more."""
    group: _DayGroup | None = None
    for begin_s, hours, stamp in days:
        fits = group is not None and group.hours + hours <= most and _month(group.begin_s) == _month(begin_s)
        if group is not None and not fits:
            yield group
            group = None
        before = _DayGroup(table, time, [], [], 0) if group is None else group
        group = _DayGroup(table, time, [*before.days, begin_s], [*before.stamps, stamp], before.hours + hours)
    if group is not None:
        yield group


def _month(begin_s: int) -> tuple[int, int]:
    day = datetime.fromtimestamp(begin_s, UTC)
    return day.year, day.month


def _forget(store: BalanceStore, group: _DayGroup) -> None:
    """Drop what is stored of the days with other stamps."""
    sql = _STORED.replace("<table>", group.table).replace("<time>", group.time)
    stamps = dict(zip(group.days, group.stamps, strict=True))
    stored = rows_of(store.query(sql, group.bound(group.begin_s, group.end_s)))
    for begin_s in sorted({row["day_s"] for row in stored if row["stamp"] != stamps[row["day_s"]]}):
        older = [
            Condition(group.time, ">=", begin_s * 1_000),
            Condition(group.time, "<", (begin_s + DAY_S) * 1_000),
            Condition("stamp", "!=", stamps[begin_s]),
        ]
        store.delete(group.table, older)


def _insert(store: BalanceStore, group: _DayGroup, rows: pa.Table, part: str) -> None:
    size = rows.num_rows
    if size:
        whole = rows.append_column("version", pa.array([1] * size, pa.uint64()))
        of = hashlib.sha256(repr((group.days, group.stamps)).encode()).hexdigest()
        store.insert(group.table, conform(group.table, whole), f"{group.table}:{of}:{part}")


def _nothing(schema: pa.Schema, columns: tuple[str, ...], group: _DayGroup) -> pa.Table:
    """A row of no node or job for each day; the first column is its time."""
    size = len(group.days)
    time, *others = (schema.field(name) for name in columns)
    zeros = {
        field.name: pa.array(["" if pa.types.is_string(field.type) else 0] * size, field.type)
        for field in others
    }
    times = pa.array(group.days, pa.int64()).cast(time.type)
    return pa.table({time.name: times, **zeros, "stamp": pa.array(group.stamps, pa.int64())})


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
            _keep(self._store, [self._settled.pop()])
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


def _keep(store: BalanceStore, days: Sequence[Day]) -> None:
    keep_days(store, filter(_lacks_nodes, days))
    keep_job_days(store, filter(_lacks_jobs, days))


def keep_settled(store: BalanceStore, least_hours: int = 0) -> None:
    """Keep all ended days of a store that nobody else writes.

    Args:
        store: The store.
        least_hours: With fewer hours of nodes and jobs in these days, none is kept.
    """
    lacking = _lacking(store)
    if sum(day.hours + day.job_hours for day in lacking) >= least_hours:
        _keep(store, lacking)


async def keep_balances(store: BalanceStore, is_mine: Callable[[], bool]) -> None:
    """Look for days to keep every ten minutes while this worker has the duty."""

    def late(fault: SinkError) -> None:
        logger.warning(
            "days are not kept ready yet: questions about idle time and charges take longer",
            extra={"error": str(fault), "runbook": "docs/views.md#node_hour_balance"},
        )

    await keep_doing("balances", SettledDays(store).keep_next, EVERY_S, is_mine, late)
