"""Reads from the store what budgets' subjects have used, and up to which instant all shards have stored it.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, MINUTE_MS, NEVER_MS
from streams.calendar import Calendar
from streams.engine.alerts.budgets import MATCHED, Budget
from streams.engine.ledger_rules.budget_actions import LiveJob
from streams.engine.ledger_rules.budget_alert import TopKind
from streams.engine.ledger_rules.budget_runs import BudgetJob
from streams.engine.ledger_rules.like_hours import history_from_ms
from streams.engine.ledger_rules.periods import CALENDAR, period_at
from streams.engine.ledger_rules.subject import Run
from streams.engine.ledger_rules.usage import NO_HOURS, Amounts, EarlierHours, Usage
from streams.engine.rules.lineage import run_job, run_key
from streams.engine.rules.run_losses import AttemptLoss
from streams.worker.ledger_judges import run_losses_sql, usage_sql
from streams.worker.ledger_judges.known_log import KnownLog

#: How long a late shard is waited for.
LATE_MS: Final = 300_000
#: A shard this far behind is looked at: most are only between two accruals.
_BEHIND_MS: Final = 90_000
#: Values of one parameter: ClickHouse refuses one of more than 128 KiB.
_VALUES_MAX: Final = 500

_Any = TypeVar("_Any")
#: Values of match fields, in the order of the fields.
Group = tuple[str, ...]
#: A kind of period, and the calendar that says where it begins.
Cycle = tuple[str, Calendar]


class SqlStore(Protocol):
    """What is needed of a store."""

    def query(self, sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        """Run our own read-only SQL."""
        ...


class Accrued(NamedTuple):
    """The last whole minute that may be judged, and the shards that it does not wait for any longer."""

    until_ms: int
    complete_ms: int  # the last whole minute up to which nothing is missing
    late: tuple[int, ...] = ()
    uncertain: tuple[int, ...] = ()  # of these, those with jobs that go on
    cut_ms: int = 0  # what those have beyond it is not certain: it is left out
    lives: frozenset[tuple[int, int]] = frozenset()  # (shard, whose books it has)


class LedgerReader:
    """Totals of the stored ledger."""

    def __init__(self, store: SqlStore, late_ms: int = LATE_MS) -> None:
        self._store = store
        self._late_ms = late_ms
        self._late: dict[str, object] = {"late": [], "cut_ms": 0}

    def leave_out(self, accrued: Accrued) -> None:
        """Leave out of all totals what late shards are not certain of."""
        self._late = {"late": list(accrued.uncertain), "cut_ms": accrued.cut_ms}

    def accrued(self, now_ms: int, log: KnownLog | None = None) -> Accrued | None:
        """Return up to when totals are complete; None: nothing was ever stored.

        Args:
            now_ms: Log time.
            log: Where the log of all shards ends; None: nobody can say, so shards without an open job are not waited for.
        """
        rows = [*rows_of(self._store.query(usage_sql.ACCRUED))]
        if not rows:
            return None
        accrued = {row["shard"]: row["accrued_ms"] for row in rows}
        until_ms = complete_ms = min(accrued.values())
        late, uncertain = tuple[int, ...](), tuple[int, ...]()
        has_others = log is not None and len(accrued) < log.shards
        if has_others or until_ms < now_ms - _BEHIND_MS:
            # Offsets before jobs: what was read up to these offsets is then found to be open, if it is.
            unread = set[int]() if log is None else log.unread(self._next_offsets())
            is_open = {row["shard"] for row in rows_of(self._store.query(usage_sql.OPEN_SHARDS))}
            waited = [accrued.get(shard, 0) for shard in is_open | unread]
            # A shard where no job is open has accrued everything that it has read, however long ago.
            complete_ms = min([*waited, now_ms if log is None else log.asked_ms, now_ms])
            until_ms = max(complete_ms, now_ms - self._late_ms)
            late = tuple(sorted(each for each in is_open | unread if accrued.get(each, 0) < until_ms))
            uncertain = tuple(shard for shard in late if shard in is_open)
        cut_ms = min((accrued.get(shard, 0) for shard in uncertain), default=0)
        until_ms, complete_ms, cut_ms = (
            max(min(at_ms, now_ms), 0) // MINUTE_MS * MINUTE_MS for at_ms in (until_ms, complete_ms, cut_ms)
        )
        return Accrued(until_ms, complete_ms, late, uncertain, cut_ms, _lives(rows))

    def holds(self, accrued: Accrued) -> bool:
        """Whether no shard was taken over since `accrued` was read: a new owner takes back rows that it has yet to write again."""
        return _lives(rows_of(self._store.query(usage_sql.ACCRUED))) == accrued.lives

    def _next_offsets(self) -> dict[tuple[str, int], int]:
        rows = rows_of(self._store.query(usage_sql.NEXT_OFFSETS))
        return {(row["topic"], row["shard"]): row["stored_offset"] for row in rows}

    def has_budgets(self) -> bool:
        """Whether the last rows of `budget_use` are of budgets."""
        return bool(self._store.query(usage_sql.LAST_BUDGETS).num_rows)

    def judged_ms(self) -> int | None:
        """Return the last minute at which budgets were judged and there was one; None: there never was."""
        (row,) = rows_of(self._store.query(usage_sql.JUDGED))
        return int(row["judged_ms"]) if row["budgets"] else None

    def first_ms(self) -> int | None:
        """The first hour that a job or a node was paid in; None: nothing was paid."""
        (row,) = rows_of(self._store.query(usage_sql.FIRST_HOUR))
        return int(row["first_ms"]) if row["hours"] else None

    def rows_by_day(self, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
        """The days of [from_ms, to_ms) that have rows by the hour, by their beginnings (ms), and how many, about."""
        found = self._store.query(usage_sql.ROWS_BY_DAY, {"from_ms": from_ms, "to_ms": to_ms})
        return [(row["day_ms"], row["rows"]) for row in rows_of(found)]

    def has_runs(self, from_ms: int) -> bool:
        """Whether any job that had not ended at `from_ms` has a budget of its own."""
        return bool(self._store.query(usage_sql.RUNS, {"from_ms": from_ms, "is_any": False}).num_rows)

    def runs(self, from_ms: int, *, is_any: bool) -> list[BudgetJob]:
        """The jobs that had not ended at `from_ms`, without `is_any` only those with a budget of their own; and those that may be of their runs."""
        bound = {"from_ms": from_ms}
        rows = {
            row["job_id"]: row
            for row in rows_of(self._store.query(usage_sql.RUNS, {**bound, "is_any": is_any}))
        }
        keys = {key for row in rows.values() if (key := run_key(run_job(row))) is not None}
        owners = sorted({key.owner for key in keys})
        for row in self._named(usage_sql.RUNS_OF_OWNERS, "owners", owners, **bound):
            if run_key(run_job(row)) in keys:
                rows.setdefault(row["job_id"], row)
        attempts: dict[str, list[AttemptLoss]] = {}
        for row in self._named(run_losses_sql.ATTEMPTS, "jobs", sorted(rows)):
            of_job = attempts.setdefault(row["job_id"], [])
            of_job.append(AttemptLoss(row["began_ms"], row["ended_ms"], row["state"]))
        return [_budget_job(row, attempts.get(name, ())) for name, row in sorted(rows.items())]

    def _named(
        self, sql: str, parameter: str, names: Sequence[str], **bound: object
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a statement for all these names."""
        for part in _pieces(names):
            yield from rows_of(self._store.query(sql, {**bound, parameter: part}))

    def usage(
        self,
        fields: Sequence[str],
        groups: Collection[Group],
        budgets: Iterable[Budget],
        from_ms: int,
        to_ms: int,
    ) -> dict[tuple[Group, Cycle], Usage]:
        """Return the use of each group by minute in [from_ms, to_ms), by group and kind of period.

        `from_ms` is a whole hour. A group is the values of `fields`; the kinds of periods are those of the budgets.
        """
        wanted = list(budgets)
        cycles = [*dict.fromkeys(budget.cycle for budget in wanted)]
        has_clock = any(budget.limits.wall_clock_ms is not None for budget in wanted)
        found: dict[tuple[Group, Cycle], Usage] = {}
        for part in _pieces(sorted(groups)):
            before = self._before(fields, part, cycles, from_ms)
            minutes = self._minutes(fields, part, from_ms, to_ms, has_clock=has_clock)
            earlier = (
                self._earlier(fields, part, from_ms) if any(per in CALENDAR for per, _ in cycles) else {}
            )
            for group in part:
                minute_ms, amounts = minutes.get(group, _NOTHING)
                for cycle in cycles:
                    used = before.get((group, cycle), Amounts())
                    found[group, cycle] = Usage(
                        from_ms, used, minute_ms, amounts, earlier.get(group, NO_HOURS)
                    )
        return found

    def top(self, wanted: Mapping[str, Sequence[str]], at_ms: int) -> TopKind:
        """Return the kind of the wanted jobs that pays most, of those that go on, and its rate."""
        fields = [name for name in MATCHED if name in wanted]
        bound: dict[str, object] = {name: [*wanted[name]] for name in fields}
        bound |= {"from_ms": at_ms - HOUR_MS, "to_ms": at_ms}
        for row in rows_of(self._store.query(usage_sql.top_sql(fields), bound)):
            rate, jobs = int(row["nano_per_hour"]), int(row["jobs"])
            return (
                TopKind(row["least_job_id"], rate)
                if jobs == 1
                else TopKind(row["kind"], rate, row["kind_by"], jobs)
            )
        return TopKind()

    def live_jobs(self, wanted: Mapping[str, Sequence[str]]) -> list[LiveJob]:
        """The wanted jobs that run."""
        fields = [name for name in MATCHED if name in wanted]
        bound = {name: [*wanted[name]] for name in fields}
        rows = [*rows_of(self._store.query(usage_sql.live_sql(fields), bound))]
        names = ("job_id", "run_id", "owner", "team", "project", "experiment", "state")
        return [
            LiveJob(Run(**{name: row[name] for name in names}), row["cluster"], bool(row["is_unpriced"]))
            for row in rows
        ]

    def _before(
        self, fields: Sequence[str], groups: Sequence[Group], cycles: Sequence[Cycle], from_ms: int
    ) -> dict[tuple[Group, Cycle], Amounts]:
        starts = [period_at(per, from_ms, calendar).start_ms for per, calendar in cycles]
        bound: dict[str, object] = {f"start_{at}": start for at, start in enumerate(starts)}
        bound |= {
            "from_ms": from_ms,
            "least": min(starts, default=0),
            **self._late,
            **_values(fields, groups),
        }
        rows = [*rows_of(self._store.query(usage_sql.before_sql(fields, len(cycles)), bound))]
        return {
            (tuple(row[name] for name in fields), cycle): Amounts(
                _nano(row[f"usd_{at}"]), int(row[f"gpu_{at}"]), int(row[f"wall_{at}"])
            )
            for row in rows
            for at, cycle in enumerate(cycles)
        }

    def _earlier(
        self, fields: Sequence[str], groups: Sequence[Group], from_ms: int
    ) -> dict[Group, EarlierHours]:
        """What each group used in each of the hours before that forecasts look at."""
        bound = {
            "from_ms": history_from_ms(from_ms),
            "to_ms": from_ms,
            **self._late,
            **_values(fields, groups),
        }
        rows: dict[Group, list[tuple[int, int, int, int]]] = {}
        for row in rows_of(self._store.query(usage_sql.hours_sql(fields), bound)):
            amounts = (row["hour_ms"], _nano(row["usd"]), int(row["gpu"]), int(row["wall"]))
            rows.setdefault(tuple(row[name] for name in fields), []).append(amounts)
        by_group = {group: np.array(of_group, np.int64).T for group, of_group in rows.items()}
        return {group: EarlierHours(of_group[0], of_group[1:]) for group, of_group in by_group.items()}

    def _minutes(
        self, fields: Sequence[str], groups: Sequence[Group], from_ms: int, to_ms: int, *, has_clock: bool
    ) -> dict[Group, tuple[Any, Any]]:
        bound = {"from_ms": from_ms, "to_ms": to_ms, **self._late, **_values(fields, groups)}
        amounts: dict[Group, dict[int, list[int]]] = {}
        for row in rows_of(self._store.query(usage_sql.minutes_sql(fields), bound)):
            of_group = amounts.setdefault(tuple(row[name] for name in fields), {})
            of_group[row["minute_ms"]] = [_nano(row["usd"]), int(row["gpu"]), 0]
        if has_clock:
            for row in rows_of(self._store.query(usage_sql.wall_clock_sql(fields), bound)):
                of_group = amounts.setdefault(tuple(row[name] for name in fields), {})
                of_group.setdefault(row["minute_ms"], [0, 0, 0])[2] = int(row["wall"])
        return {
            group: (
                np.array(sorted(of_group), np.int64),
                np.array([of_group[minute] for minute in sorted(of_group)], np.int64).T,
            )
            for group, of_group in amounts.items()
        }


