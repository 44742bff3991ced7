"""GET /api/v1/costs: what the command answers, refusals that name the parameter, and the limits of users' SQL."""

from __future__ import annotations

import threading
from decimal import Decimal
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.config.settings import QuerySettings
from streams.costs.answer import cost_rows
from streams.costs.driver_cells import driver_rows
from tests.web.log import COST_A
from tests.web.serving import Client, served


def get(
    store: ClickHouseStore | None, text: str, status: int = 200, path: str = "costs", **options: Any
) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/{path}?{text}", status)

    return served(store, work, **options)


def test_m1_by_team_and_day(store: ClickHouseStore) -> None:
    found = get(store, "metric=m1&by=team&per=day&where=owner=ada")
    assert (found["metric"], found["by"], found["per"], found["is_cut"]) == ("m1", ["team"], "day", False)
    (row,) = found["rows"]
    assert (row["team"], row["period_start"], row["cost_usd"]) == ("vision", "2026-03-01T00:00:00Z", COST_A)
    assert row["usd_per_hour"] == pytest.approx(20)
    assert row["median_usd_per_hour"] == pytest.approx(20)
    assert row["wall_clock_h"] == pytest.approx(150 / 3600)


def test_names_of_one_level_mean_any_of_them_and_levels_all(store: ClickHouseStore) -> None:
    each = {row["job"]: row for row in get(store, "by=job")["rows"]}
    one, other = sorted(each)[:2]
    assert get(store, f"by=job&where=job={one}&where=job={other}&where=job=none")["rows"] == [
        row for name, row in each.items() if name in (one, other)
    ]
    of_both = get(store, f"by=job&where=job={one}&where=job={other}&where=owner=ada")["rows"]
    assert [row["job"] for row in of_both] == [
        row["job"] for row in get(store, "by=job&where=owner=ada")["rows"] if row["job"] in (one, other)
    ]
    assert len(each) > len(of_both) > 0


def test_the_limit_cuts_and_says_so(store: ClickHouseStore) -> None:
    found = get(store, "by=job&limit=1")
    assert (len(found["rows"]), found["is_cut"]) == (1, True)


def test_a_cut_of_a_comparison_says_how_many_rows_are_left_out(store: ClickHouseStore) -> None:
    found = get(store, "by=job&limit=1&per=day&compare=previous")
    assert (found["is_cut"], found["left_out"]) == (True, 2)
    found = get(store, "by=job&limit=1")
    assert (found["is_cut"], found["left_out"]) == (True, None), "one row more than the limit was asked for"
    assert get(store, "by=job")["left_out"] == 0


def test_from_when_to_when_there_are_costs(store: ClickHouseStore) -> None:
    found = get(store, "", path="costs/span")
    assert found == {
        "first_hour": "2026-03-01T12:00:00Z",
        "end_hour": "2026-03-01T13:00:00Z",
        "as_of": "2026-03-01T12:10:00Z",
        "billed_until": None,
        "currencies": [],
        "label_gaps": [],
    }


def test_the_month_so_far_without_a_day_to_judge_the_rest_by(store: ClickHouseStore) -> None:
    found = get(store, "", path="costs/month")
    (total,) = get(store, "")["rows"]
    assert (found["month"], found["spent_usd"], found["left_h"]) == (
        "2026-03",
        total["cost_usd"],
        30 * 24 + 11,
    )
    assert (found["forecast_usd"], found["basis_days"]) == (None, 0)
    of_vision = get(store, "where=team=vision", path="costs/month")
    assert of_vision["spent_usd"] == COST_A
    error = get(store, "by=team", 400, path="costs/month")["error"]
    assert error["message"] == "parameter 'by' is unknown; expected where"


def test_the_change_and_what_explains_it(store: ClickHouseStore) -> None:
    found = get(store, "from=2026-03-01T13:00&to=2026-03-01T14:00&compare=previous&drivers=1")
    (row,) = found["rows"]
    assert (row["cost_usd"], row["change_usd"]) == ("0.000000000", f"-{row['previous_cost_usd']}")
    first, others = found["drivers"]
    assert (first["job"], first["component"], first["quantity_effect_usd"]) == ("a", "gpu", f"-{COST_A}")
    assert Decimal(first["change_usd"]) + Decimal(others["change_usd"]) == Decimal(row["change_usd"])


def test_what_nothing_precedes_has_no_change_and_nothing_that_explains_it(store: ClickHouseStore) -> None:
    found = get(store, "from=2026-03-01T12:00&to=2026-03-01T13:00&compare=previous&drivers=1")
    (row,) = found["rows"]
    assert (row["previous_cost_usd"], row["change_usd"], row["change_ratio"]) == (None, None, None)
    assert found["note"] == "not compared: costs begin at 2026-03-01T12:00:00Z, there is no time before"
    assert found["drivers"] == []


@pytest.mark.parametrize("level", ["team", "cluster"])
def test_the_drivers_of_any_level_sum_to_the_change(store: ClickHouseStore, level: str) -> None:
    found = get(store, f"from=2026-03-01T13:00&to=2026-03-01T14:00&compare=previous&drivers=9&by={level}")
    changes = [sum(Decimal(row["change_usd"]) for row in rows) for rows in (found["rows"], found["drivers"])]
    assert changes[0] == changes[1] < 0


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("metric=m99", "metric: got 'm99', expected one of total, m1"),
        ("metrik=m1", "parameter 'metrik' is unknown"),
        ("per=day&per=week", "per: given twice"),
        ("by=quantity", "by: level 'quantity' is unknown"),
        ("from=tomorrow", "from: 'tomorrow' is no date"),
        ("limit=10001", "limit: got '10001', expected 1 to 10000"),
        ("where=team", "where: 'team' is no condition"),
    ],
)
def test_what_is_wrong_is_named(store: ClickHouseStore, query: str, message: str) -> None:
    error = get(store, query, 400)["error"]
    assert error["code"] == "bad_request"
    assert error["message"].startswith(message)


def test_a_name_is_a_value_and_no_sql(store: ClickHouseStore) -> None:
    assert get(store, "by=label:x'`%22)--&where=team=' OR 1=1 --")["rows"] == []


def test_a_large_answer_is_made_off_the_event_loop(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def watched(make: Any) -> Any:
        def made(*arguments: Any) -> Any:
            threads.append(threading.get_ident())
            return make(*arguments)

        return made

    monkeypatch.setattr("streams.costs.answer.cost_rows", watched(cost_rows))
    monkeypatch.setattr("streams.costs.driver_cells.driver_rows", watched(driver_rows))
    get(store, "from=2026-03-01T13:00&to=2026-03-01T14:00&compare=previous&drivers=1")
    assert len(threads) == 2
    assert threading.get_ident() not in threads


def test_it_runs_within_the_limits_of_sql(store: ClickHouseStore) -> None:
    off = get(store, "", 503, query=QuerySettings(enabled=False))
    assert off["error"]["code"] == "queries_off"
    assert get(None, "", 503)["error"]["code"] == "starting"
