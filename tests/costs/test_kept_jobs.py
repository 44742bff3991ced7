"""Job minutes that are kept ready by day: what a month is charged from and what explains a change stay what minutes say."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from schemas.job_days_table import JOB_DAYS
from schemas.reserved import USERS_JOBS
from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from streams.costs import charge_sql, month_reader
from streams.costs.charge_lines import Metered
from streams.costs.charge_sql import BillCost
from streams.costs.day_parts import answered
from streams.costs.driver_cells import driver_rows, driver_sql, driver_steps
from streams.costs.kept_days import Day
from streams.costs.kept_jobs import kept_jobs
from streams.costs.month_reader import MonthReader
from streams.costs.month_store import OpenMonthStore
from streams.costs.parts import HourSpan
from streams.costs.request import request_of
from streams.worker.storing.balances import ended_days, keep_settled
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

FIRST: Final = instant("2026-04-29 00:00")
DAYS: Final = 5
DAY_S: Final = 86_400
CANARY: Final = "trainfare-canary.1"
PAID: Final = (
    ("gpu", "h100", "gpu_milli_ms"),
    ("gpu", "a100", "gpu_milli_ms"),
    ("compute", "cpu", "vcpu_ms"),
    ("network", "egress", "bytes"),
    ("storage", "", "mib_ms"),
    ("license", "l", "ms"),
    ("labor", "l", "ms"),
    ("overhead", "pue", "gpu_milli_ms"),
    ("compliance", "pii", "gpu_milli_ms"),
)
#: As it was asked before days were kept: what each attempt was metered on each node and day.
OF_MINUTES: Final = f"""
SELECT job_id, attempt, toInt64(toDate(minute)) AS day, node,
    toInt64(sumIf(cost_usd, component IN ('gpu', 'compute', 'network', 'storage')) * 1000000000) AS usd_nano,
    sumIf(quantity, component = 'gpu') AS gpu_milli_ms,
    toInt64(sumIf(cost_usd, component = 'license') * 1000000000) AS license_nano,
    toInt64(sumIf(cost_usd, component = 'labor') * 1000000000) AS labor_nano,
    toInt64(sumIf(cost_usd, component IN ('overhead', 'compliance')) * 1000000000) AS overhead_nano
FROM job_minutes FINAL
WHERE quantity != 0 AND {USERS_JOBS} AND minute >= {{first:String}} AND minute < {{until:String}}
    AND (empty({{days:Array(Int64)}}) OR has({{days:Array(Int64)}}, toInt64(toDate(minute))))
GROUP BY job_id, attempt, day, node
ORDER BY job_id, attempt, day, node
"""


def lines_of(draw: random.Random, hour: datetime, version: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Minutes of a random job in an hour, and the hours that any change of them writes."""
    job = draw.choice(["a", "b", "c", CANARY])
    attempt, node = draw.randint(1, 2), draw.choice(["", "n1", "n2"])
    minutes = [
        {
            "minute": hour + timedelta(minutes=draw.randrange(60)),
            "job_id": job,
            "attempt": attempt,
            "node": node,
            "component": component,
            "sku": sku,
            "unit": unit,
            "phase": draw.choice(["running", "starting"]),
            "quantity": draw.choice([0, draw.randrange(1, 10**15)]),
            "cost_usd": Decimal(draw.randrange(10**17)).scaleb(-9),
            "version": version,
        }
        for component, sku, unit in draw.sample(PAID, draw.randint(1, 4))
    ]
    of_job = {"hour": hour, "job_id": job, "attempt": attempt, "version": version}
    of_node = {"hour": hour, "node": "n1", "paid_ms": 3_600_000, "version": version}
    return minutes, [of_job], [of_node] if draw.random() < 0.3 else []


def put(store: ClickHouseStore, draw: random.Random, count: int, version: int) -> None:
    """Store random minutes anywhere in the days, with their hours."""
    lines: dict[str, list[Any]] = {JOB_MINUTES: [], JOB_HOURS: [], NODE_HOURS: []}
    for _ in range(count):
        hour = FIRST + timedelta(hours=draw.randrange(24 * DAYS))
        for values, more in zip(lines.values(), lines_of(draw, hour, version), strict=True):
            values.extend(more)
    for table, values in lines.items():
        if values:
            store.insert(table, rows(table, *values), f"{table} {version}")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "meter") as store:
        store.insert(JOBS, rows(JOBS, *({"job_id": each, "team": f"t-{each}"} for each in "abc")), "jobs")
        yield store


