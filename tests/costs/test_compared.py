"""A comparison leaves the cells as they are, and sets each beside the equal part of the period before: random hours, plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.costs.answer import CostRows, cost_steps
from streams.costs.day_parts import answered
from streams.costs.driver_cells import driver_sql
from streams.costs.request import request_of
from tests.new_store import begun
from tests.sinks.rows import rows

FIRST = datetime(2026, 1, 20, tzinfo=UTC)
HOURS = 80 * 24
CLUSTERS = ("a", "b", "c")
HOUR = timedelta(hours=1)
Sums = dict[tuple[datetime, str], int]
Rows = list[tuple[datetime, str, int]]


@pytest.fixture(scope="module")
def hours() -> Rows:
    """Hours with the cluster that paid, and nano-dollars; some clusters are gone for days."""
    rng = random.Random(7)
    return [
        (FIRST + at * HOUR, cluster, rng.randrange(1, 10**13))
        for at in range(HOURS)
        for cluster in CLUSTERS
        if rng.random() < 0.6 and (at // 200 + ord(cluster)) % 3
    ]


@pytest.fixture(scope="module")
def store(hours: Rows, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    opened = ClickHouseStore(Embedded(data_dir=begun(tmp_path_factory.mktemp("hours") / "meter")))
    paid = (
        {
            "hour": at,
            "job_id": "j",
            "attempt": 1,
            "cluster": cluster,
            "gpu_cost_usd": Decimal(nano).scaleb(-9),
        }
        for at, cluster, nano in hours
    )
    try:
        opened.insert("job_hours", rows("job_hours", *paid), "t")
        yield opened
    finally:
        opened.close()


def asked(store: ClickHouseStore, **words: str) -> CostRows:
    request = request_of({name.rstrip("_"): [word] for name, word in words.items()})
    return answered(cost_steps(request), store.ask)


def start_of(at: datetime, per: str) -> datetime:
    day = at.replace(hour=0)
    return {
        "hour": at, "day": day, "week": day - timedelta(days=at.weekday()), "month": day.replace(day=1),
    }[per]  # fmt: skip


def before(start: datetime, per: str) -> datetime:
    return start_of(start - HOUR, per)


def expected(hours: Rows, per: str, since: datetime, until: datetime) -> tuple[Sums, Sums]:
    """Return the cells, and those with which they are compared: each hour of a period by its distance from the start."""
    now: Counter[tuple[datetime, str]] = Counter()
    then: Counter[tuple[datetime, str]] = Counter()
    paid = Counter[tuple[datetime, str]]()
    for at, cluster, nano in hours:
        paid[at, cluster] += nano
        if since <= at < until:
            now[start_of(at, per), cluster] += nano
    starts = {start_of(since + at * HOUR, per) for at in range((until - since) // HOUR)}
    for start in starts:
        old = before(start, per)
        following = start_of(start + timedelta(days=32), per) if per == "month" else start + (start - old)
        first = old + (max(since, start) - start)
        # A whole period is compared with a whole one, also where months differ in length.
        last = start if until >= following else min(old + (until - start), start)
        for (at, cluster), nano in paid.items():
            if first <= at < last:
                then[start, cluster] += nano
    return now, then


def drawn(seed: int, per: str) -> tuple[datetime, datetime]:
    rng = random.Random(f"{per}{seed}")
    longest = 60 if per == "hour" else HOURS
    first = rng.randrange(HOURS - 2)
    return FIRST + first * HOUR, FIRST + rng.randrange(first + 1, min(HOURS, first + longest) + 1) * HOUR


@pytest.mark.parametrize("per", ["hour", "day", "week", "month"])
@pytest.mark.parametrize("seed", range(5))
def test_cells_are_those_without_a_comparison_beside_the_equal_part_before(
    store: ClickHouseStore, hours: Rows, per: str, seed: int
) -> None:
    since, until = drawn(seed, per)
    words = {"by": "cluster", "per": per, "from_": since.isoformat(), "to": until.isoformat()}
    alone = {(row["period_start"], row["cluster"]): row["cost_usd"] for row in asked(store, **words).rows}
    found = asked(store, **words, compare="previous").rows
    beside = {(row["period_start"], row["cluster"]): row for row in found}
    now, then = expected(hours, per, since, until)
    assert {key for key, row in beside.items() if row["cost_usd"]} == alone.keys()
    assert all(beside[key]["cost_usd"] == cost for key, cost in alone.items())
    keyed = {
        (datetime.fromisoformat(at), cluster): (int(row["cost_usd"].scaleb(9)), nano_of(row["previous_cost_usd"]))
        for (at, cluster), row in beside.items()
    }  # fmt: skip
    begun = min(at for at, _, _ in hours)
    # What nothing precedes at all is no rise.
    assert keyed == {
        key: (now.get(key, 0), then.get(key, 0) if key[0] > begun else None)
        for key in now.keys() | then.keys()
    }
    for row in found:
        before_usd = row["previous_cost_usd"]
        assert row["change_usd"] == (None if before_usd is None else row["cost_usd"] - before_usd)


def nano_of(usd: Decimal | None) -> int | None:
    return None if usd is None else int(usd.scaleb(9))


@pytest.mark.parametrize(
    ("words", "note", "has_before"),
    [
        (
            {"per": "week"},
            "1 row is not compared: costs begin at 2026-01-20T00:00:00Z, there is no time before",
            True,
        ),
        ({"from_": "2026-01-13", "to": "2026-01-27"}, "not compared: costs begin at 2026-01-20T00:00:00Z", False),
        (
            {"from_": "2026-01-24", "to": "2026-02-03"},
            "the time before is not all there: costs begin at 2026-01-20T00:00:00Z",
            True,
        ),
        ({"from_": "2026-02-10", "to": "2026-02-12"}, "", True),
    ],
)  # fmt: skip
def test_where_costs_begin_is_said_of_what_cannot_be_compared(
    store: ClickHouseStore, words: dict[str, str], note: str, *, has_before: bool
) -> None:
    found = asked(store, **words, compare="previous")
    assert found.note.startswith(note)
    assert bool(found.note) == bool(note)
    assert found.has_before == has_before
    assert all((row["change_usd"] is None) == (row["change_ratio"] is None) for row in found.rows)


def test_the_whole_span_is_compared_with_the_equally_long_one_before(
    store: ClickHouseStore, hours: Rows
) -> None:
    span = {"from_": "2026-02-10T06:00", "to": "2026-02-12T18:00"}
    (row,) = asked(store, **span, compare="previous").rows
    (alone,) = asked(store, **span).rows
    first, last = datetime(2026, 2, 7, 18, tzinfo=UTC), datetime(2026, 2, 10, 6, tzinfo=UTC)
    before_nano = sum(nano for at, _, nano in hours if first <= at < last)
    assert (row["cost_usd"], row["period_start"]) == (alone["cost_usd"], alone["period_start"])
    assert row["previous_cost_usd"] == Decimal(before_nano).scaleb(-9)


@pytest.mark.parametrize(
    ("zone", "since", "until", "before_from"),
    [
        ("", "2026-03-01T00:00", "2026-04-01T00:00", datetime(2026, 2, 1, tzinfo=UTC)),  # 31 days beside 28
        ("", "2026-03-01T00:00", "2026-03-31T00:00", datetime(2026, 1, 30, tzinfo=UTC)),  # 30 days beside 30
        # A day of 23 hours beside one of 24: clocks in Berlin go forward on 29 March.
        ("Europe/Berlin", "2026-03-29", "2026-03-30", datetime(2026, 3, 27, 23, tzinfo=UTC)),
        ("Europe/Berlin", "2026-03-01", "2026-04-01", datetime(2026, 1, 31, 23, tzinfo=UTC)),
    ],
)
def test_whole_months_and_days_are_compared_with_as_many_before(
    store: ClickHouseStore, hours: Rows, zone: str, since: str, until: str, before_from: datetime
) -> None:
    span = {"from_": since, "to": until} | ({"tz": zone} if zone else {})
    (row,) = asked(store, **span, compare="previous").rows
    begin = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone or "UTC"))
    before_nano = sum(nano for at, _, nano in hours if before_from <= at < begin)
    assert row["previous_cost_usd"] == Decimal(before_nano).scaleb(-9) > 0
    drivers = driver_sql(request_of({"from": [since], "to": [until], "tz": [zone], "compare": ["previous"]}))
    assert drivers[1]["begin_s"] == before_from.timestamp()


@pytest.mark.parametrize(
    ("metric", "column"), [("m4", "usd_per_hour"), ("m4", "peak_hour"), ("m2", "gpu_and_overhead_cost_usd")]
)
def test_the_metric_of_the_period_before_stands_beside_it(
    store: ClickHouseStore, metric: str, column: str
) -> None:
    words = {"metric": metric, "per": "month", "by": "cluster"}
    alone = {(row["cluster"], row["period_start"]): row[column] for row in asked(store, **words).rows}
    found = asked(store, **words, compare="previous")
    at = found.columns.index(column)
    assert found.columns[at + 1] == f"previous_{column}"
    assert all(tuple(row) == found.columns for row in found.rows)
    beside = {(row["cluster"], row["period_start"]): row[f"previous_{column}"] for row in found.rows}
    assert sum(value is not None for value in beside.values()) > 3
    for (cluster, start), value in beside.items():
        before = start_of(datetime.fromisoformat(start) - HOUR, "month")
        assert value == alone.get((cluster, before.strftime("%Y-%m-%dT%H:%M:%SZ")))


def test_a_limit_makes_no_cell_gone(store: ClickHouseStore) -> None:
    words = {"by": "cluster", "per": "week", "from_": "2026-02-04", "to": "2026-02-25"}
    alone = {(row["period_start"], row["cluster"]): row["cost_usd"] for row in asked(store, **words).rows}
    found = asked(store, **words, compare="previous", limit="4")
    assert found.is_cut
    assert len(found.rows) == 4
    for row in found.rows:
        assert row["cost_usd"] == alone.get((row["period_start"], row["cluster"]), 0)


def test_without_an_end_nothing_is_gone_after_the_newest_cell(store: ClickHouseStore) -> None:
    alone, compared = (asked(store, per="month", **more).rows for more in ({}, {"compare": "previous"}))
    assert [row["cost_usd"] for row in compared] == [row["cost_usd"] for row in alone]
    assert [row["previous_cost_usd"] for row in compared[1:]] == [row["cost_usd"] for row in alone[:-1]]
