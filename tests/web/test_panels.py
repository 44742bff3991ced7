"""Dashboards over the API: whoever may read asks for shipped panels, and for nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from sinks.clickhouse import ClickHouseStore
from streams.panels.panel import POINTS_MAX, STEPS_S, step_of
from streams.panels.registry import DASHBOARDS, PANELS
from streams.web.panels import Range, filled
from tests.web.log import AS_OF_MS, COST_A
from tests.web.serving import Client, served

DAY_MS = 86_400_000
RANGE = f"from_ms={AS_OF_MS - DAY_MS}&to_ms={AS_OF_MS}"


def get(store: ClickHouseStore | None, path: str, status: int = 200, **options: Any) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(f"/api/v1/{path}", status)

    return served(store, work, **options)


def test_the_dashboards_say_what_their_panels_answer() -> None:
    found = get(None, "dashboards")["dashboards"]
    assert [board["name"] for board in found] == ["executive", "oncall", "debug"]
    assert {panel["name"] for board in found for panel in board["panels"]} == set(PANELS)
    assert all(panel["answers"].endswith(".") for board in found for panel in board["panels"])


def test_names_are_of_one_panel_each() -> None:
    assert sum(len(board.panels) for board in DASHBOARDS) == len(PANELS)


def test_a_panel_has_its_rows_exactly_and_its_sql(store: ClickHouseStore) -> None:
    found = get(store, f"panels/top_jobs?{RANGE}")
    rows = [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
    costs = {row["job"]: row["cost"] for row in rows}
    assert costs["a"] == COST_A
    assert (found["to_ms"], found["step_ms"]) == (AS_OF_MS, 900_000)
    again = get(store, f"panels/months?{RANGE}")
    assert sum(Decimal(row[1]) for row in again["rows"]) == sum(map(Decimal, costs.values()))
    assert "{" not in found["sql"]


def test_a_job_is_bound_and_quoted(store: ClickHouseStore) -> None:
    found = get(store, f"panels/job_facts?{RANGE}&job=a")
    assert len(found["rows"]) == 1
    hostile = "x' OR 1=1 --"
    assert get(store, f"panels/job_facts?{RANGE}&job={hostile}")["rows"] == []
    sql = filled(PANELS["job_facts"], Range(1, 2, 1), "a\\'; DROP")
    assert "job_id = 'a\\\\\\'; DROP'" in sql


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"panels/nothing?{RANGE}", 404, "panel 'nothing': there is none"),
        ("panels/burn?from_ms=1", 400, "to_ms is missing"),
        ("panels/burn?from_ms=5&to_ms=x", 400, "to_ms: got 'x'"),
        ("panels/burn?from_ms=5&to_ms=5", 400, "from_ms must be before to_ms"),
        ("panels/burn?from_ms=0&to_ms=1780308000000", 400, "by 1,830 days at most"),
        (f"panels/job_cost?{RANGE}", 400, "is about one job: name it"),
        (f"panels/burn?{RANGE}&sql=SELECT", 400, "parameter 'sql' is unknown"),
    ],
)
def test_what_is_wrong_is_said(path: str, status: int, message: str) -> None:
    assert message in get(None, path, status)["error"]["message"]


@pytest.mark.parametrize("range_s", [1, 3_600, 86_400, 30 * 86_400, 365 * 86_400])
def test_a_range_has_steps_that_can_be_read(range_s: int) -> None:
    step_s = step_of(1_780_308_000, 1_780_308_000 + range_s)
    assert step_s in STEPS_S
    assert range_s / step_s <= POINTS_MAX
