"""The questions of `loadtest.asking`: any metric over time, one job, and what the page asks.

Each question is asked as the command or the server asks it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, cast

from schemas.durations import DAY_MS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from streams.costs.answer import cost_steps
from streams.costs.day_parts import answered
from streams.costs.parts import Parameters
from streams.costs.request import Metric, request_of
from streams.explain.job import explained
from streams.web import job_list_sql, queries
from streams.web.job_list_sql import JobSelection

COSTS, JOB, LARGEST, PAGE = "costs", "one job", "largest", "page"
#: Median of warm runs, in ms.
TARGET_MS: Final = {COSTS: 300, JOB: 100, LARGEST: 100, PAGE: 100}
#: How metrics are asked for; m3 is there per day alone, in a view.
_WAYS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "by team per day": {"by": ["team"], "per": ["day"]},
    "by job": {"by": ["job"]},
    "by team per day, compared": {"by": ["team"], "per": ["day"], "compare": ["previous"]},
}
_JOBS_SHOWN: Final = 100
_BY_ROWS: Final = "SELECT job_id, count() AS n FROM job_minutes FINAL WHERE quantity != 0 GROUP BY job_id ORDER BY n DESC, job_id"
_OF_JOB: Final = {
    "job_costs": "SELECT * FROM job_costs WHERE job_id = {job:String}",
    "attempts": "SELECT * FROM attempts FINAL WHERE job_id = {job:String}",
    "ledger by phase": "SELECT attempt, phase, component, sum(cost_usd) AS usd FROM ledger WHERE job_id = {job:String} "
    "GROUP BY attempt, phase, component",
}


class Question(NamedTuple):
    """One question; `ask` returns the number of rows of its answer."""

    group: str
    name: str
    ask: Callable[[], int]


def questions(store: ClickHouseStore) -> list[Question]:
    """All questions to a store that has a trace.

    `one job` is that of which half of the jobs have more minute rows, `largest` the one that has the most.
    """
    jobs = [str(job_id) for job_id in store.query(_BY_ROWS)["job_id"].to_pylist()]
    typical, largest = jobs[len(jobs) // 2], jobs[0]
    return [
        *_costs(store),
        *_one_job(store, JOB, typical),
        *_one_job(store, LARGEST, largest),
        *_page(store, largest),
    ]


def _costs(store: ClickHouseStore) -> Iterator[Question]:
    for metric in Metric:
        for name, way in _WAYS.items():
            if metric is Metric.m3 and way["by"] == ["job"]:
                continue  # it is of nodes
            yield Question(COSTS, f"{metric} {name}", _cost(store, {"metric": [metric], **way}))


def _cost(store: ClickHouseStore, given: Mapping[str, Sequence[str]]) -> Callable[[], int]:
    request = request_of(given)

    def of(sql: str, parameters: Parameters) -> QueryResult:
        return store.ask(sql, cast("dict[str, object]", parameters))

    def ask() -> int:
        return len(answered(cost_steps(request), of).rows)

    return ask


def _one_job(store: ClickHouseStore, group: str, job_id: str) -> Iterator[Question]:
    for metric in Metric:
        if metric is Metric.m3:
            continue  # it is of nodes
        given: dict[str, Sequence[str]] = {"metric": [metric], "where": [f"job={job_id}"]}
        yield Question(group, f"costs {metric}", _cost(store, given))
    for name, sql in _OF_JOB.items():
        yield Question(group, name, _rows(store, sql, job=job_id))
    seen = _Statements(store)
    explained(cast("ClickHouseStore", seen), job_id, by_minute=True)
    for place, (sql, parameters) in enumerate(seen.asked, 1):
        yield Question(group, f"explain, statement {place}", _rows(store, sql, **parameters))


class _Statements:
    """A store that notes what it is asked."""

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store
        self.asked: list[tuple[str, dict[str, object]]] = []

    def ask(self, sql: str, parameters: dict[str, object]) -> QueryResult:
        self.asked.append((sql, parameters))
        return self._store.ask(sql, parameters)


def _page(store: ClickHouseStore, job_id: str) -> Iterator[Question]:
    newest = _records(store, queries.NEWEST)[0]
    as_of_ms = int(str(newest["burn_ms"] or newest["event_ms"]))
    day_ms = as_of_ms - as_of_ms % DAY_MS
    live = {"since_ms": as_of_ms - queries.LIVE_MS}
    every = {"limit": _JOBS_SHOWN, "used_since_ms": as_of_ms - queries.USAGE_MS, **live}
    lists = {
        order: job_list_sql.page(JobSelection(), order, ascending=False, is_grouped=False, cursor=None)
        for order in job_list_sql.ORDERS
    }
    listed = [str(row["name"]) for row in _records(store, lists["cost"], **every)]
    asked: dict[str, tuple[str, dict[str, object]]] = {
        "NEWEST": (queries.NEWEST, {}),
        "FLEET": (queries.FLEET, dict(live)),
        "SPEND": (
            queries.SPEND,
            {"since_ms": min(day_ms, as_of_ms - queries.LONGEST_MS), "until_ms": as_of_ms, "day_ms": day_ms},
        ),
        "FLEET_PRODUCTIVE": (queries.FLEET_PRODUCTIVE, {"since_ms": as_of_ms - queries.USAGE_MS}),
        "HISTORY": (
            queries.HISTORY,
            {"since_ms": as_of_ms - queries.SPARKLINE_MS - queries.LIVE_MS, "last": as_of_ms // 60_000},
        ),
        **{f"jobs by {order}": (sql, dict(every)) for order, sql in lists.items()},
        "TOTALS": (queries.TOTALS, {"jobs": listed}),
        "PRODUCTIVE": (queries.PRODUCTIVE, {"jobs": listed, "since_ms": as_of_ms - queries.USAGE_MS}),
        "SPARKLINES": (queries.SPARKLINES, {"jobs": listed, "since_ms": as_of_ms - queries.SPARKLINE_MS}),
        "FIRING": (queries.FIRING, {}),
        "ALERTS_FIRING": (queries.ALERTS_FIRING, {}),
        "ALERTS": (queries.ALERTS, {"status": "", "limit": 100}),
        "JOBS": (queries.JOBS, {"jobs": [job_id], **live}),
        **{
            name: (sql, {"job": job_id})
            for name, sql in (
                ("COSTS", queries.COSTS),
                ("ATTEMPTS", queries.ATTEMPTS),
                ("PHASES", queries.PHASES),
                ("USAGE", queries.USAGE),
                ("BURN", queries.BURN),
                ("ALERTS_OF_JOB", queries.ALERTS_OF_JOB),
            )
        },
    }
    for name, (sql, parameters) in asked.items():
        yield Question(PAGE, name, _rows(store, sql, **parameters))


def _rows(store: ClickHouseStore, sql: str, **parameters: object) -> Callable[[], int]:
    return lambda: sum(1 for _ in store.ask(sql, parameters).rows())


def _records(store: ClickHouseStore, sql: str, **parameters: object) -> list[dict[str, object]]:
    answer = store.ask(sql, parameters)
    return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]