class Asked(OpenMonthStore):
    """A store that notes what is asked of it."""

    def __init__(self, store: ClickHouseStore) -> None:
        super().__init__(store)
        self.statements: list[str] = []

    def ask(self, sql: str, **parameters: object) -> Any:
        self.statements.append(sql)
        return super().ask(sql, **parameters)


def reader(store: ClickHouseStore, hours: HourSpan) -> tuple[MonthReader, Asked]:
    asked = Asked(store)
    span = {"first": "2026-04-01", "until": "2026-05-01"}
    return MonthReader(asked, span, ("team",), BillCost.effective, hours), asked


def metered(store: ClickHouseStore, span: dict[str, str], days: list[int]) -> list[Metered]:
    made, _ = reader(store, HourSpan(*(round(instant(each).timestamp() * 1000) for each in span.values())))
    return made._used(span, days, {}, {})[0]


def is_as_minutes(store: ClickHouseStore, draw: random.Random) -> None:
    """Compare random spans: whole days, parts of days, and single days."""
    for _ in range(4):
        begin_h = draw.choice([0, 24, 48, draw.randrange(24 * DAYS)])
        end_h = draw.choice([24 * DAYS, 96, begin_h + draw.randint(1, 50)])
        begin, end = (FIRST + timedelta(hours=each) for each in (begin_h, max(end_h, begin_h + 1)))
        span = {"first": f"{begin:%Y-%m-%d %H:%M:%S}", "until": f"{end:%Y-%m-%d %H:%M:%S}"}
        first_day = int(FIRST.timestamp()) // DAY_S
        days = draw.choice([[], sorted(draw.sample(range(first_day, first_day + DAYS), 2))])
        want = [tuple(row) for row in store.ask(OF_MINUTES, {**span, "days": days}).rows()]
        found = metered(store, span, days)
        assert [(each.job_id, each.day, each.node, *each[6:]) for each in found] == [
            (job, day, node, *sums) for job, _, day, node, *sums in want
        ]


def causes(store: ClickHouseStore, draw: random.Random) -> None:
    """Compare what explains a change with and without days that are kept."""
    begin = FIRST + timedelta(hours=draw.choice([24, 48, draw.randrange(24, 72)]))
    end = begin + timedelta(hours=draw.choice([24, 48, draw.randrange(1, 48)]))
    options = {"by": [draw.choice(["job", "team"])], "drivers_by_sku": [draw.choice(["", "1"])]}
    where = draw.choice([{}, {"where": ["team=t-a"]}])
    span = {"from": [f"{begin:%FT%H:%M}"], "to": [f"{end:%FT%H:%M}"]}
    request = request_of({"compare": ["previous"], "drivers": ["50"], **span, **options, **where})
    answer = store.ask(*driver_sql(request))
    assert answered(driver_steps(request), store.ask) == driver_rows(
        request, answer.names, list(answer.rows())
    )


@pytest.mark.parametrize("seed", range(3))
def test_kept_days_say_what_their_minutes_say_also_after_late_rows(
    store: ClickHouseStore, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(month_reader, "PAGE_ROWS", 3)
    draw = random.Random(seed)
    put(store, draw, 60, 1)
    is_as_minutes(store, draw)
    for version in (2, 3, 4):
        keep_settled(store)
        assert all(day.has_jobs for day in ended_days(store) if day.job_hours)
        is_as_minutes(store, draw)
        causes(store, draw)
        put(store, draw, draw.randint(1, 4), version)  # late events, prices and restatements
        is_as_minutes(store, draw)
        causes(store, draw)


def test_of_whole_days_that_are_kept_no_minute_is_read(store: ClickHouseStore) -> None:
    put(store, random.Random(1), 200, 1)
    april = HourSpan(round(FIRST.timestamp() * 1000), round((FIRST + timedelta(days=2)).timestamp() * 1000))
    made, asked = reader(store, april)
    made.month()
    assert [sql for sql in asked.statements if "FROM job_minutes" in sql and "usd_nano" in sql]
    keep_settled(store)
    made, asked = reader(store, april)
    made.month()
    of_amounts = [sql for sql in asked.statements if "usd_nano" in sql and "gpu_milli_ms" in sql]
    assert [sql for sql in of_amounts if "job_days" in sql]
    assert not [sql for sql in of_amounts if "job_minutes" in sql]


def test_days_of_jobs_alone_are_kept_once_and_anew_after_a_late_hour(store: ClickHouseStore) -> None:
    for at in range(3):
        hour = FIRST + timedelta(days=at)
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"minute": hour, "quantity": 5}), f"m{at}")
        store.insert(JOB_HOURS, rows(JOB_HOURS, {"hour": hour}), f"h{at}")
    assert [day.has_jobs for day in ended_days(store)] == [False, False]
    keep_settled(store)
    assert [day.has_jobs for day in ended_days(store)] == [True, True]
    store.insert(JOB_HOURS, rows(JOB_HOURS, {"hour": FIRST, "version": 2}), "late")
    assert [day.has_jobs for day in ended_days(store)] == [False, True]
    keep_settled(store)
    stamps = store.ask("SELECT toDate(day) AS of_day, uniqExact(stamp) FROM job_days GROUP BY of_day", {})
    assert [int(str(row[1])) for row in stamps.rows()] == [1, 1]