_NOTHING: Final = (np.empty(0, np.int64), np.empty((3, 0), np.int64))


def _values(fields: Sequence[str], groups: Sequence[Group]) -> dict[str, object]:
    return {name: sorted({group[at] for group in groups}) for at, name in enumerate(fields)}


def _pieces(groups: Sequence[_Any]) -> Iterable[Sequence[_Any]]:
    return (groups[at : at + _VALUES_MAX] for at in range(0, len(groups), _VALUES_MAX))


def _lives(rows: Iterable[Mapping[str, Any]]) -> frozenset[tuple[int, int]]:
    return frozenset((row["shard"], row["life"]) for row in rows)


_OF_RUN: Final = (
    "job_id", "run_id", "owner", "team", "project", "experiment", "state", "started_ms", "ended_ms", "deadline_ms",
)  # fmt: skip


def _budget_job(row: Mapping[str, Any], attempts: Sequence[AttemptLoss]) -> BudgetJob:
    run = Run(**{name: row[name] for name in _OF_RUN})
    if not attempts and run.started_ms is not None:
        ended_ms = NEVER_MS if run.ended_ms is None else run.ended_ms
        attempts = [AttemptLoss(run.started_ms, ended_ms, run.state)]
    return BudgetJob(run, run_job(row), dict(row["budget"]), attempts, bool(row["is_live"]))


def _nano(usd: Decimal) -> int:
    return int(Decimal(usd).scaleb(9))
