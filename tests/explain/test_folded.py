"""Equal minutes in a row come from the store as one record, and explain a job as its rows would, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ATTEMPTS, JOB_MINUTES, JOBS, PRICES
from sinks.clickhouse import ClickHouseStore
from streams.explain import job as explain_job
from streams.explain.intervals import merged
from streams.explain.spans import rows_by_key
from tests.sinks.rows import MINUTE, dicts, rows
from tests.sinks.stores import embedded

HOURS = 3 * 60
PRICE_CHANGE = MINUTE + timedelta(minutes=50)
# The rows as they stand, one by one.
ONE_BY_ONE = """
SELECT l.*, p.per AS per, p.gpus AS gpus, p.match AS match, a.started AS started, a.ended AS ended
FROM (SELECT * EXCEPT (job_id, shard, version) FROM job_minutes FINAL WHERE job_id = 'j' AND quantity != 0) AS l
LEFT JOIN (SELECT attempt, started, ended FROM attempts FINAL WHERE job_id = 'j') AS a ON a.attempt = l.attempt
LEFT JOIN (SELECT sku, effective, per, gpus, match FROM prices FINAL) AS p
  ON p.sku = l.sku AND p.effective = l.price_effective
"""


def minute(at: int, **named: Any) -> dict[str, Any]:
    """A minute of the job; half of its cost is lost in the second hour."""
    is_new = at >= 50
    return {
        "minute": MINUTE + timedelta(minutes=at),
        "sku": "h100",
        "price_effective": PRICE_CHANGE if is_new else MINUTE,
        "price_usd": Decimal(3 if is_new else 2),
        "quantity": 480_000_000,
        "cost_usd": Decimal("0.4") if is_new else Decimal("0.266666667"),
        "lost_quantity": 240_000_000 * (60 <= at < 120),
        "lost_cost_usd": Decimal("0.2") * (60 <= at < 120),
    } | named


def written() -> list[dict[str, Any]]:
    """Minutes with a price change, a gap, a restated minute, a second node, and traffic two ways."""
    gap = range(20, 23)
    found = [minute(at, node=node) for at in range(HOURS) if at not in gap for node in ("n1", "n2")]
    found.append(minute(10, node="n1", quantity=240_000_000, cost_usd=Decimal("0.133333333"), version=2))
    found.append(minute(130, node="n2", quantity=0, cost_usd=Decimal(0), version=2))
    traffic = {
        "component": "network",
        "phase": "",
        "unit": "bytes",
        "lost_quantity": 0,
        "lost_cost_usd": Decimal(0),
    }
    found += [
        minute(at, **traffic, path=path, quantity=10**6 + at // 7)
        for at in range(60)
        for path in ("nat", "internet")
    ]
    return found


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("folded")) as found:
        prices = [{"sku": "h100", "effective": at, "per": "gpu_hour"} for at in (MINUTE, PRICE_CHANGE)]
        started = {
            "started": MINUTE + timedelta(seconds=30),
            "ended": MINUTE + timedelta(minutes=HOURS, seconds=-1),
        }
        for table, lines in (
            (JOB_MINUTES, written()),
            (JOBS, [{"job_id": "j"}]),
            (ATTEMPTS, [{"job_id": "j", **started}]),
            (PRICES, prices),
        ):
            found.insert(table, rows(table, *lines), table)
        yield found


@pytest.fixture
def folded(store: ClickHouseStore) -> list[dict[str, Any]]:
    answer = store.ask(explain_job._ROWS, {"job": "j"})
    return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]


@pytest.mark.parametrize("by_minute", [False, True])
def test_folded_minutes_are_explained_as_the_rows_one_by_one(
    store: ClickHouseStore, folded: list[dict[str, Any]], by_minute: bool
) -> None:
    single = [{name.removeprefix("l."): row[name] for name in row} for row in dicts(store, ONE_BY_ONE)]
    assert len(single) == 2 * (HOURS - 3) - 1 + 120
    assert merged(folded, by_minute=by_minute) == merged(single, by_minute=by_minute)
    assert rows_by_key(folded) == rows_by_key(single)


def test_a_record_is_moved_for_a_run_of_minutes_not_for_each(folded: list[dict[str, Any]]) -> None:
    gpu = {node: sorted(row["minutes"] for row in folded if row["node"] == node) for node in ("n1", "n2")}
    assert gpu["n1"] == [1, 9, 10, 10, 27, 60, 60], "the restated minute, the gap, the price, what was lost"
    assert gpu["n2"] == [10, 10, 20, 27, 49, 60]
    traffic = [row for row in folded if row["component"] == "network"]
    assert len(traffic) == 2 * (9 + 1), "the amount changes each seven minutes, the price once"


def test_explained_sums_to_what_is_booked(store: ClickHouseStore, folded: list[dict[str, Any]]) -> None:
    found = explain_job.explained(store, "j", by_minute=True)
    assert found is not None
    assert len(found.intervals) == sum(row["minutes"] for row in folded)
    assert found.total_usd == sum(row["minutes"] * row["cost_usd"] for row in folded)