def test_a_day_without_its_last_row_is_read_by_minute(store: ClickHouseStore) -> None:
    draw = random.Random(2)
    put(store, draw, 60, 1)
    keep_settled(store)
    store.delete(JOB_DAYS, [Condition("job_id", "=", "")])  # as after a crash before it
    assert not any(day.has_jobs for day in ended_days(store))
    is_as_minutes(store, draw)


def test_sums_beyond_64_bits_are_kept_as_minutes_add_them(store: ClickHouseStore) -> None:
    draw = random.Random(3)
    large = {"quantity": 2**63 - 1, "cost_usd": Decimal("900000000")}
    for at in range(2):
        hour = FIRST + timedelta(days=at)
        minutes = [
            {"minute": hour + timedelta(minutes=each), "component": component, **large}
            for each in range(3)
            for component in ("gpu", "network")
        ]
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, *minutes), f"m{at}")
        store.insert(JOB_HOURS, rows(JOB_HOURS, {"hour": hour}), f"h{at}")
    keep_settled(store)
    (row,) = store.ask(
        "SELECT quantity, cost_usd FROM job_days FINAL WHERE component = 'network'", {}
    ).records()
    assert (int(row["quantity"]), row["cost_usd"]) == (3 * (2**63 - 1), Decimal("2700000000"))
    causes(store, draw)


def test_a_large_day_is_kept_in_parts(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(4)
    put(store, draw, 120, 1)
    monkeypatch.setattr("streams.worker.storing.balances._JOB_HOURS_MAX", 3)
    keep_settled(store)
    assert any(day.job_hours > 9 for day in ended_days(store))
    is_as_minutes(store, draw)


def day(number: int, *, has_jobs: bool) -> Day:
    return Day(DAY_S * number, 0, 0, False, 24, number, has_jobs)


def test_a_span_is_read_from_kept_days_and_minutes_of_all_others() -> None:
    days = [day(1, has_jobs=True), day(2, has_jobs=True), day(3, has_jobs=False), day(4, has_jobs=True)]
    made = kept_jobs([HourSpan(DAY_S * 1000 + 1, 6 * DAY_S * 1000)], days)
    assert made.parameters == {
        "rest_0": DAY_S,
        "rest_end_0": 2 * DAY_S,
        "rest_1": 3 * DAY_S,
        "rest_end_1": 4 * DAY_S,
        "rest_2": 5 * DAY_S,
        "rest_end_2": 6 * DAY_S,
        "job_days": [2 * DAY_S, 4 * DAY_S],
        "job_stamps": [2, 4],
    }
    assert made.rest.count(" OR ") == 2
    # The day in which one of two spans ends is in neither of them.
    half = DAY_S * 2500
    two = kept_jobs([HourSpan(DAY_S * 1000, half), HourSpan(half, 5 * DAY_S * 1000)], days)
    assert two.parameters["job_days"] == [DAY_S, 4 * DAY_S]
    nothing = kept_jobs([HourSpan(DAY_S * 1000, 3 * DAY_S * 1000)], days)
    assert nothing.rest == ""
    assert charge_sql.metered_sql(nothing).count("job_minutes") == 0
